"""Notices code that blocks the event loop, e.g. `time.sleep` in a resolver, and logs where it is."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
import traceback

from portico.gateway.logs import logger

# In seconds. The second wait is short: a process that was suspended answers at once when it continues.
_INTERVAL, _PATIENCE, _GRACE = 1.0, 2.0, 0.25
_END_SECONDS = 5.0


class LoopWatch:
    """A thread that asks the running event loop for a sign of life every second.

    If the loop does not answer for `patience` seconds, the log gets "event loop blocked" with the stack of its thread,
    and afterwards for how long it was blocked.
    """

    def __init__(self, *, patience: float = _PATIENCE, interval: float = _INTERVAL) -> None:
        self._loop = asyncio.get_running_loop()
        self._watched = threading.get_ident()
        self._patience = patience
        self._interval = interval
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="loop watch", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """Ends the thread."""
        self._ending.set()
        await asyncio.to_thread(self._thread.join, _END_SECONDS)

    def _watch(self) -> None:
        while not self._ending.wait(self._interval):
            alive, asked = threading.Event(), time.monotonic()
            try:
                self._loop.call_soon_threadsafe(alive.set)
            except RuntimeError:
                # The loop is closed.
                return
            if not (alive.wait(self._patience) or alive.wait(_GRACE)):
                self._report(alive, asked)

    def _report(self, alive: threading.Event, asked: float) -> None:
        frame = sys._current_frames().get(self._watched)  # noqa: SLF001 - documented; the name has an underscore
        where = "".join(traceback.format_stack(frame)) if frame is not None else ""
        logger().error("event loop blocked", seconds=round(time.monotonic() - asked, 1), stack=where)
        while not (alive.wait(self._interval) or self._ending.is_set()):
            pass
        if alive.is_set():
            logger().warning("event loop continues", seconds=round(time.monotonic() - asked, 1))
