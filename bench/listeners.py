"""Clients for the bench of subscriptions: they subscribe, then count what arrives, with little CPU time."""

import asyncio
import base64
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import orjson

_SECONDS_TO_ARRIVE = 60.0
_SELECTION = "id author { name } posted html parent { id }"


@dataclass(frozen=True)
class Case:
    """Who subscribes. If `signed_in`, each client has its own token. If `different`, each has its own selection."""

    protocol: str
    clients: int
    signed_in: bool = False
    different: bool = False

    @property
    def name(self) -> str:
        kinds = ("signed in" if self.signed_in else "", "different selections" if self.different else "")
        return ", ".join(("WebSocket" if self.protocol == "ws" else "SSE", *filter(None, kinds)))


class Deliveries:
    """Counts the deliveries of one event, which is recognized by its marker."""

    def __init__(self) -> None:
        self.marker = b"-"
        self._left = 0
        self._all = asyncio.Event()

    def expect(self, marker: bytes, count: int) -> None:
        self.marker, self._left = marker, count
        self._all.clear()

    def arrived(self, count: int) -> None:
        self._left -= count
        if self._left == 0:
            self._all.set()

    async def wait(self) -> None:
        async with asyncio.timeout(_SECONDS_TO_ARRIVE):
            await self._all.wait()


class Client(asyncio.Protocol):
    """A subscriber that only searches what it receives for the marker of the event.

    `steps` are what it sends to subscribe, each with the bytes that it then waits for.
    """

    def __init__(self, steps: Sequence[tuple[bytes, bytes]], deliveries: Deliveries) -> None:
        self.is_ready = asyncio.get_running_loop().create_future()
        self._steps = list(steps)
        self._deliveries = deliveries
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self.transport.write(self._steps[0][0])

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if self._steps:
            self._rest = data
            if self._steps[0][1] in data:
                self._next_step()
            return
        marker = self._deliveries.marker
        if count := data.count(marker):
            self._deliveries.arrived(count)
            self._rest = b""
        else:
            self._rest = data[-len(marker) :]

    def _next_step(self) -> None:
        self._steps.pop(0)
        self._rest = b""
        if self._steps:
            self.transport.write(self._steps[0][0])
        else:
            self.is_ready.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_ready.done():
            self.is_ready.set_exception(RuntimeError(f"the gateway closed the connection: {exc} {self._rest!r}"))


def frame(message: dict[str, Any]) -> bytes:
    """Return the message as a masked text frame. The mask is zero."""
    text = orjson.dumps(message)
    length = bytes([0x80 | len(text)]) if len(text) < 126 else b"\xfe" + len(text).to_bytes(2, "big")  # noqa: PLR2004
    return b"\x81" + length + bytes(4) + text


def client_of(case: Case, number: int, discussion: str, token: str | None, deliveries: Deliveries) -> Client:
    alias = f"c{number}: " if case.different else ""
    query = f"subscription ($id: ID!) {{ {alias}commentPosted(discussionId: $id) {{ {_SELECTION} }} }}"
    payload = {"query": query, "variables": {"id": discussion}}
    return subscriber(case.protocol, payload, token, deliveries)


def subscriber(protocol: str, payload: dict[str, Any], token: str | None, deliveries: Deliveries) -> Client:
    """Return a client that sends this subscription."""
    bearer = {} if token is None else {"Authorization": f"Bearer {token}"}
    if protocol == "sse":
        body = orjson.dumps(payload)
        head = {"Accept": "text/event-stream", "Content-Type": "application/json", "Content-Length": str(len(body))}
        return Client([(request("POST", {**head, **bearer}) + body, b":\n\n")], deliveries)
    head = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": "graphql-transport-ws",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
    }
    init = frame({"type": "connection_init", "payload": bearer})
    start = frame({"id": "1", "type": "subscribe", "payload": payload})
    # The subscription is live before the gateway reads the `ping`.
    subscribing = init + start + frame({"type": "ping"})
    return Client([(request("GET", head), b"\r\n\r\n"), (subscribing, b'"pong"')], deliveries)


def request(method: str, headers: dict[str, str]) -> bytes:
    lines = (f"{method} /graphql HTTP/1.1", "Host: bench", *(f"{name}: {value}" for name, value in headers.items()))
    return "\r\n".join((*lines, "", "")).encode()
