"""Bounds the bytes that an operation reads and answers with, and how many operations hold many bytes at a time.

The gateway sets the meter of each operation. Whatever reads or answers for the operation counts its bytes there:

1. A direct read asks the meter as soon as the length of its reply is known. A reply that exceeds the bound is not
   received. Replies to the driver are counted after they have arrived.
2. An operation that holds more than SMALL_BYTES needs a place in the room of its process, and waits for one. It keeps
   the place until it has ended. So the memory of a process does not grow with the number of operations.
3. The run counts the texts of the answer while it makes them, because one document can be shown any number of times.

Outside of an operation, for example in a job, nothing is counted. What a write reads is not counted either, because a
write must be able to finish. Nor is what several operations share, because it belongs to none of them.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Protocol

# An operation that holds less needs no place in the room.
SMALL_BYTES = 250_000
# The most operations of a process that hold more at a time.
PLACES = 2
# What an error counts as: the error itself and its line in the log. Its path counts in addition.
_ERROR = 2_000
_VALUE = 10
# The part of an answer that bounds may stand for instead of counts.
_ESTIMATED = 20
# The values of leaves that can have any size.
_SIZED = {str, dict, list}
# The most bytes that a character of a text takes in JSON.
_ENCODED = 6


class AnswerTooLarge(Exception):
    """The operation reads or answers with more bytes than one operation may."""

    def __init__(self, most: float) -> None:
        super().__init__(
            f"The answer, or what is read for it, has more than {most:,.0f} bytes. Ask for smaller pages, select fewer "
            "long texts, or send several operations."
        )


class NoteLeft(Protocol):
    """Notes what an operation that has ended may leave in memory. It `has_garbage` if parts of it failed."""

    def __call__(self, size: int, *, has_garbage: bool) -> None: ...


class Room:
    """The places for operations that hold many bytes. Those that wait for a place get it in the order of their arrival.

    An operation with a place waits for nothing but the database, so every place becomes free again.
    """

    def __init__(self, places: int = PLACES, note_left: NoteLeft | None = None) -> None:
        """`note_left` is called when an operation has ended that can leave many bytes in memory."""
        self.note_left = note_left
        self._free = places
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take_now(self) -> bool:
        """Takes a place if one is free. Returns whether it did."""
        if not self._free:
            return False
        self._free -= 1
        return True

    async def take(self) -> None:
        """Takes a place as soon as one is free."""
        if self.take_now():
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.give_back()
            raise

    def give_back(self) -> None:
        while self._waiting:
            place = self._waiting.popleft()
            # An operation that was cancelled a moment ago is still in the queue.
            if not place.done():
                place.set_result(None)
                return
        self._free += 1


class Size(list[float]):
    """The characters of an answer so far, and the most that it can have.

    A list, because the compiled functions add to its first item, which is faster than an attribute.
    """

    __slots__ = ()

    def __init__(self, most: float = math.inf) -> None:
        super().__init__((0, most))

    def added(self, value: Any) -> Any:
        """Counts the value of a leaf, and returns it. Raises AnswerTooLarge."""
        if value.__class__ in _SIZED:
            self[0] += len(value) if value.__class__ is str else _size_of(value)
            if self[0] > self[1]:
                self.require()
        return value

    def add_error(self, path: Iterable[str | int]) -> None:
        """Counts an error with this path. Raises AnswerTooLarge."""
        self[0] += _ERROR + sum(len(name) for name in path if isinstance(name, str))
        self.require()

    def require(self) -> None:
        """Raises AnswerTooLarge if the answer is too large."""
        if self[0] > self[1]:
            raise AnswerTooLarge(self[1])


def _size_of(value: Any) -> int:
    """Returns about how many characters a value of any structure has."""
    size = 0
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str | bytes):
            size += len(one)
        elif isinstance(one, dict):
            size += sum(map(len, map(str, one)))
            left += one.values()
        elif isinstance(one, list | tuple):
            left += one
        size += _VALUE
    return size


class Meter:
    """Counts the bytes of one operation. `most` bounds what it reads, and its answer, whose `size` the run counts."""

    __slots__ = (
        "_estimated",
        "_has_place",
        "_is_open",
        "_lock",
        "_read",
        "_room",
        "has_failed",
        "has_undecodable",
        "most",
        "size",
    )

    def __init__(self, most: float = math.inf, room: Room | None = None) -> None:
        self.most = most
        self.size = Size(most)
        # Whether errors or cancelled tasks can keep what the operation has read.
        self.has_failed = False
        # Whether it has read text that is not valid UTF-8.
        self.has_undecodable = False
        self._room = room or Room()
        self._read = 0
        self._estimated = 0
        self._has_place = False
        self._is_open = True
        # Several reads of an operation can wait for its place.
        self._lock: asyncio.Lock | None = None

    @property
    def read(self) -> int:
        """The bytes that the operation has read so far."""
        return self._read

    def may_estimate(self, size: int) -> bool:
        """Returns whether texts of the answer can be counted by this bound of their size.

        Together, the bounds are small beside what an answer may have. Beyond that, the texts must be counted.
        """
        most = min(SMALL_BYTES, self.most / _ESTIMATED)
        return self._estimated + size <= most and self.size[0] + size <= self.most

    def estimate(self, size: int) -> None:
        """Counts texts of the answer by a bound of their size that `may_estimate` allows."""
        self._estimated += size
        self.size[0] += size

    @property
    def is_large(self) -> bool:
        """Whether the operation holds more than SMALL_BYTES, or its answer may have more than `most`, encoded."""
        return self._read > SMALL_BYTES or (self._read + self.size[0]) * _ENCODED > self.most

    @property
    def must_wait(self) -> bool:
        """Whether the next read must first `enter` the room."""
        return self._read > SMALL_BYTES and not self._has_place and self._is_open

    def admits(self, size: int) -> bool:
        """Counts a reply of this size and returns whether it may be received now. If not, `enter` waits until then."""
        total = self._read + size
        if total > SMALL_BYTES and self._is_open:
            if total > self.most:
                return False
            if not self._has_place and self._lock is None:
                self._has_place = self._room.take_now()
            if not self._has_place:
                return False
        self._read = total
        return True

    async def enter(self, size: int = 0) -> None:
        """Waits until the operation may hold many bytes. Raises AnswerTooLarge if `size` more are too many."""
        if self._read + size > self.most:
            self._read += size
            raise AnswerTooLarge(self.most)
        if self._lock is None:
            self._lock = asyncio.Lock()
        async with self._lock:
            if not self._has_place and self._is_open:
                await self._room.take()
                if self._is_open:
                    self._has_place = True
                else:
                    # The operation has ended meanwhile, and left this task behind.
                    self._room.give_back()

    @contextlib.asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """For a read whose reply is counted after it has arrived: the operation has a place, and one such read."""
        await self.enter()
        assert self._lock is not None
        async with self._lock:
            self.require()
            yield

    def count(self, size: int) -> None:
        """Counts bytes that have been received already."""
        if self._is_open:
            self._read += size

    def require(self) -> None:
        """Raises AnswerTooLarge if the operation has read too much."""
        if self._read > self.most and self._is_open:
            raise AnswerTooLarge(self.most)

    def close(self) -> None:
        """Gives back the place. What the tasks that the operation leaves behind read is not counted."""
        if self._is_open and self._room.note_left is not None and (self.has_failed or self.is_large):
            self._room.note_left(self._read + int(self.size[0]), has_garbage=self.has_failed)
        self._is_open = False
        if self._has_place:
            self._has_place = False
            self._room.give_back()


# Set by the gateway for each operation. None: nothing is counted.
METER: ContextVar[Meter | None] = ContextVar("meter", default=None)


async def hold(size: int) -> None:
    """Counts bytes that a resolver makes from few that it has read. Waits for a place if the operation needs one.

    Raises AnswerTooLarge.
    """
    meter = METER.get()
    # Others of the operation may have counted while this one waited.
    while meter is not None and not meter.admits(size):
        await meter.enter(size)


@contextlib.contextmanager
def unmetered() -> Iterator[None]:
    """Does not count what is read meanwhile: the reads of a write, which must be able to finish."""
    token = METER.set(None)
    try:
        yield
    finally:
        METER.reset(token)


@contextlib.contextmanager
def counted_apart() -> Iterator[Meter]:
    """Counts what is read meanwhile by itself and without a bound: what several operations share belongs to none."""
    meter = Meter()
    token = METER.set(meter)
    try:
        yield meter
    finally:
        METER.reset(token)
