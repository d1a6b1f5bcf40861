"""Bounds the bytes of answers that a process holds until its clients have read them, and the time for that.

A client that does not read its answer keeps the answer in memory. A `Backlog` counts what clients have left to read:

1. A connection holds bytes from the write that its transport could not pass to the kernel as a whole, until it has
   passed them all. Messages that wait for such a write are held, too.
2. If the process holds more than it may, it disconnects clients, those that wait for the longest time first. Clients
   that have read something in the last `_GRACE_SECONDS` come last. What the client's kernel takes at once, in the first
   `_SETTLE_SECONDS`, does not count as reading.
3. A client that reads nothing for `seconds` is disconnected in any case. A client that reads slowly is not.

The kernel says how much a client has acknowledged, so a client counts as reading even if no byte leaves the process.
"""

from __future__ import annotations

import asyncio
import math
import socket
import struct
import sys
from dataclasses import dataclass
from typing import Any, Protocol

if sys.platform != "win32":
    import fcntl
    import termios

# How often the progress of the clients is looked up, in seconds.
_LOOK_SECONDS = 1.0
_GRACE_SECONDS = 1.0
_SETTLE_SECONDS = 0.1
# Closes a socket at once, without sending the rest.
_NO_LINGER = struct.pack("ii", 1, 0)
_INT = struct.Struct("i")


class Receiver(Protocol):
    """A connection whose client has bytes to read."""

    transport: asyncio.Transport

    def cut_off(self) -> None:
        """Notes that the client is disconnected because it did not read."""


@dataclass(slots=True)
class _Held:
    """What one connection holds since a time. At the last look, `left` bytes were unread."""

    size: int
    left: int
    since: float
    read_at: float = -math.inf

    def look(self, left: int, now: float) -> None:
        if left < self.left and now - self.since > _SETTLE_SECONDS:
            self.read_at = now
        self.left = left

    def rank(self, now: float) -> tuple[bool, float]:
        """Returns what is the least for the client to disconnect first."""
        return now - self.read_at < _GRACE_SECONDS, max(self.since, self.read_at)


class Backlog:
    """What the clients of one process have left to read.

    `most` bounds the bytes. A client has `seconds` to read anything at all.
    """

    def __init__(self, most: int, seconds: float) -> None:
        self.bytes = 0
        self._most = most
        self._seconds = seconds
        self._held: dict[Receiver, _Held] = {}
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, receiver: Receiver, size: int) -> None:
        """Counts bytes that wait until the client reads. Disconnects clients if these are too many."""
        loop = asyncio.get_running_loop()
        held = self._held.get(receiver)
        if held is None:
            held = self._held[receiver] = _Held(0, _unread(receiver.transport), loop.time())
        held.size += size
        self.bytes += size
        if self.bytes > self._most:
            self._make_room(loop.time())
        if self._timer is None:
            self._timer = loop.call_later(_LOOK_SECONDS, self._look)

    def release(self, receiver: Receiver, size: int) -> None:
        """Ends what `hold` began."""
        held = self._held.get(receiver)
        if held is None:
            return
        held.size -= size
        self.bytes -= size
        if held.size <= 0:
            self.forget(receiver)

    def forget(self, receiver: Receiver) -> None:
        """Releases all that a connection holds."""
        held = self._held.pop(receiver, None)
        if held is not None:
            self.bytes -= held.size

    def _make_room(self, now: float) -> None:
        for receiver, held in self._held.items():
            held.look(_unread(receiver.transport), now)
        for receiver in sorted(self._held, key=lambda one: self._held[one].rank(now)):
            if self.bytes <= self._most:
                break
            self._cut_off(receiver)

    def _look(self) -> None:
        self._timer = None
        loop = asyncio.get_running_loop()
        now = loop.time()
        for receiver, held in tuple(self._held.items()):
            held.look(_unread(receiver.transport), now)
            if held.left and held.rank(now)[1] < now - self._seconds:
                self._cut_off(receiver)
        if self._held:
            self._timer = loop.call_later(_LOOK_SECONDS, self._look)

    def _cut_off(self, receiver: Receiver) -> None:
        self.forget(receiver)
        receiver.cut_off()
        abort(receiver.transport)


def abort(transport: asyncio.Transport) -> None:
    """Closes a connection, and drops what its client has not read, also in the kernel."""
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)
    transport.abort()


def _unread(transport: asyncio.Transport) -> int:
    """Returns how many bytes the transport and the kernel still have. The client has not acknowledged those."""
    left = transport.get_write_buffer_size()
    connection: Any = transport.get_extra_info("socket")
    if sys.platform != "win32" and connection is not None:
        queued = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, bytes(_INT.size))
        left += int(_INT.unpack(queued)[0])
    return left
