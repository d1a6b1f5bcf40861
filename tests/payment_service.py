"""A payment provider on a port of its own, which can be told to fail in every way that a real one does.

What it does follows from the token: `accept`, `decline`; `busy` and `throttled`, it refuses twice and then accepts;
`pending`, it has not made up its mind; `dies`, it takes the money and drops the connection; `hangs`, it answers
nothing, and `hangs late`, it takes the money first; `garbled`, it answers what nobody understands. Once `is_back` it
accepts.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

REFUSED_AT_FIRST = 2
_REASONS = {200: "OK", 402: "Payment Required", 404: "Not Found", 429: "Too Many Requests", 503: "Service Unavailable"}


@dataclass(frozen=True)
class Asked:
    """A request that the service was sent."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class _Dropped(Exception):
    """The connection is closed without an answer."""


@dataclass
class PaymentService:
    """`outcomes` is what each reference came to; `taken` what was taken from cards, and under which reference."""

    url: str = ""
    is_back: bool = False
    asked: list[Asked] = field(default_factory=list)
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    taken: list[tuple[str, int]] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    def methods(self) -> list[str]:
        return [asked.method for asked in self.asked]

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request after the other, until the connection is closed."""
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, _Dropped):
            while True:
                asked = await _read(reader)
                self.asked.append(asked)
                status, told = await self._decide(asked)
                content = told if isinstance(told, bytes) else orjson.dumps(told)
                head = f"HTTP/1.1 {status} {_REASONS[status]}\r\ncontent-length: {len(content)}\r\n\r\n"
                writer.write(head.encode() + content)
                await writer.drain()
        writer.close()

    async def _decide(self, asked: Asked) -> tuple[int, Any]:
        if asked.method == "GET":
            found = self.outcomes.get(asked.path.rpartition("/")[2])
            return (404, {}) if found is None else (200, found)
        reference, token = asked.headers["idempotency-key"], asked.body["token"]
        if token in {"busy", "throttled"} and self.refused[reference] < REFUSED_AT_FIRST:
            self.refused[reference] += 1
            return (503 if token == "busy" else 429), {"status": "declined"}
        if token == "hangs" and not self.is_back:
            await self.gone.wait()
        if token == "pending" and not self.is_back:
            return 200, {"status": "pending"}
        if token == "garbled" and not self.is_back:
            return 200, b"<html>Welcome</html>"
        outcome = self._charge(reference, token, asked.body["amount"])
        if token == "dies" and not self.is_back:
            raise _Dropped
        if token == "hangs late" and not self.is_back:
            await self.gone.wait()
        return (402 if outcome["status"] == "declined" else 200), outcome

    def _charge(self, reference: str, token: str, amount: int) -> dict[str, Any]:
        if reference not in self.outcomes:
            if token == "decline":
                self.outcomes[reference] = {"status": "declined", "message": "The card has expired."}
            else:
                self.taken.append((reference, amount))
                self.outcomes[reference] = {"status": "charged", "id": f"ch-{len(self.taken)}"}
        return self.outcomes[reference]


async def _read(reader: asyncio.StreamReader) -> Asked:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, orjson.loads(body) if body else None)


@contextlib.asynccontextmanager
async def payment_service() -> AsyncIterator[PaymentService]:
    """A running service."""
    service = PaymentService()
    server = await asyncio.start_server(service.answer, "127.0.0.1", 0)
    service.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield service
    finally:
        service.gone.set()
        server.close()
