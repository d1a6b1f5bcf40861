"""Ends tasks reliably: a cancellation can get lost in the driver, and the task would go on.

The driver may report it as a failed command, or retry the command. It also sends each command by `asyncio.wait_for`,
which Python 3.11 does not always end when it is cancelled (https://github.com/python/cpython/issues/86296).
"""

from __future__ import annotations

import asyncio
from typing import Any

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


def end_if_cancelled() -> None:
    """Raises CancelledError if the driver has swallowed the cancellation of this task."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
