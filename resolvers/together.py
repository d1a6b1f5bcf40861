"""Commands that are sent at the same time, where a failure of one leaves none behind.

`asyncio.gather` returns at the first error, and the other commands go on alone: they write after their call has been
answered, or after the call has tidied up. These functions wait until everything has ended.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")


class Begun(Generic[A]):
    """Something that goes on while its caller does something else. A caller that is cancelled does not cancel it."""

    def __init__(self, work: Awaitable[A]) -> None:
        self._ending: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._run(work))

    async def _run(self, work: Awaitable[A]) -> A:
        try:
            return await work
        finally:
            # `asyncio.shield` would wake the caller two iterations of the event loop later.
            if not self._ending.done():
                self._ending.set_result(None)

    async def result(self) -> A:
        """Returns the result when there is one. Raises the error of the work. Await it once at a time."""
        if not self._task.done():
            if self._ending.cancelled():
                # A caller was cancelled that has waited before.
                self._ending = asyncio.get_running_loop().create_future()
            await self._ending
        return self._task.result()

    async def ended(self) -> BaseException | None:
        """Waits for the end, whatever the result is. Returns the error, which asyncio then does not log."""
        if not self._task.done():
            await asyncio.wait({self._task})
        return self._task.exception()


async def both(first: Awaitable[A], second: Awaitable[B]) -> tuple[A, B]:
    """Awaits two things at the same time. Waits until both have ended, then raises the error of a failed one."""
    other = asyncio.ensure_future(second)
    try:
        # Needs no task of its own.
        one = await first
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError):
            other.cancel()
        await asyncio.gather(other, return_exceptions=True)
        raise
    return one, await other


async def every(awaitables: Iterable[Awaitable[A]]) -> list[A]:
    """Awaits all at the same time. Waits until all have ended, then raises the error of a failed one."""
    all_of_them = list(awaitables)
    if len(all_of_them) == 1:
        # Needs no task of its own.
        return [await all_of_them[0]]
    # A result can be an error, too.
    begun = [asyncio.ensure_future(one) for one in all_of_them]
    await asyncio.gather(*begun, return_exceptions=True)
    return [one.result() for one in begun]
