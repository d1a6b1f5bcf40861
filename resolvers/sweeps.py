"""One pass over many documents, in which one that is damaged keeps nobody from the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from bson.errors import BSONError
from pymongo.errors import ConnectionFailure, WriteError

from .documents import Document, in_batches

Item = TypeVar("Item")

# What is raised where a document lacks a field, or has something else in it than it should.
DAMAGED = (ArithmeticError, AttributeError, BSONError, LookupError, TypeError, ValueError, WriteError)


async def each(items: AsyncIterable[Item], do: Callable[[Item], Awaitable[int]], *, at_once: int = 1) -> int:
    """Does it with every item, with so many at once. Returns how much was done, which is the sum of what `do` returns.

    Raises:   ExceptionGroup of what failed, once all others have had their turn. Without the database nothing goes on.
    """
    done = 0
    failures: list[Exception] = []
    line = asyncio.Semaphore(at_once)

    async def one(item: Item) -> None:
        nonlocal done
        try:
            count = await do(item)
            done += count
        except ConnectionFailure:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, it is this item's
            failures.append(error)
        finally:
            line.release()

    async with asyncio.TaskGroup() as group:
        async for item in items:
            await line.acquire()
            group.create_task(one(item))
    if failures:
        raise ExceptionGroup("some could not be finished", failures)
    return done


async def in_turn(*parts: Callable[[], Awaitable[int]]) -> int:
    """Does one part after the other, as `each` does: one that fails is not the end of those after it."""

    async def all_parts() -> AsyncIterator[Callable[[], Awaitable[int]]]:
        for part in parts:
            yield part

    return await each(all_parts(), lambda part: part())


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
