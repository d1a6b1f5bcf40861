"""One HTTP/1.1 connection: bounds on what a client leaves unfinished, and its end when the gateway stops.

The application bounds the time for a body that it reads. Everything else that a client can leave unfinished is bounded
here, because the application does not see it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
from uvicorn.protocols.http import httptools_impl
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import (
    HEADER_RE,
    HEADER_VALUE_RE,
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)
from uvicorn.server import ServerState

from portico.gateway.cache.kept_answers import KeptAnswer
from portico.gateway.cache.repeats import REPEATABLE, Repeat, lines_of
from portico.gateway.state import State
from portico.resolvers.lru import Lru

from .backlog import Backlog
from .sending import ONE_MORE_TIMER_SECONDS

MAX_HEADER_BYTES = 16_384
# The requests of a connection that can wait for the answer before them. Each takes a hundred times its bytes.
MOST_WAITING = 100
# What a header has beside its name and its value: `: ` and the end of the line.
_PER_HEADER = 4
# Headers that change how a response is sent.
_UNUSUAL = {b"connection", b"transfer-encoding"}
# Headers of every answer, whose names need no check.
_OWN = {b"content-type", b"content-length", b"x-request-id"}
_UNCHANGED = 304
# How long an idle connection of a gateway that stops stays open: a request may have been sent already.
_IDLE_SECONDS = 0.25
# How long a gateway that stops waits for the rest of a body. What arrived in full has the seconds of the settings.
_BODY_SECONDS = 1.0

_BAD_REQUEST = (400, "BAD_REQUEST")
_TOO_LARGE = (431, "HEADERS_TOO_LARGE", f"The request line and the headers have more than {MAX_HEADER_BYTES:,} bytes.")
_TOO_SLOW = (408, "TIMEOUT", "The client did not send its headers in time.")


class Connections(ServerState):
    """The connections of one server. `is_draining`: each answer closes its connection. `is_closing`: they all end."""

    def __init__(self) -> None:
        super().__init__()
        self.is_draining = False
        self.is_closing = False


def count_unread(app_state: dict[str, Any]) -> None:
    """Counts a connection that was dropped because its client did not read."""
    state = state_of(app_state)
    if state is not None:
        state.live.counts.unread += 1


def state_of(app_state: dict[str, Any]) -> State | None:
    """Returns the state of the gateway behind a server; None if it is not started."""
    gateway = app_state.get("gateway")
    return None if gateway is None else gateway.state


def _is_unusual(name: bytes) -> bool:
    """Returns whether uvicorn must send the header, or refuse it."""
    return name in _UNUSUAL or not name.islower() or HEADER_RE.search(name) is not None


class HeadersTooLarge(Exception):
    """Ends the parsing of a request."""


class TooManyWaiting(Exception):
    """Ends the parsing of requests of which too many wait already."""


class EndedHeaders(list[tuple[bytes, bytes]]):
    """The headers of a request when all have arrived. They do not take the fields of its trailer section.

    The parser reports these fields in the same way. A proxy that checks or removes headers need not look at them.

    Source: RFC 9110, section 6.5.1.
    """

    def append(self, _field: tuple[bytes, bytes]) -> None:
        """Drops a field."""


class Flow(FlowControl):
    """The flow of a connection. What its client has left to read counts in the backlog of the process."""

    def __init__(self, connection: HttpConnection, backlog: Backlog) -> None:
        super().__init__(connection.transport)
        self._connection = connection
        self._backlog = backlog
        # Whatever a part of it is left of, is in memory as a whole, so the transport must pass on everything.
        connection.transport.set_write_buffer_limits(HIGH_WATER_LIMIT, 0)

    def wrote(self, size: int) -> None:
        """Counts bytes that were written, and that the kernel has not taken yet."""
        self._backlog.hold(self._connection, size)

    async def drain_for(self, size: int) -> None:
        """Waits until everything is passed on. Meanwhile, a message of this size waits to be written."""
        self._backlog.hold(self._connection, size)
        await self.drain()

    def resume_writing(self) -> None:
        self._backlog.forget(self._connection)
        super().resume_writing()


class Exchange(RequestResponseCycle):
    """A request and its response. A response of known length is written at once, with its headers.

    uvicorn writes the headers first. Each write takes the kernel about as long as it takes the gateway to parse a
    request, and wakes the client.

    A request begins when the client has read the earlier answers, so a connection has one answer in memory.
    """

    flow: Flow
    _head: bytes | None = None
    # Where to remember the response to the bytes of this request.
    repeats: Lru[bytes, Repeat[KeptAnswer]] | None = None
    packet = b""

    async def run_asgi(self, app: Any) -> None:
        if self.flow.write_paused:
            await self.flow.drain()
        if not self.disconnected:
            await super().run_asgi(app)

    async def receive(self) -> Any:
        """Hands over what has arrived before more is read. So a body that waits for room holds one part, not two."""
        if not self.body or self.disconnected or self.response_complete or self.waiting_for_100_continue:
            return await super().receive()
        self.message_event.clear()
        body, self.body = bytes(self.body), bytearray()
        return {"type": "http.request", "body": body, "more_body": self.more_body}

    async def send(self, message: Any) -> None:
        body = message.get("body", b"")
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain_for(len(body))
        if self.transport.is_closing():
            # A broken connection refuses writes before it says that it is lost.
            self.disconnected = True
        head, self._head = self._head, None
        if head is None:
            if self._hold(message):
                return
            await super().send(message)
        elif self.disconnected:
            return
        elif len(body) != self.expected_content_length or message.get("more_body", False):
            self.transport.write(head)
            await super().send(message)
        else:
            self._remember(head, body)
            self._write_whole(head + body)
        if self.response_complete:
            self._forget()
        if self.flow.write_paused:
            self.flow.wrote(len(body))

    def _remember(self, head: bytes, body: bytes) -> None:
        """Keeps the response for requests with the same bytes, if the endpoint says that it may be."""
        scope: Mapping[str, Any] = self.scope
        source = scope.get(REPEATABLE)
        if source is not None and self.repeats is not None and self.keep_alive:
            line, end, rest = head.partition(b"\r\n")
            own = rest[len(lines_of(self.default_headers)) :]
            if source.request_id.encode() in own:
                self.repeats.put(self.packet, Repeat(source, line + end, own, body))

    def _forget(self) -> None:
        """Drops what the response was made of: the connection has the exchange until its next request."""
        self.scope.pop(REPEATABLE, None)  # type: ignore[misc]
        self.packet = b""

    def _write_whole(self, response: bytes) -> None:
        self.transport.write(response)
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()

    def _hold(self, message: Any) -> bool:
        """Keeps the headers until the body comes. Returns False if uvicorn must write them now, or refuse them."""
        if self.response_started or message["type"] != "http.response.start" or self.scope["method"] == "HEAD":
            return False
        length = 0 if message["status"] == _UNCHANGED else None
        lines = [STATUS_LINE[message["status"]]]
        for name, value in self.default_headers:
            lines += (name, b": ", value, b"\r\n")
        for name, value in message.get("headers", ()):
            if (name not in _OWN and _is_unusual(name)) or HEADER_VALUE_RE.search(value):
                return False
            if name == b"content-length":
                length = int(value)
            lines += (name, b": ", value, b"\r\n")
        if length is None or self.access_log:
            return False
        lines.append(b"\r\n" if self.keep_alive else b"connection: close\r\n\r\n")
        self._head = b"".join(lines)
        self.expected_content_length, self.chunked_encoding = length, False
        self.response_started, self.waiting_for_100_continue = True, False
        return True


# uvicorn names the class of its exchanges nowhere else.
httptools_impl.RequestResponseCycle = Exchange  # type: ignore[misc]


class HttpConnection(HttpToolsProtocol):
    """A connection that the gateway closes if the client does not end its headers, or the rest of an unread body.

    `header_seconds` is the longest time from the connection, or from the first byte of a later request, to the end of
    the headers, and from an answer to the end of the body that it did not need. `backlog` counts unread answers.
    """

    flow: Flow

    def __init__(self, *args: Any, header_seconds: float, backlog: Backlog, **options: Any) -> None:
        super().__init__(*args, **options)
        self._backlog = backlog
        state = self.server_state
        self._connections = state if isinstance(state, Connections) else Connections()
        self._header_seconds = header_seconds
        self._timer: asyncio.TimerHandle | None = None
        # Whether a request has begun whose headers have not ended; the bytes of the packet in which it began, which may
        # end another request; and the bytes of later packets. After the headers, these are the bytes of the packets
        # after the last piece of the body: the extensions of a chunk, or the trailer section.
        self._in_headers = self._in_body = False
        self._first = self._later = 0
        self._packet = 0
        self._is_too_large = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = Flow(self, self._backlog)
        self._wait_for_client()
        if self._connections.is_closing:
            # The listening socket is closed, so nobody else ends this connection.
            self.shutdown()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def cut_off(self) -> None:
        """Notes that the client is disconnected because it did not read. The backlog calls it."""
        count_unread(self.app_state)

    def data_received(self, data: bytes) -> None:
        self._packet = len(data)
        if self._in_headers or self._in_body:
            self._later += self._packet
        super().data_received(data)
        if self._in_headers and not self.transport.is_closing():
            if self._later > MAX_HEADER_BYTES:
                self._refuse(*_TOO_LARGE)
            elif self._timer is None:
                self._wait_for_client()
        elif self._in_body and self._later > MAX_HEADER_BYTES:
            self.transport.close()

    def on_message_begin(self) -> None:
        if len(self.pipeline) >= MOST_WAITING:
            raise TooManyWaiting
        self._in_headers = True
        self._first, self._later = self._packet, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_headers, self._in_body = False, True
        self._stop_waiting()
        if self._first + self._later > MAX_HEADER_BYTES and self._header_bytes() > MAX_HEADER_BYTES:
            self._is_too_large = True
            raise HeadersTooLarge
        super().on_headers_complete()
        self._later, self.headers = 0, EndedHeaders(self.headers)
        if self._connections.is_draining and self.cycle is not None:
            self.cycle.keep_alive = False
            if self._connections.is_closing:
                self._bound_body()

    def _header_bytes(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + _PER_HEADER for name, value in self.headers)

    def on_body(self, body: bytes) -> None:
        self._later = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._in_body = False
        self._stop_waiting()
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self.cycle.more_body and not self.transport.is_closing():
            self._wait_for_client()

    def send_400_response(self, msg: str) -> None:
        """Answers a request that cannot be parsed. uvicorn calls it."""
        self._refuse(*(_TOO_LARGE if self._is_too_large else (*_BAD_REQUEST, msg)))

    def shutdown(self) -> None:
        """Ends the connection after the request under way, and after one that the client may have sent already."""
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(_IDLE_SECONDS, self._close_after_reading)
        else:
            super().shutdown()
            self._bound_body()

    def _bound_body(self) -> None:
        if self.cycle.more_body:
            self.loop.call_later(_BODY_SECONDS, self._close_if_unfinished, self.cycle)

    def _close_after_reading(self) -> None:
        # If the loop was busy, it calls timers before it reads what has arrived. It reads before a second timer.
        self.loop.call_later(ONE_MORE_TIMER_SECONDS, self._close_if_idle)

    def _close_if_idle(self) -> None:
        if self.cycle is None or self.cycle.response_complete:
            self.transport.close()

    def _close_if_unfinished(self, cycle: RequestResponseCycle) -> None:
        if cycle.more_body:
            self.transport.close()

    def _wait_for_client(self) -> None:
        self._stop_waiting()
        self._timer = self.loop.call_later(self._header_seconds, self._cut_off_after_reading)

    def _stop_waiting(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _cut_off_after_reading(self) -> None:
        # As in `_close_after_reading`: what arrived in time stops this timer, too.
        self._timer = self.loop.call_later(ONE_MORE_TIMER_SECONDS, self._cut_off)

    def _cut_off(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            # The gateway itself does not read at the moment, because the client sends requests faster than it answers.
            self._wait_for_client()
        elif self._in_headers:
            self._refuse(*_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, status: int, code: str, message: str) -> None:
        """Answers with an error and closes the connection. While another answer is being sent, only closes it."""
        if self.cycle is None or self.cycle.response_complete:
            body = orjson.dumps({"errors": [{"message": message, "extensions": {"code": code}}]})
            head = [
                STATUS_LINE[status],
                *(name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers),
                b"content-type: application/json; charset=utf-8\r\n",
                b"content-length: %d\r\nconnection: close\r\n\r\n" % len(body),
            ]
            self.transport.write(b"".join(head) + body)
        self.transport.close()
