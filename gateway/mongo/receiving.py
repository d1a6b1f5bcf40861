"""Counts the bytes of the replies that the driver receives for an operation.

Direct reads ask before they receive a reply (`links`). The driver's replies are counted as soon as they have arrived.
The operation then stops before its next read.
"""

from __future__ import annotations

import functools
from typing import Any

from pymongo.asynchronous import pool as asynchronous
from pymongo.synchronous import pool as synchronous

from portico.resolvers.answer_bounds import METER

_ASYNCHRONOUS, _SYNCHRONOUS = "async_receive_message", "receive_message"


def count_replies() -> None:
    """Makes the driver, and Motor in its threads, count the replies. Does nothing if it has been called before."""
    receive = getattr(asynchronous, _ASYNCHRONOUS, None)
    if receive is not None and not hasattr(receive, "__wrapped__"):

        @functools.wraps(receive)
        async def received(*args: Any, **options: Any) -> Any:
            return _counted(await receive(*args, **options))

        setattr(asynchronous, _ASYNCHRONOUS, received)
    blocking = getattr(synchronous, _SYNCHRONOUS, None)
    if blocking is not None and not hasattr(blocking, "__wrapped__"):

        @functools.wraps(blocking)
        def received_blocking(*args: Any, **options: Any) -> Any:
            return _counted(blocking(*args, **options))

        setattr(synchronous, _SYNCHRONOUS, received_blocking)


def _counted(reply: Any) -> Any:
    meter = METER.get()
    if meter is not None:
        meter.count(len(getattr(reply, "payload_document", b"")))
    return reply
