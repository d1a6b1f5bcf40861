"""Faults of the driver that a test would be blamed for."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from socket import socket
from typing import Any, ParamSpec

from pymongo import pool_shared

P = ParamSpec("P")


def patch_driver() -> None:
    """Mends them for the process."""
    pool_shared._async_create_connection = _closing(pool_shared._async_create_connection)


def _closing(connect: Callable[P, Coroutine[Any, Any, socket]]) -> Callable[P, Coroutine[Any, Any, socket]]:
    """Connects as the driver does, and closes the socket where that is cancelled.

    PyMongo drops it instead (PYTHON-5867), as it does with its monitors' where a client is closed in that instant. The
    collector then closes it, and tells of a socket left open in whatever test runs by then.
    """

    @functools.wraps(connect)
    async def connected(*args: P.args, **kwargs: P.kwargs) -> socket:
        task = asyncio.ensure_future(connect(*args, **kwargs))
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.add_done_callback(_close)
            await asyncio.wait([task])
            raise

    return connected


def _close(connecting: asyncio.Future[socket]) -> None:
    if not connecting.cancelled() and connecting.exception() is None:
        connecting.result().close()
