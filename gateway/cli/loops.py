"""Runs the asynchronous work of a command."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work with garbage collection, also if it is off because the process loads what the work needs.

    Ctrl-C cancels the work, and then raises KeyboardInterrupt.
    """
    loads = not gc.isenabled()
    if loads:
        # What is loaded is permanent, so the collector skips it.
        gc.freeze()
        gc.enable()
    try:
        with handling_ctrl_c():
            return asyncio.run(work)
    finally:
        if loads:
            gc.disable()


@contextlib.contextmanager
def handling_ctrl_c() -> Iterator[None]:
    """Lets an event loop handle Ctrl-C within the block. Outside, it ends the process: see `entry`."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.SIG_DFL:
        # asyncio replaces only this handler.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
