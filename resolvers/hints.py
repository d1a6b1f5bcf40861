"""Reads that name their index.

A database can lack the index: it is still being built, or the gateway only reads and cannot create it. Then MongoDB
refuses the read, and it is repeated without the name. That takes longer at most, because a hint changes no result.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from pymongo.errors import OperationFailure

T = TypeVar("T")
# The server's code for an invalid value. It has none for an index that does not exist.
_BAD_VALUE = 2


async def with_hint(index: str | list[tuple[str, int]], read: Callable[..., Awaitable[T]]) -> T:
    """Returns what the read returns with `hint`, or without it if there is no such index. One command, or two."""
    try:
        return await read(hint=index)
    except OperationFailure as error:
        if error.code != _BAD_VALUE or "hint" not in str(error):
            raise
    return await read()
