"""Ending tasks, though the driver may turn a cancellation into a failed command, or try the command again."""

from __future__ import annotations

import asyncio
from typing import Any

_CANCEL_AGAIN = 1.0


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancels the tasks until they have ended."""
    while under_way := [task for task in tasks if not task.done()]:
        for task in under_way:
            task.cancel()
        await asyncio.wait(under_way, timeout=_CANCEL_AGAIN)
    for task in tasks:
        if not task.cancelled():
            # Whoever waited for it has been told; of one that was cancelled nobody asks.
            task.exception()


def end_if_cancelled() -> None:
    """Raises CancelledError where the driver has swallowed the cancellation of this task."""
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
