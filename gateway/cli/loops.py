"""Runs the asynchronous work of a command."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work with garbage collection, also if it is off because the process loads what the work needs."""
    loads = not gc.isenabled()
    if loads:
        # What is loaded is permanent, so the collector skips it.
        gc.freeze()
        gc.enable()
    try:
        return asyncio.run(work)
    finally:
        if loads:
            gc.disable()
