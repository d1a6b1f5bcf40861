"""Intents: records of what a write is about to do, stored apart from the documents that it changes.

A write announces its intent before its first step and withdraws it after its last step. If a crash leaves an intent, a
job finds it by its age, and finishes or rolls back the write. A mark on the document does the same and also blocks
other writers (see `category_edits`). Intents are for writes that need no such block, and save the document an index.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database
from portico.resolvers.typed import TypedDict

from .sweeps import sweep


class Intent(TypedDict):
    """An intent. Its `_id` is the id of the operation."""

    _id: str
    # What the operation does, and when it began.
    kind: str
    at: datetime
    # The documents that it is about to write.
    keys: list[str]


INTENTS = CollectionSpec(
    "intents",
    document=Intent,
    indexes=[IndexModel([("kind", ASCENDING), ("at", ASCENDING)])],
    shard_key={"_id": "hashed"},
)


async def announce(
    db: Database, operation_id: str, *, kind: str, keys: Sequence[str], now: datetime, goes_on: bool = False
) -> None:
    """Records that the operation is about to write the documents with these keys. Idempotent.

    If the operation goes on after a crash, the keys that it has announced before are kept.
    """
    change = {"$set": {"kind": kind, "at": now}, "$addToSet": {"keys": {"$each": list(keys)}}}
    if not goes_on:
        change = {"$set": {"kind": kind, "keys": list(keys), "at": now}}
    await db[INTENTS.name].update_one({"_id": operation_id}, change, upsert=True)


async def withdraw(db: Database, operation_id: str, *, at: datetime | None = None) -> None:
    """Removes the intent of an operation that has finished or was rolled back. Idempotent.

    With `at`, keeps an intent that was announced again since.
    """
    await db[INTENTS.name].delete_one({"_id": operation_id} if at is None else {"_id": operation_id, "at": at})


async def announced(db: Database, *, kind: str) -> set[str]:
    """Returns the keys of all documents in intents of this kind."""
    found = await INTENTS.of(db).find({"kind": kind}, {"keys": 1}).to_list()
    return {key for intent in found for key in intent["keys"]}


async def sweep_left_behind(
    db: Database, do: Callable[[Intent], Awaitable[int]], *, kind: str, before: datetime
) -> int:
    """Calls `do` for every intent of this kind announced at this time or earlier. Returns and raises like `sweep`."""
    return await sweep(db, INTENTS, {"kind": kind, "at": {"$lte": before}}, do)
