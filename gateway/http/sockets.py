"""One WebSocket connection, which can send a text at once, and knows how much its client has read.

The buffers of the kernels on both sides take megabytes. Without a bound, a slow client would get old states from them
for minutes, and the ping of the keep-alive would wait behind these states until it times out. So the gateway sends a
ping after every 64 kB. Its pong says that the client has read all that came before, also earlier pings: a client may
answer only the latest ping (RFC 6455, section 5.5.3). While `WINDOW` bytes are unread, the messages of operations wait
in the gateway, where a newer state replaces the one that waits.

In the other direction, a message that has not ended is in memory, too. A long one needs room like the body of a request
(`gateway.bodies`), and each has as long to arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode
from websockets.http11 import Request
from websockets.protocol import State

from portico.gateway.bodies import SHORT, Body

from .backlog import Backlog
from .connections import count_unread, state_of
from .requests import NO_ROOM
from .sending import ONE_MORE_TIMER_SECONDS
from .socket_messages import TRY_LATER, UNENDED, Close

# How many bytes a client may have left to read before the next message waits. One message can exceed it.
WINDOW = 256 * 1024
# A ping follows each of these many bytes.
_PROBED = 64 * 1024
# The pings of the keep-alive have four bytes, so the length tells them apart.
_PROBE = struct.Struct("!Q")
# How long a client that the keep-alive cuts off has to read what was sent, in seconds.
_LAST_SECONDS = 10.0
# An extension of ASGI in the scope of a socket: a `Flow`.
_EXTENSION = "portico.flow"
# The first byte of a frame with a whole text. Source: RFC 6455, section 5.2, also for the lengths.
_TEXT = 0x80 | Opcode.TEXT
# The first byte of a pong.
_PONG = bytes([0x80 | Opcode.PONG])
_SHORT, _MEDIUM = 126, 1 << 16


class Flow(NamedTuple):
    """How the application sends texts: `send_now` of the connection, and `wait_for_room` before its own `send`.

    `wait_for_room` takes the size of the text that waits. `take_arrived` returns the room of the message that was
    received last, if it needed room to arrive.
    """

    send_now: Callable[[bytes], bool]
    wait_for_room: Callable[[int], Awaitable[None]]
    take_arrived: Callable[[], Body | None]


class SocketConnection(WebSocketsSansIOProtocol):
    """A connection whose messages are whole texts, neither compressed nor masked.

    Thousands of subscribers get a message at the same time. The general way to send one takes a third of the time for
    its delivery: several coroutines, and a frame of any kind.
    """

    transport: asyncio.Transport

    def __init__(self, *args: Any, backlog: Backlog, **options: Any) -> None:
        super().__init__(*args, **options)
        self._backlog = backlog
        # The bytes of what was written and what the kernel has not taken as a whole.
        self._written = 0
        # Counts of bytes since the connection was opened.
        self._sent = self._read = 0
        # The count of bytes before the latest ping that has no pong yet.
        self._probed: int | None = None
        # The count of bytes before the latest ping of the keep-alive, if that came after this ping.
        self._kept_alive: int | None = None
        self._has_room = asyncio.Event()
        self._has_room.set()
        # The pong to the latest ping, until the client reads.
        self._pong = b""
        # The room of the message that is arriving, who waits for it, and when the message must have ended.
        self._arriving: Body | None = None
        self._entering: asyncio.Task[None] | None = None
        self._deadline: asyncio.TimerHandle | None = None
        # The room of the last message, until the application takes it.
        self._arrived: Body | None = None

    def handle_connect(self, event: Request) -> None:
        super().handle_connect(event)
        if not self.close_sent:
            extensions: Any = self.scope["extensions"]
            extensions[_EXTENSION] = Flow(self.send_now, self._wait_for_room, self._take_arrived)

    def send_now(self, text: bytes) -> bool:
        """Sends a text, and returns True. Returns False if `send` has to wait, or to fail."""
        if (
            self.conn.state is not State.OPEN
            # A connection that breaks has no closing handshake, so its state stays.
            or self.transport.is_closing()
            or not self.writable.is_set()
            or not self._has_room.is_set()
            or self.conn.extensions
        ):
            return False
        length = len(text)
        if length < _SHORT:
            head = struct.pack("!BB", _TEXT, length)
        elif length < _MEDIUM:
            head = struct.pack("!BBH", _TEXT, 126, length)
        else:
            # Without a copy of a large text.
            self.transport.write(struct.pack("!BBQ", _TEXT, 127, length))
            head = b""
        self.transport.write(head + text if head else text)
        if not self.writable.is_set():
            self._hold_written(length)
        self._count(length)
        return True

    async def send(self, message: Any) -> None:
        size = len(message.get("text") or "")
        while not self.writable.is_set():
            # The text waits, and so do its bytes.
            with self._holding(2 * size):
                await self.writable.wait()
        is_closing = self.close_sent or self.transport.is_closing()
        if is_closing and message["type"] in {"websocket.send", "websocket.close"}:
            # The keep-alive has closed the socket, or it is broken. uvicorn would call this a fault of the application.
            raise ClientDisconnected
        await super().send(message)
        if message["type"] == "websocket.send":
            if not self.writable.is_set():
                self._hold_written(size)
            self._count(size)

    async def _wait_for_room(self, size: int) -> None:
        """Waits until the client has read enough for another message of this size, or has gone."""
        while not (self._has_room.is_set() and self.writable.is_set()):
            with self._holding(size):
                await self._has_room.wait()
                await self.writable.wait()

    @contextlib.contextmanager
    def _holding(self, size: int) -> Iterator[None]:
        self._backlog.hold(self, size)
        try:
            yield
        finally:
            self._backlog.release(self, size)

    def _hold_written(self, size: int) -> None:
        self._written += size
        self._backlog.hold(self, size)

    def resume_writing(self) -> None:
        self._backlog.release(self, self._written)
        self._written = 0
        super().resume_writing()
        if self._pong and not self.transport.is_closing():
            self.transport.write(self._pong)
            self._pong = b""

    def cut_off(self) -> None:
        """Notes that the client is disconnected because it did not read. The backlog calls it."""
        count_unread(self.app_state)

    def _count(self, length: int) -> None:
        self._sent += length
        unread = self._sent - self._read
        is_open = self.conn.state is State.OPEN and not self.transport.is_closing()
        if unread >= _PROBED and self._probed is None and is_open:
            self._probed, self._kept_alive = self._sent, None
            self.conn.send_ping(_PROBE.pack(self._sent))
            self.transport.write(b"".join(self.conn.data_to_send()))
        if unread >= WINDOW:
            self._has_room.clear()

    def send_keepalive_ping(self) -> None:
        self._kept_alive = self._sent
        super().send_keepalive_ping()

    def handle_ping(self) -> None:
        """Answers pings; while the client reads nothing, only the latest one, when it reads again."""
        if self.writable.is_set():
            super().handle_ping()
            return
        for frame in self.conn.data_to_send():
            if frame[:1] == _PONG:
                self._pong = frame
            else:
                self.transport.write(frame)

    def handle_pong(self, event: Frame) -> None:
        if self._probed is None or bytes(event.data) != _PROBE.pack(self._probed):
            if self._kept_alive is not None and bytes(event.data) == self.pending_ping_payload:
                self._advance(self._kept_alive)
            super().handle_pong(event)
            return
        is_latest = self._kept_alive is None
        self._advance(self._probed)
        if self.pending_ping_payload is None:
            return
        if is_latest:
            super().handle_pong(Frame(Opcode.PONG, self.pending_ping_payload))
        elif self.pong_timer is not None and self.ping_timeout is not None:
            # A client that reads slowly is alive, even if it has not read as far as the ping of the keep-alive.
            self.pong_timer.cancel()
            self.pong_timer = self.loop.call_later(self.ping_timeout, self.keepalive_timeout)

    def _advance(self, read: int) -> None:
        """Notes how far the client has read. No ping before this place needs a pong any more."""
        self._read, self._probed = read, None
        if self._sent - self._read < WINDOW:
            self._has_room.set()
        self._count(0)

    def keepalive_timeout(self) -> None:
        """Closes the socket, unless a pong has arrived while the event loop was busy: see `ClientTimeout`."""
        self.pong_timer = self.loop.call_later(ONE_MORE_TIMER_SECONDS, self._end_keepalive)

    def _end_keepalive(self) -> None:
        super().keepalive_timeout()
        if self.close_sent:
            # The client reads the reason of the close if it reads again soon.
            self.queue.put_nowait({"type": "websocket.disconnect", "code": 1011})
            self._has_room.set()
            self.loop.call_later(_LAST_SECONDS, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        unended = len(self.conn.reader.buffer) + (len(self.frames[0]) if self.frames else 0)
        gateway = state_of(self.app_state) if unended else None
        if gateway is None or self.conn.state is not State.OPEN:
            return
        if self._deadline is None:
            seconds = gateway.settings.body_seconds
            self._deadline = self.loop.call_later(seconds, self._end_after_reading)
        if unended > SHORT and self._arriving is None:
            self._arriving = Body(gateway.bodies)
            self.transport.pause_reading()
            self._entering = self.loop.create_task(self._enter(self._arriving))

    async def _enter(self, body: Body) -> None:
        """Waits for room for a message, whose length is not known, and reads on."""
        await body.arrive(self.config.ws_max_size)
        if not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> Any:
        message = await super().receive()
        if self._arriving is not None and self._arriving.is_waiting:
            self.transport.pause_reading()
        return message

    def handle_cont(self, event: Frame) -> None:
        """Adds a fragment to its message. As objects of their own, tiny ones take many times their bytes."""
        whole: Any = self.frames[0]
        if not isinstance(whole, bytearray):
            whole = bytearray(whole)
            self.frames = [whole]
        whole += event.data
        if event.fin:
            self.send_receive_event_to_app()

    def send_receive_event_to_app(self) -> None:
        self._stop_arriving()
        super().send_receive_event_to_app()

    def _stop_arriving(self) -> None:
        """Ends the deadline of a message. Keeps its room for `take_arrived`."""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._arriving is not None:
            self._arrived, self._arriving = self._arriving, None

    def _take_arrived(self) -> Body | None:
        arrived, self._arrived = self._arrived, None
        return arrived

    def _end_after_reading(self) -> None:
        """Closes the socket, unless the message has ended while the event loop was busy: see `ClientTimeout`."""
        self._deadline = self.loop.call_later(ONE_MORE_TIMER_SECONDS, self._end_unended)

    def _end_unended(self) -> None:
        waits = self._arriving is not None and self._arriving.is_waiting
        why = Close(TRY_LATER, NO_ROOM) if waits else Close(UNENDED, "The message did not arrive in time")
        if self.conn.state is State.OPEN and not self.transport.is_closing():
            self.conn.fail(why.code, why.reason)
            self.handle_parser_exception()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._entering is not None:
            self._entering.cancel()
        self._stop_arriving()
        if self._arrived is not None:
            self._arrived.leave()
        super().connection_lost(exc)
        self._backlog.forget(self)
        self._has_room.set()


async def _has_room(_size: int) -> None:
    """Stands in for `wait_for_room` on another server than the gateway's own."""


def flow_of(scope: Any) -> Flow:
    """Returns the flow of a socket. On another server than the gateway's own, nothing is sent at once."""
    found: Flow = scope.get("extensions", {}).get(_EXTENSION, Flow(lambda _text: False, _has_room, lambda: None))
    return found
