"""Passes over many documents, in which a damaged document does not stop the others.

A damaged document or entry fails alone. The others are processed; then the pass raises `SweepFailed` with the first
failures and their number, and the next run tries again. A sweep reads the keys first and each document separately,
because one value that the driver cannot decode would spoil a whole batch. If MongoDB cannot be reached or a command
times out, the pass ends at once, because the other documents would wait for the same timeout. Failures do not count
towards a limit, so damaged documents cannot fill it.

Jobs that settle marks use `sweep`, and `each` for a list in a document. Jobs that only delete by age, and
`upgrade-documents`, work in batches instead. An upgrade that fails marks its document `upgrade_failed`, and later
batches skip it. If a category below a renamed or moved one is damaged, its job tries again after ten minutes, because
each attempt reads the whole subtree. The job that asks for payments handles ten carts in parallel.
"""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from datetime import timedelta
from typing import Any, Generic, TypeVar

from bson.errors import BSONError
from pymongo.errors import BulkWriteError, PyMongoError, WriteConcernError, WriteError

from portico.resolvers.documents import CollectionSpec, Database, Document, key_of
from portico.resolvers.elections import met_election

Item = TypeVar("Item")

# A call removes its mark within milliseconds. A mark of this age was left by a crash, or belongs to a stalled call. The
# job and that call can both continue, because every step is guarded. Marks of longer calls have limits of their own.
STALE_AFTER = timedelta(seconds=5)
# The errors that a document with a missing or invalid field causes.
DAMAGED = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    BSONError,
    BulkWriteError,
    LookupError,
    TypeError,
    ValueError,
    WriteError,
)
# The most failures of one pass in the log.
_KEPT_FAILURES = 20


class SweepFailed(ExceptionGroup[Exception]):
    """Some items of a pass failed. All others have been processed.

    `count` is how many failed; `exceptions` has the first of them. `done` is how much was done nevertheless.
    """

    count: int = 0
    done: int = 0

    @classmethod
    def of(cls, failures: Sequence[Exception], done: int, count: int | None = None) -> SweepFailed:
        count = count or len(failures)
        failed = cls(f"{count} could not be finished", failures[:_KEPT_FAILURES])
        failed.count, failed.done = count, done
        return failed


async def each(
    items: AsyncIterable[Item] | Iterable[Item],
    do: Callable[[Item], Awaitable[int]],
    *,
    at_once: int = 1,
    most: int | None = None,
) -> int:
    """Calls `do` for every item, `at_once` concurrently.

    Args:     most: stop after about this many items. Failed items don't count, so that they never crowd out the others.
    Returns:  how much was done: the sum of what `do` returns.
    Raises:   SweepFailed after all items, if some have failed; an item's own error if it was the only item. If the
              database is unreachable or times out, it stops with that error.
    """
    work = _Sweep(do, at_once)
    stream = aiter(items) if isinstance(items, AsyncIterable) else _stream(items)
    async with asyncio.TaskGroup() as group:
        try:
            async for item in stream:
                await work.line.acquire()
                if work.ended is not None or (most is not None and work.succeeded >= most):
                    break
                work.begun += 1
                group.create_task(work.one(item))
        except Exception as error:  # noqa: BLE001 - it is raised below, once all tasks have ended
            work.ended = error
        finally:
            if isinstance(stream, AsyncGenerator):
                await stream.aclose()
    if work.ended is not None:
        raise work.ended
    if work.begun == work.failed == 1 and not work.done:
        raise work.failures[0]
    if work.failed:
        raise SweepFailed.of(work.failures, work.done, work.failed)
    return work.done


class _Sweep(Generic[Item]):
    """The progress of one pass. `ended` is the error that stops it."""

    def __init__(self, do: Callable[[Item], Awaitable[int]], at_once: int) -> None:
        self.line = asyncio.Semaphore(at_once)
        self.begun = self.done = self.succeeded = self.failed = 0
        self.failures: list[Exception] = []
        self.ended: Exception | None = None
        self._do = do

    async def one(self, item: Item) -> None:
        try:
            count = as_count(await self._do(item), self._do)
            self.done += count
            self.succeeded += 1
        except SweepFailed as failed:
            self.done += failed.done
            self._keep(failed.count, *failed.exceptions)
        except Exception as error:  # noqa: BLE001 - any error counts as a failure of this item
            if is_outage(error):
                self.ended = error
            else:
                self._keep(1, error)
        finally:
            self.line.release()

    def _keep(self, count: int, *errors: Exception) -> None:
        """Counts failures, and keeps the first of them for the log."""
        self.failed += count
        self.failures += errors[: _KEPT_FAILURES - len(self.failures)]


def as_count(done: object, doing: object) -> int:
    """Returns what a job, or a function that works on one item, has returned. Raises TypeError if it is no number."""
    if not isinstance(done, int):
        name = getattr(doing, "__qualname__", repr(doing))
        raise TypeError(f"{name} must return how much it did, as a whole number; it returned {done!r}.")
    return done


def is_outage(error: Exception) -> bool:
    """Returns whether the database was unreachable or timed out, so that the next item would fail, too.

    Other server errors can be the item's own, e.g. an update that finds a string instead of a number.
    """
    is_late = isinstance(error, PyMongoError) and error.timeout
    return is_late or met_election(error) or isinstance(error, WriteConcernError)


async def _stream(items: Iterable[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item


async def sweep(
    db: Database,
    spec: CollectionSpec,
    query: Document,
    do: Callable[[Any], Awaitable[int]],
    *,
    fields: Sequence[str] | None = None,
    at_once: int = 1,
    most: int | None = None,
) -> int:
    """Calls `do` for every matching document of the collection, like `each`.

    It reads the keys together and each document by itself, so a document that the driver cannot decode fails alone.

    Args:     fields: what `do` reads besides the key, `_id` and the shard key; None for the whole document.
    """
    key = key_of(spec)

    async def one(found: Document) -> int:
        try:
            document: Document | None = found
            if fields is None or fields:
                named = {path: {"$eq": value} for path, value in found.items()}
                wanted = None if fields is None else dict.fromkeys((*key, *fields), 1)
                document = await spec.of(db).find_one({**query, **named}, wanted)
            return 0 if document is None else await do(document)
        except Exception as error:
            if not is_outage(error):
                # The group itself is dropped later, so annotate its members.
                for inner in error.exceptions if isinstance(error, SweepFailed) else (error,):
                    inner.add_note(f"In {spec.name}: {found['_id']!r}")
            raise

    return await each(spec.of(db).find(query, key), one, at_once=at_once, most=most)


def require(document: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raises KeyError if the document lacks one of these fields."""
    for name in names:
        document[name]


def describe_damage(error: Exception) -> str:
    """Returns a readable reason for an error that a document caused."""
    if not isinstance(error, DAMAGED):
        return f"{type(error).__name__}: {error}"
    return f"a field is missing or invalid ({type(error).__name__}: {error})"
