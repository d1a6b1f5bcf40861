"""Combines what all calls of a process ask for: one batch at a time for each key, with everything that waits.

A document that every call writes is a point of contention. If each call sent a command of its own, MongoDB would apply
them one after the other, and their writers would collide. Instead, each key that is being worked on has a queue and a
task:

1. A call adds an entry to the queue of a key. If no task works for the key, it starts one.
2. The task takes the next batch from the queue, and serves it. Meanwhile, new entries wait in the queue.
3. Each entry gets its own answer. The task ends when its queue is empty; then nothing is kept of the key.

So the number of commands grows with the time that a command takes, and not with the number of calls.

* Order: entries are taken in the order of their arrival, unless `take` chooses otherwise. The batches of a key never
  overlap; those of different keys do.
* Bounds: `take` bounds a batch. The queue has at most one entry for each thing that a running operation waits for, and
  the gateway bounds the number of running operations.
* Urgency: a batch waits for an urgent entry, but for no longer than `linger` says. Entries are urgent by default.
* Failure: an error of a batch is the answer of all its entries that have none yet. The next batches are served. A
  cancelled call leaves its entry in the queue, because its effect may be part of what others finish. `take` may drop
  it.
* Close: `close` waits until all queues are empty. If a task is cancelled, its entries are cancelled.

A batch belongs to all its callers. So it waits on behalf of none of them, no meter of theirs counts what it reads, and
it is no part of their decisions.

Source: Hendler, Incze, Shavit and Tzafrir, "Flat Combining and the Synchronization-Parallelism Tradeoff" (2010).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from portico.resolvers.answer_bounds import METER
from portico.resolvers.documents import Database
from portico.resolvers.waiting import ASIDE

from .waiting_once import WAITING

R = TypeVar("R")
K = TypeVar("K", bound=Hashable)
W = TypeVar("W", bound="Waiting[Any]")


@dataclass(eq=False, kw_only=True)
class Waiting(Generic[R]):
    """An entry of a queue. A subclass adds what the call asks for. The call awaits `done`."""

    db: Database
    is_urgent: bool = True
    done: asyncio.Future[R] = field(init=False, default_factory=lambda: asyncio.get_running_loop().create_future())

    def answer(self, value: R) -> None:
        """Answers the call, unless it has an answer or is cancelled."""
        if not self.done.done():
            self.done.set_result(value)

    def fail(self, error: BaseException) -> None:
        """Answers the call with an error, unless it has an answer or is cancelled."""
        if not self.done.done():
            self.done.set_exception(error)


# Returns the next batch, and what stays in the queue.
Take = Callable[[list[W]], tuple[list[W], list[W]]]


def take_all(waiting: list[W]) -> tuple[list[W], list[W]]:
    """Takes everything that waits."""
    return waiting, []


def take_first(most: int) -> Take[W]:
    """Returns a function that takes the first entries, at most this many."""
    return lambda waiting: (waiting[:most], waiting[most:])


@dataclass(eq=False)
class _Queue(Generic[W]):
    waiting: list[W] = field(default_factory=list)
    # Set if the next batch need not wait for another entry.
    is_due: asyncio.Event = field(default_factory=asyncio.Event)
    # Only the loop would hold the task otherwise, and it holds tasks weakly.
    task: asyncio.Task[None] | None = None


class Combiner(Generic[K, W]):
    """The queues of a process, and the tasks that serve them.

    Args:     serve: serves a batch of a key. It answers each entry, or raises an error for those without an answer.
              take: chooses the next batch.  linger: how long a batch of a key waits for an urgent entry, in seconds.
    """

    def __init__(
        self,
        serve: Callable[[K, list[W]], Awaitable[None]],
        *,
        take: Take[W] = take_all,
        linger: Callable[[K], float] = lambda _key: 0,
    ) -> None:
        self._serve = serve
        self._take = take
        self._linger = linger
        self._queues: dict[K, _Queue[W]] = {}

    def add(self, key: K, entry: W) -> None:
        """Adds an entry to the queue of a key, whose answer the caller awaits."""
        queue = self._queues.get(key)
        if queue is None:
            queue = self._queues[key] = _Queue()
            queue.task = asyncio.create_task(self._work(key, queue))
        queue.waiting.append(entry)
        if entry.is_urgent:
            queue.is_due.set()

    def is_idle(self, key: K) -> bool:
        """Returns whether no entry of a key waits or is being served."""
        return key not in self._queues

    def waiting(self, key: K) -> Sequence[W]:
        """Returns the entries that wait in the queue of a key, without those that are being served."""
        queue = self._queues.get(key)
        return () if queue is None else queue.waiting

    async def served(self, key: K) -> None:
        """Waits until all entries of a key are served. They wait for no urgent entry any more."""
        while (queue := self._queues.get(key)) is not None and queue.task is not None:
            queue.is_due.set()
            await asyncio.wait({queue.task})

    async def close(self) -> None:
        """Waits until all entries are served. They wait for no urgent entry any more."""
        while self._queues:
            for queue in self._queues.values():
                queue.is_due.set()
            tasks = [queue.task for queue in self._queues.values() if queue.task is not None]
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _work(self, key: K, queue: _Queue[W]) -> None:
        ASIDE.set(nullcontext)
        METER.set(None)
        WAITING.set(None)
        try:
            # In this iteration of the event loop, other calls add their entries.
            await asyncio.sleep(0)
            while queue.waiting:
                if not queue.is_due.is_set():
                    timer = asyncio.get_running_loop().call_later(self._linger(key), queue.is_due.set)
                    try:
                        await queue.is_due.wait()
                    finally:
                        timer.cancel()
                queue.is_due.clear()
                batch, queue.waiting = self._take(queue.waiting)
                if any(entry.is_urgent for entry in queue.waiting):
                    queue.is_due.set()
                await self._serve_all(key, batch)
        finally:
            del self._queues[key]
            for entry in queue.waiting:
                entry.done.cancel()

    async def _serve_all(self, key: K, batch: list[W]) -> None:
        if not batch:
            return
        try:
            await self._serve(key, batch)
        except BaseException as error:
            for entry in batch:
                entry.fail(error)
            if not isinstance(error, Exception):
                raise
