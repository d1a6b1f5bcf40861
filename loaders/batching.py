"""Batched reads: everything that one level of a request asks for goes to the database as one command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BatchRead = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]
# The bound on one batch; more keys than this go in several commands.
MAX_BATCH = 1000


class Loader(Generic[K, V]):
    """Collects keys until nothing new is asked for, reads them at once, and remembers the answers.

    A batch is sent when a whole turn of the event loop has brought no new key. Siblings that reach the loader a few
    turns apart, because one of them had more to wait for, so still share a command.
    A key that the read does not return is None.
    """

    def __init__(self, read: BatchRead[K, V]) -> None:
        self._read = read
        self._answers: dict[K, asyncio.Future[V | None]] = {}
        # Everyone who waits has a future of their own: whoever stops waiting cancels theirs, and nobody else's.
        self._waiters: dict[K, list[asyncio.Future[V | None]]] = {}
        self._waiting: list[K] = []
        self._seen = 0
        self._running: set[asyncio.Task[None]] = set()

    def load(self, key: K) -> asyncio.Future[V | None]:
        answer = self._answers.get(key)
        if answer is not None:
            return answer
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[V | None] = loop.create_future()
        waiters = self._waiters.get(key)
        if waiters is not None:
            waiters.append(waiter)
            return waiter
        self._waiters[key] = [waiter]
        if not self._waiting:
            self._seen = 0
            loop.call_soon(self._watch)
        self._waiting.append(key)
        return waiter

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if len(self._waiting) > self._seen:
            self._seen = len(self._waiting)
            loop.call_soon(self._watch)
            return
        keys, self._waiting = self._waiting, []
        for start in range(0, len(keys), MAX_BATCH):
            task = loop.create_task(self._send(keys[start : start + MAX_BATCH]))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _send(self, keys: list[K]) -> None:
        try:
            values = await self._read(keys)
        except BaseException as error:  # noqa: BLE001 - whatever it was, it belongs to those who wait
            for key in keys:
                self._settle(key, None, error)
            return
        for key in keys:
            self._settle(key, values.get(key), None)

    def _settle(self, key: K, value: V | None, error: BaseException | None) -> None:
        answer = self._answers[key] = asyncio.get_running_loop().create_future()
        for waiter in (answer, *self._waiters.pop(key, ())):
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(value)
            else:
                waiter.set_exception(error)
                # Whoever waits sees the error; where nobody does any more it is no news.
                waiter.exception()


class Loaders:
    """The loaders of one request, each made when it is first asked for."""

    def __init__(self) -> None:
        self._loaders: dict[Hashable, Loader[Any, Any]] = {}

    def get(self, name: Hashable, read: Callable[[], BatchRead[K, V]]) -> Loader[K, V]:
        """The loader of this name; `read` makes its batch read when there is none yet.

        A name holds all that the read depends on beside its keys, e.g. the projection.
        """
        loader = self._loaders.get(name)
        if loader is None:
            loader = self._loaders[name] = Loader(read())
        return loader
