"""One pass over many documents, in which one that is damaged keeps nobody from the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable
from typing import TypeVar

from pymongo.errors import ConnectionFailure

Item = TypeVar("Item")


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
