"""Ends tasks reliably: a cancellation can get lost in the driver, and the task would go on.

The driver may report it as a failed command, or retry the command. It also sends each command by `asyncio.wait_for`,
which Python 3.11 does not always end when it is cancelled (https://github.com/python/cpython/issues/86296).
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")
_CANCEL_AGAIN = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels the tasks until they have ended."""
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=_CANCEL_AGAIN)
    for task in tasks:
        if not task.cancelled():
            # Retrieves an error that nobody waits for, so that asyncio does not log it.
            task.exception()


async def complete(work: Coroutine[Any, Any, T]) -> T:
    """Returns the result of work that ends even if its caller is cancelled meanwhile, such as the undoing of a write.

    Raises:   CancelledError after the work, if the caller was cancelled; what the work raises.
    """
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait({task})
        if not task.cancelled():
            # Retrieves an error that nobody waits for, so that asyncio does not log it.
            task.exception()
        raise


def end_if_cancelled() -> None:
    """Raises CancelledError if the driver has swallowed the cancellation of this task."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
