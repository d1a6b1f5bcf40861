"""Works around bugs of the driver that would make tests fail."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from socket import socket
from typing import Any, ParamSpec

from pymongo import pool_shared

P = ParamSpec("P")


def patch_driver() -> None:
    """Patches the driver in this process."""
    pool_shared._async_create_connection = _closing(pool_shared._async_create_connection)


def _closing(connect: Callable[P, Coroutine[Any, Any, socket]]) -> Callable[P, Coroutine[Any, Any, socket]]:
    """Wraps the driver's function to connect, and closes the socket if the call is cancelled.

    PyMongo leaves that socket open (PYTHON-5867), e.g. a monitor's, if its client is closed at that moment. The garbage
    collector then closes it, and its warning makes another test fail.
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
