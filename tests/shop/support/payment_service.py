"""A payment service for tests that records its requests."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

from portico.gateway.cli import server
from portico.gateway.payments import service as payment_service
from portico.gateway.payments.service import Asked

# Longer than any test.
_FOR_EVER = 3600.0


@dataclass
class PaymentService(payment_service.PaymentService):
    """A service that fails until `is_back`. Until then, if `strange` is set, it is the answer to every request.

    `connections` counts the connections that were opened to it.
    """

    seconds: float = _FOR_EVER
    url: str = ""
    strange: bytes = b""
    asked: list[Asked] = field(default_factory=list)
    connections: int = 0

    @property
    def is_back(self) -> bool:
        return self.seconds == 0

    @is_back.setter
    def is_back(self, is_back: bool) -> None:
        self.seconds = 0 if is_back else _FOR_EVER

    def methods(self) -> list[str]:
        return [asked.method for asked in self.asked]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        await super().answer(reader, writer)

    async def respond(self, asked: Asked) -> tuple[HTTPStatus, Any]:
        self.asked.append(asked)
        return (HTTPStatus.OK, {}) if self._is_strange() else await super().respond(asked)

    def encoded(self, status: HTTPStatus, answer: Any, *, keep_alive: bool) -> bytes:
        return self.strange if self._is_strange() else super().encoded(status, answer, keep_alive=keep_alive)

    def _is_strange(self) -> bool:
        return bool(self.strange) and not self.is_back


@contextlib.asynccontextmanager
async def running_payment_service() -> AsyncIterator[PaymentService]:
    """Runs the service on a free port."""
    service = PaymentService()
    listening = server.bind("127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    async with payment_service.running(service, listening):
        yield service
