"""Runs the asynchronous work of a command."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import signal
from collections.abc import Coroutine, Iterator
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work with garbage collection, also if it is off because the process loads what the work needs.

    Ctrl-C cancels the work, and then raises KeyboardInterrupt. If the driver loses the cancellation, which is possible
    while it connects, that is at the end of the work.
    """
    interrupts: list[int] = []
    loads = not gc.isenabled()
    if loads:
        # What is loaded is permanent, so the collector skips it.
        gc.freeze()
        gc.enable()
    try:
        with asyncio.Runner() as runner:
            # An exception here would leave the work that nobody has begun.
            runner.get_loop()
            with handling_ctrl_c():
                result = runner.run(_noting(interrupts, work))
    finally:
        if loads:
            gc.disable()
    if interrupts:
        raise KeyboardInterrupt
    return result


async def _noting(interrupts: list[int], work: Coroutine[Any, Any, T]) -> T:
    """Does the work. Notes when Ctrl-C is handled in the way of asyncio."""
    handle = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: FrameType | None) -> None:
        interrupts.append(number)
        if callable(handle):
            handle(number, frame)

    if callable(handle):
        signal.signal(signal.SIGINT, note)
    return await work


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
