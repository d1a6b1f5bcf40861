"""Long waits of an operation: for another operation, for a client's data, or for a service.

The gateway lets a bounded number of operations run at a time. An operation can wait for something other than the
database, even for another operation. It then gives its place to others:

    async with waiting():
        await asyncio.sleep(1)

Outside of an operation, for example in a job, it does nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from contextvars import ContextVar

Aside = Callable[[], AbstractAsyncContextManager[None]]

# Set by the gateway for each operation.
ASIDE: ContextVar[Aside] = ContextVar("aside", default=nullcontext)


def waiting() -> AbstractAsyncContextManager[None]:
    """Returns a context manager for a long wait. At its end, the operation waits until it may run again."""
    return ASIDE.get()()
