"""Batched reads: all keys that one level of a request asks for are read by one command."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

BatchRead = Callable[[Sequence[K]], Awaitable[Mapping[K, V]]]
# The largest batch. More keys take several commands.
MAX_BATCH = 1000


class _Batch(Generic[K, V]):
    """The keys of one read, and its waiters. A waiter waits for the value of its key, or, with None, for the batch."""

    __slots__ = ("keys", "waiters")

    def __init__(self) -> None:
        self.keys: list[K] = []
        # Each waiter has its own future, so that cancelling one waiter does not cancel the others.
        self.waiters: list[tuple[asyncio.Future[Any], K | None]] = []


@dataclass(slots=True)
class Siblings:
    """Whether other fields may ask for keys while one field waits. If `are_none`, reads start immediately."""

    are_none: bool = False


class Loader(Generic[K, V]):
    """Collects keys until no new ones arrive, reads them together, and caches the values.

    A batch is sent after a whole iteration of the event loop without a new key. Therefore, siblings that reach the
    loader a few iterations apart still share a command. The value of a key that the read does not return is None.
    """

    def __init__(self, read: BatchRead[K, V], siblings: Siblings | None = None) -> None:
        self._read = read
        self._siblings = siblings or Siblings()
        self._values: dict[K, V | None] = {}
        self._errors: dict[K, BaseException] = {}
        self._in_flight: dict[K, _Batch[K, V]] = {}
        self._collecting: list[_Batch[K, V]] = []
        self._count = 0
        self._seen = 0
        self._running: set[asyncio.Task[None]] = set()

    @property
    def is_new(self) -> bool:
        """Whether it has not read or been given anything yet."""
        return not (self._values or self._errors or self._in_flight)

    def load(self, key: K) -> asyncio.Future[V | None]:
        """Returns a future with the value of a key."""
        waiter: asyncio.Future[V | None] = asyncio.get_running_loop().create_future()
        if key in self._values or key in self._errors:
            self._settle(waiter, key)
        else:
            self._batch_of(key).waiters.append((waiter, key))
        return waiter

    async def load_all(self, keys: Iterable[K]) -> Mapping[K, V | None]:
        """Returns the values of at least these keys, with one wait for all of them. Raises the errors of the read."""
        wanted: dict[K, V | None] = dict.fromkeys(keys)
        if self._values or self._errors:
            missing = [key for key in wanted if key not in self._values and key not in self._errors]
        else:
            missing = list(wanted)
        if missing and self._siblings.are_none and not self._in_flight and len(missing) <= MAX_BATCH:
            # Filling a dict from a dict hashes no key again. An ObjectId is slow to hash.
            found: dict[K, V | None] = wanted if len(missing) == len(wanted) else dict.fromkeys(missing)
            found.update(await self._read(missing))
            self._values.update(found)
            return self._values
        loop = asyncio.get_running_loop()
        waiters: list[asyncio.Future[None]] = []
        # Registers with all batches before it awaits the first, because a later batch may finish sooner.
        for batch in {id(batch): batch for batch in map(self._batch_of, missing)}.values():
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
        """Caches a value that the request has read in another way."""
        self._values.setdefault(key, value)

    def _batch_of(self, key: K) -> _Batch[K, V]:
        """Returns the batch of the key. Adds the key to a new batch if it is in none."""
        batch = self._in_flight.get(key)
        if batch is not None:
            return batch
        if not self._collecting:
            self._count = self._seen = 0
            asyncio.get_running_loop().call_soon(self._send_when_quiet)
        if not self._collecting or len(self._collecting[-1].keys) == MAX_BATCH:
            self._collecting.append(_Batch())
        batch = self._in_flight[key] = self._collecting[-1]
        batch.keys.append(key)
        self._count += 1
        return batch

    def stop(self) -> None:
        """Cancels reads in flight, and drops collected keys. Call it if nobody waits any more."""
        self._collecting = []
        for task in self._running:
            task.cancel()

    def _send_when_quiet(self) -> None:
        loop = asyncio.get_running_loop()
        if self._count > self._seen:
            self._seen = self._count
            loop.call_soon(self._send_when_quiet)
            return
        batches, self._collecting = self._collecting, []
        for batch in batches:
            task = loop.create_task(self._send(batch))
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _send(self, batch: _Batch[K, V]) -> None:
        try:
            values = await self._read(batch.keys)
        except BaseException as error:  # noqa: BLE001 - the waiters get every error
            self._errors.update(dict.fromkeys(batch.keys, error))
        else:
            self._values.update({key: values.get(key) for key in batch.keys})
        for key in batch.keys:
            del self._in_flight[key]
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
            # Marks the error as retrieved: without a waiter, asyncio would log it.
            waiter.exception()


class Loaders:
    """The loaders of one request, each created at its first use."""

    def __init__(self, siblings: Siblings | None = None) -> None:
        self._loaders: dict[Hashable, Loader[Any, Any]] = {}
        self._renewed: Loaders | None = None
        self.siblings = siblings or Siblings()

    def get(self, name: Hashable, read: Callable[[], BatchRead[K, V]]) -> Loader[K, V]:
        """Returns the loader with this name. If there is none yet, `read` creates its batch read.

        The name must contain everything that the read depends on besides its keys, e.g. the projection.
        """
        loader = self._loaders.get(name)
        if loader is None:
            loader = self._loaders[name] = Loader(read(), self.siblings)
        return loader

    def renewed(self) -> Loaders:
        """Returns loaders that have read nothing. `stop` and `clear` of these also concern the latest of those."""
        self._renewed = Loaders(self.siblings)
        return self._renewed

    def stop(self) -> None:
        """Cancels all reads in flight."""
        for loader in self._loaders.values():
            loader.stop()
        if self._renewed is not None:
            self._renewed.stop()

    def clear(self) -> None:
        """Drops all values. Reads in flight end without them."""
        self._loaders.clear()
        if self._renewed is not None:
            self._renewed.clear()
