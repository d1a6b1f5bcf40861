"""Bounds the bytes of request bodies, and of messages of sockets, that one process holds.

Most bodies are short, and cost nothing here. A long one first needs room to arrive, for its whole length, and then room
to be parsed and to run: what is parsed can take twenty times the bytes of its text. Both are lent in the order of the
asking, so a body that has begun to arrive never waits for another. A connection whose body has no room yet is not read,
and its client has to wait with sending.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Self

from .memory import Memory

# The most bytes of a subscription, because its variables stay in memory until it ends.
MOST_OF_SUBSCRIPTION = 16_384
# A longer body needs room. The server reads about as many bytes ahead of the gateway anyway.
SHORT = 65_536
_ARRIVING_BYTES = 12_000_000
_PARSED_BYTES = 2_000_000


class ByteRoom:
    """Lends a number of bytes, in the order of the asking. What exceeds the number is lent to one at a time, alone."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lent = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    @property
    def is_free(self) -> bool:
        """Whether nothing is lent."""
        return not self._lent

    async def borrow(self, size: int) -> None:
        """Waits until so many bytes are free, and takes them."""
        if not self._waiting and self._has(size):
            self._lent += size
            return
        place = asyncio.get_running_loop().create_future()
        self._waiting.append((size, place))
        try:
            await place
        except asyncio.CancelledError:
            if place.cancelled():
                self._lend()
            else:
                self.give_back(size)
            raise

    def give_back(self, size: int) -> None:
        self._lent -= size
        self._lend()

    def _has(self, size: int) -> bool:
        return not self._lent or self._lent + size <= self._most

    def _lend(self) -> None:
        while self._waiting:
            size, place = self._waiting[0]
            if not place.done():
                if not self._has(size):
                    return
                self._lent += size
                place.set_result(None)
            self._waiting.popleft()


class Bodies:
    """The long bodies of one process."""

    def __init__(self, memory: Memory, arriving: int = _ARRIVING_BYTES, parsed: int = _PARSED_BYTES) -> None:
        self.memory = memory
        self.arriving, self.parsed = ByteRoom(arriving), ByteRoom(parsed)


class Body:
    """The room of one body, to enter as a context manager: at the end, it gives its room to others.

    `is_waiting` tells whether it waits for room, and not for its client. `size` is its length when it has arrived.
    """

    __slots__ = ("_bodies", "_held", "_room", "is_waiting", "size")

    def __init__(self, bodies: Bodies) -> None:
        self._bodies = bodies
        self._room: ByteRoom | None = None
        self._held = 0
        self.is_waiting = False
        self.size = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    async def arrive(self, size: int) -> None:
        """Waits for room for a long body of this size, unless it has room."""
        if self._room is None:
            await self._move(self._bodies.arriving, size)

    async def parse(self, size: int) -> None:
        """Waits for room to parse and run a body that has arrived. A short one needs none."""
        self.size = size
        if size > SHORT:
            await self._move(self._bodies.parsed, size)

    def handed_over(self) -> Body:
        """Returns the same body, which now has the room."""
        other = Body(self._bodies)
        other._room, other._held, other.size = self._room, self._held, self.size
        self._room = None
        return other

    async def _move(self, room: ByteRoom, size: int) -> None:
        self.is_waiting = True
        await room.borrow(size)
        self.is_waiting = False
        self.leave()
        self._room, self._held = room, size

    def leave(self) -> None:
        """Gives the room to others."""
        if self._room is not None:
            self._room.give_back(self._held)
            # A request that was cancelled leaves cycles of references.
            self._bodies.memory.note_left(self._held, has_garbage=True)
            self._room = None
