"""Holds calls up at a place that they reach."""

from __future__ import annotations

import asyncio


class Pause:
    """An action for `interrupted`: it notes that it is reached, and waits until the test lets it go on."""

    def __init__(self) -> None:
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self) -> None:
        self.reached.set()
        await asyncio.wait_for(self.go_on.wait(), 30)
