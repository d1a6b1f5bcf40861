"""A payment service for tests. It takes no money, and can simulate every failure of a provider.

It answers the requests of `gateway.payments.provider`, below any path. The token of a charge determines what happens.
It makes a charge or a refund once for each key. With a file, it writes each of them before it answers, so that it knows
them after a restart.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any

import orjson

from .tokens import TOKENS, Token

_REFUSALS = {Token.BUSY: HTTPStatus.SERVICE_UNAVAILABLE, Token.THROTTLED: HTTPStatus.TOO_MANY_REQUESTS}
_REFUSED_AT_FIRST = 2
_CHARGES, _REFUNDS = "/charges", "/refunds"


@dataclass(frozen=True)
class Asked:
    """A request to the service."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any


class _Dropped(Exception):
    """The connection is closed without an answer."""


def _discard(_line: str) -> None:
    """Reports nothing."""


@dataclass
class PaymentService:
    """The service. `outcomes` has the outcome of each charge and each refund by key.

    `report` gets a line about each request.
    """

    seconds: float = 20.0
    file: Path | None = None
    report: Callable[[str], None] = _discard
    outcomes: dict[str, dict[str, Any]] = field(default_factory=dict)
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    _begun: dict[str, float] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)
    _connections: set[asyncio.Task[Any]] = field(default_factory=set)

    def load_charges(self) -> None:
        """Reads the charges from the file. Raises ValueError if it is another kind of file."""
        if self.file is not None and self.file.exists():
            for line in self.file.read_bytes().splitlines():
                charge = orjson.loads(line)
                if not isinstance(charge, dict) or not {"key", "status"} <= charge.keys():
                    raise ValueError("a line is not a charge")
                self.outcomes[charge.pop("key")] = charge

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers one request after the other, until the connection is closed."""
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            while True:
                status, answer = await self._respond_to(reader)
                # After an invalid request, the start of the next one is unknown.
                keep_alive = status is not HTTPStatus.BAD_REQUEST
                writer.write(self.encoded(status, answer, keep_alive=keep_alive))
                await writer.drain()
                if not keep_alive:
                    break
        except (asyncio.IncompleteReadError, ConnectionError, _Dropped, asyncio.CancelledError):
            # The task is cancelled only when the service stops.
            pass
        finally:
            self._connections.discard(task)
            writer.close()

    def encoded(self, status: HTTPStatus, answer: Any, *, keep_alive: bool) -> bytes:
        content = answer if isinstance(answer, bytes) else orjson.dumps(answer)
        head = f"HTTP/1.1 {status} {status.phrase}\r\ncontent-length: {len(content)}\r\n"
        head += "\r\n" if keep_alive else "connection: close\r\n\r\n"
        return head.encode() + content

    async def _respond_to(self, reader: asyncio.StreamReader) -> tuple[HTTPStatus, Any]:
        try:
            return await self.respond(await _read(reader))
        except (ValueError, LookupError, TypeError, asyncio.LimitOverrunError) as error:
            return HTTPStatus.BAD_REQUEST, {"message": f"This is not a valid request for a charge: {error!r}"}

    async def respond(self, asked: Asked) -> tuple[HTTPStatus, Any]:
        """Returns the answer. Raises ValueError, LookupError or TypeError for an invalid request."""
        if self.dead.is_set():
            raise _Dropped
        if asked.method == "GET":
            found = self.outcomes.get(_key_at(asked.path))
            self.report(f"outcome requested by GET: {'unknown' if found is None else found['status']}")
            return (HTTPStatus.NOT_FOUND, {}) if found is None else (HTTPStatus.OK, found)
        if asked.method == "POST" and asked.path.endswith(_REFUNDS):
            return self._refund(asked.headers["idempotency-key"], str(asked.body["charge"]), int(asked.body["amount"]))
        if asked.method != "POST" or not asked.path.endswith(_CHARGES):
            return HTTPStatus.NOT_FOUND, {}
        key, given, amount = asked.headers["idempotency-key"], str(asked.body["token"]), int(asked.body["amount"])
        self.report(f"charge of {amount} {asked.body['currency']} with the token {given}")
        if given not in TOKENS:
            message = f"Unknown token. The service knows: {', '.join(TOKENS)}."
            return self._outcome(key, {"status": "declined", "message": message})
        return await self._decide(key, Token(given), amount)

    def _refund(self, key: str, charge: str, amount: int) -> tuple[HTTPStatus, Any]:
        """Gives the money of a charge back, once for each key, and never more than was taken."""
        self.report(f"refund of {amount} for {charge}")
        made = [found for found in self.outcomes.values() if found.get("id") == charge]
        given = sum(found["amount"] for found in self.outcomes.values() if found.get("charge") == charge)
        if key not in self.outcomes and (not made or given + amount > made[0]["amount"]):
            return self._outcome(key, {"status": "declined", "message": "The charge has no such money."})
        refunded = {"status": "refunded", "id": f"re-{len(self.outcomes) + 1}", "charge": charge, "amount": amount}
        return self._outcome(key, refunded)

    async def _decide(self, key: str, token: Token, amount: int) -> tuple[HTTPStatus, Any]:
        left = self._begun.setdefault(key, time.monotonic()) + self.seconds - time.monotonic()
        if token in _REFUSALS and self._refused[key] < _REFUSED_AT_FIRST:
            self._refused[key] += 1
            return _REFUSALS[token], {}
        if token is Token.DECLINE:
            return self._outcome(key, {"status": "declined", "message": "The card has expired."})
        if left > 0 and token is Token.PENDING:
            return HTTPStatus.OK, {"status": "pending"}
        if left > 0 and token is Token.GARBLED:
            return HTTPStatus.OK, b"<html>Welcome</html>"
        if left > 0 and token is Token.HANG:
            await asyncio.sleep(left)
            raise _Dropped
        is_new = key not in self.outcomes
        answer = self._outcome(key, {"status": "charged", "id": f"ch-{len(self.taken()) + 1}", "amount": amount})
        await self._withhold_answer(token, left, is_new=is_new)
        return answer

    async def _withhold_answer(self, token: Token, left: float, *, is_new: bool) -> None:
        """Raises _Dropped or delays the answer, as the token says."""
        if token is Token.DIE and is_new:
            self.dead.set()
            raise _Dropped
        if left > 0 and token in {Token.DROP, Token.HANG_LATE}:
            await asyncio.sleep(left if token is Token.HANG_LATE else 0)
            raise _Dropped

    def _outcome(self, key: str, outcome: dict[str, Any]) -> tuple[HTTPStatus, dict[str, Any]]:
        """Returns the first outcome of the charge. Stores this one if it is the first."""
        if key not in self.outcomes:
            self._keep(key, outcome)
            self.outcomes[key] = outcome
            self.report(" ".join(["  outcome:", outcome["status"], outcome.get("id", "")]).rstrip())
        known = self.outcomes[key]
        return (HTTPStatus.PAYMENT_REQUIRED if known["status"] == "declined" else HTTPStatus.OK), known

    def _keep(self, key: str, outcome: dict[str, Any]) -> None:
        if self.file is not None:
            with self.file.open("ab") as file:
                file.write(orjson.dumps({"key": key, **outcome}) + b"\n")

    def taken(self) -> list[tuple[str, int]]:
        """Returns the keys and amounts of the charges that took money."""
        return [(key, found["amount"]) for key, found in self.outcomes.items() if found["status"] == "charged"]

    async def close_connections(self) -> None:
        """Closes all connections without further answers."""
        connections = list(self._connections)
        for connection in connections:
            connection.cancel()
        await asyncio.gather(*connections, return_exceptions=True)


def _key_at(path: str) -> str:
    return path.rpartition("/")[2]


async def _read(reader: asyncio.StreamReader) -> Asked:
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = lines[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Asked(method, path, headers, orjson.loads(body) if body else {})


@contextlib.asynccontextmanager
async def running(service: PaymentService, listening: socket.socket) -> AsyncIterator[None]:
    """Serves on the socket until the context ends."""
    server = await asyncio.start_server(service.answer, sock=listening)
    try:
        yield
    finally:
        server.close()
        await service.close_connections()


async def serve(service: PaymentService, listening: socket.socket) -> bool:
    """Serves until a signal stops it or the token `die` does. Returns whether it was the token."""
    stopping = asyncio.Event()
    for ending in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(ending, stopping.set)
    async with running(service, listening):
        ends = [asyncio.create_task(event.wait()) for event in (stopping, service.dead)]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()
    return service.dead.is_set()
