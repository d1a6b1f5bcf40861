"""Gives the memory of large operations back to the system.

Reference counts free almost all that an operation has read as soon as it is answered. Two parts stay:

1. Errors and cancelled tasks reference each other, and what the operation has read. The garbage collector would free
   them after a number of new objects, however large these are.
2. Small blocks that are in use keep glibc from returning the free blocks between them.

So after operations that left `_EVERY_BYTES` together, garbage is collected if some of them failed, and glibc returns
its free blocks. Both take longer in a process with more objects, so it happens for `1 / _PAUSES` of the time at most.

A collection of all garbage looks at the parsed operations, too. Where these are so many that it takes long, only young
objects are looked at after an operation, which takes milliseconds. All are looked at when no operation runs, or after
`_MANY_BYTES`: what other operations had read at the time of a collection is not young any more.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import sys
import time
from collections.abc import Callable

_EVERY_BYTES = 2_000_000
# By then, the last answer is on its way to its client, and what it consists of is free.
_SECONDS = 0.05
_PAUSES = 10
# By then, the tasks that failed operations left behind have ended, too.
_LATE_SECONDS = 3.0
# As long as an operation runs, a collection of all waits this often, for so long.
_WAITS, _WAIT_SECONDS = 50, 0.1
_MANY_BYTES = 20_000_000
# A collection of all garbage that takes less delays nobody.
_SHORT_SECONDS = 0.02
# The generation of the garbage collector that is not young.
_OLD = 2
_LIBRARY = ctypes.CDLL(None) if sys.platform == "linux" else None


class Memory:
    """The memory that the operations of one process leave behind."""

    def __init__(self, is_idle: Callable[[], bool] = lambda: True) -> None:
        """`is_idle` tells whether no operation runs."""
        self._is_idle = is_idle
        self._bytes = 0
        # What operations that failed have left since all garbage was collected.
        self._bytes_of_failed = 0
        self._has_garbage = False
        # How long the latest collection of all garbage took.
        self._seconds_for_all = 0.0
        self._soon: asyncio.TimerHandle | None = None
        self._late: asyncio.TimerHandle | None = None
        # In the time of the loop.
        self._not_before = 0.0

    def note_left(self, size: int, *, has_garbage: bool) -> None:
        """Notes that an operation has ended that may leave so many bytes. It `has_garbage` if parts of it failed."""
        self._bytes += size
        self._bytes_of_failed += size * has_garbage
        self._has_garbage |= has_garbage
        if self._bytes < _EVERY_BYTES or self._soon is not None:
            return
        loop = asyncio.get_running_loop()
        self._soon = loop.call_at(max(loop.time() + _SECONDS, self._not_before), self._give_back)
        if self._late is not None:
            self._late.cancel()
        self._late = loop.call_later(_LATE_SECONDS, self._give_back_all, _WAITS)

    def _give_back(self) -> None:
        collects_all = self._bytes_of_failed > _MANY_BYTES or self._seconds_for_all < _SHORT_SECONDS
        self._collect((_OLD if collects_all else _OLD - 1) if self._has_garbage else None)
        self._soon, self._bytes, self._has_garbage = None, 0, False

    def _give_back_all(self, waits: int) -> None:
        if waits and not self._is_idle():
            self._late = asyncio.get_running_loop().call_later(_WAIT_SECONDS, self._give_back_all, waits - 1)
            return
        self._late = None
        self._collect(_OLD)

    def _collect(self, generation: int | None) -> None:
        """Collects garbage of this generation and of those below, if any, and returns free blocks."""
        begun = time.thread_time()
        if generation is not None:
            gc.collect(generation)
        if generation == _OLD:
            self._bytes_of_failed = 0
            self._seconds_for_all = time.thread_time() - begun
        if _LIBRARY is not None and hasattr(_LIBRARY, "malloc_trim"):
            # Only glibc has it.
            _LIBRARY.malloc_trim(0)
        self._not_before = asyncio.get_running_loop().time() + _PAUSES * (time.thread_time() - begun)
