"""Works around bugs of the driver that would make tests fail."""

from __future__ import annotations

import asyncio
import functools
import sys
import traceback
from asyncio.selector_events import BaseSelectorEventLoop
from socket import socket
from types import SimpleNamespace
from typing import Any

import uvloop
from pymongo import settings_shared


def patch_driver() -> None:
    """Patches the event loops of this process, which only the driver asks to connect a socket."""
    for kind in (BaseSelectorEventLoop, uvloop.Loop):
        kind.sock_connect = _closing(kind.sock_connect)  # type: ignore[method-assign]
    # Each client keeps the stack where it was created, for a warning. Formatting all of it takes a tenth of the time
    # in which a gateway starts.
    settings_shared.traceback = SimpleNamespace(format_stack=_short_stack)  # type: ignore[attr-defined,assignment]


def _short_stack() -> list[str]:
    return traceback.format_stack(sys._getframe(1), limit=6)


def _closing(connect: Any) -> Any:
    """Wraps the method, and closes the socket if the call is cancelled.

    PyMongo leaves that socket open (PYTHON-5867), e.g. a monitor's, if its client is closed or the loop ends at that
    moment. The garbage collector then closes it, and its warning makes another test fail.
    """

    @functools.wraps(connect)
    async def connected(loop: asyncio.AbstractEventLoop, connecting: socket, address: Any) -> None:
        try:
            await connect(loop, connecting, address)
        except asyncio.CancelledError:
            connecting.close()
            raise

    return connected
