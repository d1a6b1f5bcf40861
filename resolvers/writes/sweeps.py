"""One pass over many documents, in which a damaged document never keeps the healthy ones from their turn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Generic, TypeVar

from bson.errors import BSONError
from pymongo.errors import BulkWriteError, ConnectionFailure, PyMongoError, WriteConcernError, WriteError

from portico.resolvers.documents import CollectionSpec, Database, Document, in_batches, key_of

Item = TypeVar("Item")

# What is raised where a document lacks a field, or has something else in it than it should.
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
# Of what has failed in one pass, the log shows so many.
_KEPT_FAILURES = 20


class SweepFailed(ExceptionGroup[Exception]):
    """Some items of a pass failed, after all others had their turn.

    `count` is how many failed, of which `exceptions` shows the first. `done` is how much was done nevertheless.
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
    """Does it with every item, `at_once` at the same time.

    Args:     most: stop after about this many items. An item that fails does not count, so that failing items never
              keep the others from their turn.
    Returns:  how much was done: the sum of what `do` returns.
    Raises:   SweepFailed, once all others have had their turn; the error itself of a single item, and where the
              database cannot be reached or does not answer in time, so that nothing goes on.
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
        except Exception as error:  # noqa: BLE001 - it is raised below, when nothing is under way any more
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
    """What has come of the items of one pass so far. `ended` is why it does not go on."""

    def __init__(self, do: Callable[[Item], Awaitable[int]], at_once: int) -> None:
        self.line = asyncio.Semaphore(at_once)
        self.begun = self.done = self.succeeded = self.failed = 0
        self.failures: list[Exception] = []
        self.ended: Exception | None = None
        self._do = do

    async def one(self, item: Item) -> None:
        try:
            count = await self._do(item)
            self.done += count
            self.succeeded += 1
        except SweepFailed as failed:
            self.done += failed.done
            self._keep(failed.count, *failed.exceptions)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
            if _is_outage(error):
                self.ended = error
            else:
                self._keep(1, error)
        finally:
            self.line.release()

    def _keep(self, count: int, *errors: Exception) -> None:
        """The log shows the first failures only, and how many there are."""
        self.failed += count
        self.failures += errors[: _KEPT_FAILURES - len(self.failures)]


def _is_outage(error: Exception) -> bool:
    """Whether the database could not be reached, or did not answer in time: the next item would fail, too.

    Other errors of the server may be one item's, e.g. where an update finds a text instead of a number.
    """
    is_late = isinstance(error, PyMongoError) and error.timeout
    return is_late or isinstance(error, ConnectionFailure | WriteConcernError)


async def _stream(items: Iterable[Item]) -> AsyncIterator[Item]:
    for item in items:
        yield item


async def in_turn(*parts: Callable[[], Awaitable[int]]) -> int:
    """Does one part after the other, as `each` does: a part that fails does not keep the next ones from their turn."""
    return await each(parts, lambda part: part())


async def sweep(
    db: Database,
    spec: CollectionSpec,
    query: Document,
    do: Callable[[Document], Awaitable[int]],
    *,
    fields: Sequence[str] | None = None,
    at_once: int = 1,
    most: int | None = None,
) -> int:
    """Does it with every document of the collection that matches, as `each` does.

    The keys are read together, and each document by itself: one that the driver cannot decode fails alone.

    Args:     fields: what `do` reads beside the key, `_id` and the shard key; None for the whole document.
    """
    key = key_of(spec)

    async def one(found: Document) -> int:
        try:
            document: Document | None = found
            if fields is None or fields:
                named = {path: {"$eq": value} for path, value in found.items()}
                wanted = None if fields is None else dict.fromkeys((*key, *fields), 1)
                document = await db[spec.name].find_one({**query, **named}, wanted)
            return 0 if document is None else await do(document)
        except Exception as error:
            if not _is_outage(error):
                # Of a group only what is in it is kept.
                for inner in error.exceptions if isinstance(error, SweepFailed) else (error,):
                    inner.add_note(f"In {spec.name}: {found['_id']!r}")
            raise

    return await each(db[spec.name].find(query, key), one, at_once=at_once, most=most)


async def wrong_in_batches(
    documents: AsyncIterable[Document], find: Callable[[list[Document]], AsyncIterator[Document]], size: int = 500
) -> AsyncIterator[Document]:
    """What `find` finds wrong in the documents of a cursor, which it is given so many at a time.

    One that it cannot make sense of is wrong itself, as {_id, problem}, and keeps it from no other.
    """
    async for batch in in_batches(documents, size):
        for wrong in await _wrong_in(batch, find):
            yield wrong


async def _wrong_in(batch: list[Document], find: Callable[[list[Document]], AsyncIterator[Document]]) -> list[Document]:
    try:
        return [wrong async for wrong in find(batch)]
    except DAMAGED as error:
        if len(batch) == 1:
            return [_damaged(batch[0], error)]
    # Only one by one can tell which of them it is.
    return [wrong for document in batch for wrong in await _wrong_in([document], find)]


def wrong_with(document: Document, find: Callable[[Document], Iterable[Document]]) -> list[Document]:
    """As `wrong_in_batches`, of one document."""
    try:
        return list(find(document))
    except DAMAGED as error:
        return [_damaged(document, error)]


def require(document: Document, names: Iterable[str]) -> None:
    """Raises KeyError where the document lacks one of these fields."""
    for name in names:
        document[name]


def _damaged(document: Document, error: Exception) -> Document:
    return {"_id": document["_id"], "problem": told(error)}


def told(error: Exception) -> str:
    """What is wrong with a document that has led to an error of `DAMAGED`."""
    return f"a field is missing, or is not what it should be ({type(error).__name__}: {error})"
