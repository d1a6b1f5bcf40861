"""Makes PyMongo's waits safe to cancel on Python 3.11.

PyMongo waits for a server, or for a free connection, with `asyncio.wait_for` around a condition. Before Python 3.12,
`wait_for` runs the condition in a task of its own. If the caller is cancelled while that task takes the lock back after
a timeout, the caller goes on without the lock, and releases it although another task holds it. During an election,
other calls then fail with a RuntimeError, or wait for ever. From Python 3.12 on, `wait_for` waits in the task of the
caller, as here.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable
from typing import TypeVar

from pymongo import lock

T = TypeVar("T")


def make_safe() -> None:
    """Replaces the function with which PyMongo waits. It changes nothing from Python 3.12 on."""
    if sys.version_info < (3, 12):
        vars(lock)["wait_for"] = _wait_for


async def _wait_for(awaited: Awaitable[T], seconds: float | None) -> T:
    async with asyncio.timeout(seconds):
        return await awaited
