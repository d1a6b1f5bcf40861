"""Lets a call that waits for a condition of the driver be cancelled at any moment.

PyMongo waits for its conditions by `asyncio.wait_for`: for a primary, or for a place in a pool. Before Python 3.12,
`wait_for` runs the wait in a task of its own. If the caller is cancelled while that task takes the condition's lock
back after a timeout, `wait_for` returns without it. The caller then releases a lock that another task holds, and the
task that was left behind keeps the lock for ever. From then on, every command of the client times out. That happens on
a busy machine during an outage, when operations time out while many wait for a primary.

`asyncio.timeout` waits in the caller's own task, as `wait_for` does since Python 3.12 (python/cpython#96764).
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pymongo.asynchronous import pool, topology

_NAME = "_async_cond_wait"


async def wait_for_condition(condition: Any, seconds: float | None) -> bool:
    """Waits until the condition is notified; the caller holds its lock before and after, however the wait ends.

    Returns:  whether it was notified within this time.
    """
    try:
        async with asyncio.timeout(seconds):
            notified: bool = await condition.wait()
            return notified
    except TimeoutError:
        return False


def patch_driver() -> None:
    """Makes the driver wait in this way, if the Python version needs it and the driver still has the function."""
    if sys.version_info < (3, 12):
        for module in (pool, topology):
            if hasattr(module, _NAME):
                setattr(module, _NAME, wait_for_condition)
