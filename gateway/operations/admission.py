"""Admits operations: a bounded number runs at a time, and a bounded number waits for a slot.

The queue is round-robin over the connections: each round starts one operation of each connection, its oldest. So a
connection that sends many operations delays its own, and hardly those of others. If the queue is full, an operation is
refused at once, and if it has waited too long, it is refused then.

    new ──► queued ──► running ──► ended
     │         │        │   ▲
     ▼         ▼        ▼   │
    refused  refused    waiting

A running operation that waits for something other than the database gives its slot to others (`waiting`). It gets a
slot again before all operations that have not started, and is never refused: it may have written something. So
operations that wait for each other do not block each other. While it waits, it counts towards the length of the queue.

Events of subscriptions are never refused either, because a subscription must miss none. They do not count towards the
length of the queue, but wait for their round like everything else.

Few slots keep the iterations of the event loop short, and a write by the driver needs about ten for each command. But
an operation that waits for a slow command of MongoDB uses none. So while others wait, an operation that has had its
slot for SLOW_SECONDS gives it up and runs on. At most as many operations as there are slots run in this way.

With six queries at a time, a worker is busy, and a write beside any number of readers waits for less than twice its
share. Mutations have slots of their own, because they mostly wait for MongoDB to replicate.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Hashable
from contextvars import Token
from time import monotonic
from typing import Any

from portico.gateway.deadlines import Deadlines
from portico.resolvers.answer_bounds import METER, Meter, Room
from portico.resolvers.waiting import ASIDE, Aside

RETRY_SECONDS = 1
# Far longer than a page takes while all slots are in use.
SLOW_SECONDS = 0.25
CODE = "OVERLOADED"


class Overloaded(Exception):
    """The operation is refused, and has not started. Its client can retry it after RETRY_SECONDS."""

    def __init__(self) -> None:
        super().__init__("The gateway has too many operations in flight. Nothing was executed. Retry soon.")

    @property
    def formatted(self) -> dict[str, Any]:
        """The error for a stream, which has no header for the seconds."""
        return {"message": str(self), "extensions": {"code": CODE, "retryAfter": RETRY_SECONDS}}


class Admission:
    """The slots of one process.

    `queued` counts the operations that wait for their first slot, `waiting` those that have given up their slot for
    now, and `refused` all that were refused so far.
    """

    def __init__(
        self,
        max_running: int,
        max_queued: int,
        seconds: float,
        deadlines: Deadlines | None = None,
        *,
        most_bytes: float = math.inf,
        room: Room | None = None,
    ) -> None:
        """An operation is refused if `max_queued` others wait, for whatever, or after it has waited for `seconds`.

        `deadlines` are those of the process. An operation reads and answers with `most_bytes` at most, and needs a
        place in the `room` for many bytes.
        """
        self._deadlines = deadlines or Deadlines()
        self._most_bytes = most_bytes
        self._room = room or Room()
        self._max_running = max_running
        self._max_queued = max_queued
        self._seconds = seconds
        self.queued = 0
        self.waiting = 0
        self.refused = 0
        self._used = 0
        # The operations with a slot, the oldest first, with the time when they got it.
        self._since: dict[Slot, float] = {}
        self._slow = 0
        self._looking: asyncio.TimerHandle | None = None
        # Each future is an operation that waits. Its result is its slot.
        self._returning: deque[asyncio.Future[None]] = deque()
        # The connections in the order of the round, each with its operations in the order of their arrival.
        self._queues: OrderedDict[Hashable, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def running(self) -> int:
        """How many operations run."""
        return self._used + self._slow

    @property
    def is_full(self) -> bool:
        """Whether an operation that arrives now is refused."""
        has_free = self._used < self._max_running and not self.waiting
        return not has_free and self.queued + self.waiting >= self._max_queued

    def slot(self, connection: Hashable, *, must_run: bool = False) -> Slot:
        """Returns the slot of one operation, to enter as a context manager.

        Raises:   Overloaded, when it is entered, unless the operation `must_run`.
        """
        return Slot(self, connection, must_run=must_run)

    def take_free(self) -> bool:
        """Takes a slot, if one is free and nobody has to wait. Returns whether it has."""
        if self._used < self._max_running and not self.waiting:
            self._used += 1
            return True
        return False

    def meter(self) -> Meter:
        """Returns what counts the bytes of one operation."""
        return Meter(self._most_bytes, self._room)

    async def enter(self, connection: Hashable, *, must_run: bool) -> None:
        if self.is_full and not must_run:
            self.refused += 1
            raise Overloaded
        if self._used < self._max_running:
            self._used += 1
            return
        if must_run:
            await self._wait_in_round(connection)
            return
        self.queued += 1
        try:
            with self._deadlines.limit(self._seconds):
                await self._wait_in_round(connection)
        except TimeoutError:
            self.refused += 1
            raise Overloaded from None
        finally:
            self.queued -= 1

    async def enter_again(self) -> None:
        """Returns when an operation that has given up its slot has one again, before all that have not started."""
        if self._used < self._max_running:
            self._used += 1
            return
        place = self._place()
        self._returning.append(place)
        await self._granted(place)

    def leave(self) -> None:
        """Gives a slot to the next operation of the round."""
        while (place := self._next()) is not None:
            # An operation that was cancelled a moment ago is still in the queue.
            if not place.done():
                place.set_result(None)
                return
        self._used -= 1

    def hold(self, slot: Slot) -> None:
        """Notes who has a slot, and since when."""
        self._since[slot] = monotonic()

    def give_up(self, slot: Slot) -> None:
        """Ends what `hold` began."""
        if self._since.pop(slot, None) is None:
            self._slow -= 1
        else:
            self.leave()

    def _look_for_slow(self) -> None:
        """Takes the slots of operations that have had them for long, while others wait."""
        self._looking = None
        loop = asyncio.get_running_loop()
        latest = monotonic() - SLOW_SECONDS
        for slot, since in tuple(self._since.items()):
            if since > latest or self._slow >= self._max_running or not self._has_waiting:
                break
            del self._since[slot]
            self._slow += 1
            self.leave()
        if self._has_waiting:
            self._looking = loop.call_later(SLOW_SECONDS / 5, self._look_for_slow)

    @property
    def _has_waiting(self) -> bool:
        return bool(self._returning or self._queues)

    async def _wait_in_round(self, connection: Hashable) -> None:
        place = self._place()
        self._queues.setdefault(connection, deque()).append(place)
        try:
            await self._granted(place)
        except asyncio.CancelledError:
            self._forget(connection, place)
            raise

    def _place(self) -> asyncio.Future[None]:
        return asyncio.get_running_loop().create_future()

    async def _granted(self, place: asyncio.Future[None]) -> None:
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(SLOW_SECONDS / 5, self._look_for_slow)
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled():
                self.leave()
            raise

    def _forget(self, connection: Hashable, place: asyncio.Future[None]) -> None:
        queue = self._queues.get(connection)
        if queue is not None and place in queue:
            queue.remove(place)
            if not queue:
                del self._queues[connection]

    def _next(self) -> asyncio.Future[None] | None:
        if self._returning:
            return self._returning.popleft()
        if not self._queues:
            return None
        connection, queue = next(iter(self._queues.items()))
        place = queue.popleft()
        if queue:
            self._queues.move_to_end(connection)
        else:
            del self._queues[connection]
        return place


class Slot:
    """The slot of one operation, as a context manager. `waiting` gives it up for a while, in any task of the
    operation.
    """

    def __init__(self, admission: Admission, connection: Hashable, *, must_run: bool) -> None:
        self._admission = admission
        self._connection = connection
        self._must_run = must_run
        self._is_held = False
        self._has_ended = False

    async def __aenter__(self) -> None:
        if not self._admission.take_free():
            await self._admission.enter(self._connection, must_run=self._must_run)
        self._hold()
        self._token: Token[Aside] = ASIDE.set(self._aside)
        self._meter = self._admission.meter()
        self._metering = METER.set(self._meter)

    async def __aexit__(self, *error: object) -> None:
        METER.reset(self._metering)
        self._meter.has_failed |= error[0] is not None
        self._meter.close()
        ASIDE.reset(self._token)
        self._has_ended = True
        self._give_up()

    def _hold(self) -> None:
        self._is_held = True
        self._admission.hold(self)

    def _give_up(self) -> None:
        if self._is_held:
            self._is_held = False
            self._admission.give_up(self)

    @contextlib.asynccontextmanager
    async def _aside(self) -> AsyncIterator[None]:
        if not self._is_held:
            # Another task of the operation waits already, or the operation has ended.
            yield
            return
        self._give_up()
        self._admission.waiting += 1
        try:
            yield
        finally:
            try:
                if not self._has_ended:
                    await self._admission.enter_again()
                    self._hold()
            finally:
                self._admission.waiting -= 1
            if self._has_ended:
                self._give_up()
