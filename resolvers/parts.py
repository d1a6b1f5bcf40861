"""Reads that are a part of a run, so that a change of what they read matters only if it changes what they return."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from .documents import Database

V = TypeVar("V")


async def as_part(db: Database, read: Callable[[Database], Awaitable[V]]) -> V:
    """Returns what `read` returns of the database.

    A live query runs again only if that is another value: after a change, `read` is repeated, and its results are
    compared by their `repr`. So `read` must read nothing but the database, and use nothing else than what it is given.
    """
    part = getattr(type(db), "part", None)
    return await (read(db) if part is None else part(db, read))
