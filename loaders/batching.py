"""Batched reads: everything that one level of a request asks for goes to the database as one command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BatchRead = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]
# The bound on one batch; more keys than this go in several commands.
MAX_BATCH = 1000


class _Batch(Generic[K, V]):
    """Keys that go in one read, and who waits for it: for one key's value, or for all of them to be there."""

    __slots__ = ("keys", "waiters")

    def __init__(self) -> None:
        self.keys: list[K] = []
        # Everyone who waits has a future of their own: whoever stops waiting cancels theirs, and nobody else's.
        self.waiters: list[tuple[asyncio.Future[Any], K | None]] = []


@dataclass(slots=True)
class Siblings:
    """Whether anything else may ask for more while one field is waited for. Where nothing may, nobody waits for it."""

    are_none: bool = False


class Loader(Generic[K, V]):
    """Collects keys until nothing new is asked for, reads them at once, and remembers the answers.

    A batch is sent when a whole turn of the event loop has brought no new key. Siblings that reach the loader a few
    turns apart, because one of them had more to wait for, so still share a command.
    A key that the read does not return is None.
    """

    def __init__(self, read: BatchRead[K, V], siblings: Siblings | None = None) -> None:
        self._read = read
        self._siblings = siblings or Siblings()
        self._values: dict[K, V | None] = {}
        self._errors: dict[K, BaseException] = {}
        self._under_way: dict[K, _Batch[K, V]] = {}
        self._collecting: list[_Batch[K, V]] = []
        self._count = 0
        self._seen = 0
        self._running: set[asyncio.Task[None]] = set()

    def load(self, key: K) -> asyncio.Future[V | None]:
        """The value of one key, later."""
        waiter: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        if key in self._values or key in self._errors:
            self._settle(waiter, key)
        else:
            self._join(key).waiters.append((waiter, key))
        return waiter

    async def load_all(self, keys: Iterable[K]) -> Mapping[K, V | None]:
        """The values of all these keys, and maybe of others: one wait for a whole level. Raises as the read did."""
        wanted = dict.fromkeys(keys)
        missing = [key for key in wanted if key not in self._values and key not in self._errors]
        if missing and self._siblings.are_none and not self._under_way and len(missing) <= MAX_BATCH:
            values = await self._read(missing)
            self._values.update({key: values.get(key) for key in missing})
            return self._values
        loop = asyncio.get_running_loop()
        waiters: list[asyncio.Future[None]] = []
        # All of them before the first is waited for: a later batch may be read sooner.
        for batch in {id(batch): batch for batch in map(self._join, missing)}.values():
            waiters.append(loop.create_future())
            batch.waiters.append((waiters[-1], None))
        for waiter in waiters:
            await waiter
        if self._errors:
            for key in wanted:
                if key in self._errors:
                    raise self._errors[key]
        return self._values

    def prime(self, key: K, value: V) -> None:
        """Remembers what the request has read in another way."""
        self._values.setdefault(key, value)

    def _join(self, key: K) -> _Batch[K, V]:
        """The batch that the key is in; a new one is sent once nothing more is asked for."""
        batch = self._under_way.get(key)
        if batch is not None:
            return batch
        if not self._collecting:
            self._count = self._seen = 0
            asyncio.get_running_loop().call_soon(self._watch)
        if not self._collecting or len(self._collecting[-1].keys) == MAX_BATCH:
            self._collecting.append(_Batch())
        batch = self._under_way[key] = self._collecting[-1]
        batch.keys.append(key)
        self._count += 1
        return batch

    def stop(self) -> None:
        """Gives up what is under way, and sends nothing more: nobody waits for it."""
        self._collecting = []
        for task in self._running:
            task.cancel()

    def _watch(self) -> None:
        loop = asyncio.get_running_loop()
        if self._count > self._seen:
            self._seen = self._count
            loop.call_soon(self._watch)
            return
        batches, self._collecting = self._collecting, []
        for batch in batches:
            task = loop.create_task(self._send(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _send(self, batch: _Batch[K, V]) -> None:
        try:
            values = await self._read(batch.keys)
        except BaseException as error:  # noqa: BLE001 - whatever it was, it belongs to those who wait
            self._errors.update(dict.fromkeys(batch.keys, error))
        else:
            self._values.update({key: values.get(key) for key in batch.keys})
        for key in batch.keys:
            del self._under_way[key]
        for waiter, one in batch.waiters:
            if waiter.done():
                continue
            if one is None:
                waiter.set_result(None)
            else:
                self._settle(waiter, one)

    def _settle(self, waiter: asyncio.Future[V | None], key: K) -> None:
        error = self._errors.get(key)
        if error is None:
            waiter.set_result(self._values[key])
        else:
            waiter.set_exception(error)
            # Whoever waits sees the error; where nobody does any more it is no news.
            waiter.exception()


class Loaders:
    """The loaders of one request, each made when it is first asked for."""

    def __init__(self) -> None:
        self._loaders: dict[Hashable, Loader[Any, Any]] = {}
        self.siblings = Siblings()

    def get(self, name: Hashable, read: Callable[[], BatchRead[K, V]]) -> Loader[K, V]:
        """The loader of this name; `read` makes its batch read when there is none yet.

        A name holds all that the read depends on beside its keys, e.g. the projection.
        """
        loader = self._loaders.get(name)
        if loader is None:
            loader = self._loaders[name] = Loader(read(), self.siblings)
        return loader

    def stop(self) -> None:
        """Gives up every read that is under way."""
        for loader in self._loaders.values():
            loader.stop()
