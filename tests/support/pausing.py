"""Steps of a call in tests: one that waits until the test lets it go on, and one that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class Pause:
    """A step that sets `reached`, and waits until the test sets `go_on`. Then it returns its first argument."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.go_on = asyncio.Event()

    async def __call__(self, *given: Any) -> Any:
        self.reached.set()
        await self.go_on.wait()
        return given[0] if given else None


def failing(error: Exception | type[Exception]) -> Callable[..., Awaitable[Any]]:
    """Returns a function that raises the error, whatever its arguments are."""

    async def fail(*_: Any, **__: Any) -> Any:
        raise error

    return fail
