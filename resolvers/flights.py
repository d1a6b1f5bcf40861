"""Runs that several callers wait for: a caller joins the run that is in flight for its key, or starts one.

A caller that is cancelled does not cancel the run of the others. When nobody waits for a run any more, it is cancelled.
Its error is the error of all who wait. Nothing is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
F = TypeVar("F", bound="Flight[Any, Any]")


class Flights(Generic[K, F]):
    """The runs in flight that callers can join."""

    def __init__(self) -> None:
        self._by_key: dict[K, F] = {}

    def of(self, key: K) -> F | None:
        """Returns the run of a key that is in flight."""
        return self._by_key.get(key)

    def add(self, flight: F) -> None:
        """Lets callers join a run under its key, unless another one can be joined there."""
        self._by_key.setdefault(flight.key, flight)

    def forget(self, flight: F) -> None:
        """Lets nobody join a run any more."""
        # Another run may have its key: one that was there before it moved, or that began after it was cancelled.
        if self._by_key.get(flight.key) is flight:
            del self._by_key[flight.key]


class Flight(Generic[K, V]):
    """A run in flight. Callers can join it until it ends."""

    def __init__(self, flights: Flights[K, Any], key: K, run: Awaitable[V]) -> None:
        self.key = key
        self.task = asyncio.ensure_future(run)
        self._flights = flights
        self._joined = 0
        flights.add(self)
        self.task.add_done_callback(self._land)

    async def lands(self) -> V:
        """Waits for the end of the run. Returns its result, or raises its error."""
        with self._joining():
            return await asyncio.shield(self.task)

    def move(self, key: K) -> None:
        """Lets callers join the run under another key."""
        self._flights.forget(self)
        self.key = key
        self._flights.add(self)

    @contextmanager
    def _joining(self) -> Iterator[None]:
        """Counts a caller as waiting during the block. The last one that leaves a run cancels it."""
        self._joined += 1
        try:
            yield
        finally:
            self._joined -= 1
            if not self._joined and not self.task.done():
                self._flights.forget(self)
                self.task.cancel()

    def _land(self, _task: asyncio.Future[V]) -> None:
        self._flights.forget(self)
