"""Records of intent: what a write is about to do, kept apart from the documents that it concerns.

A write announces before its first step and withdraws after its last. What a crash leaves is found by age, and a job
finishes or undoes it. A mark on the document itself does the same where the mark must also keep others away
(`category_edits`); here it would only cost the document's indexes.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document

from .sweeps import sweep

INTENTS = CollectionSpec(
    "intents",
    indexes=[IndexModel([("kind", ASCENDING), ("at", ASCENDING)])],
    shard_key={"_id": "hashed"},
)


async def announce(db: Database, operation_id: str, *, kind: str, keys: Sequence[str], now: datetime) -> None:
    """Notes that the operation is going to write the documents with these keys. May be repeated."""
    intent = {"kind": kind, "keys": list(keys), "at": now}
    await db[INTENTS.name].update_one({"_id": operation_id}, {"$set": intent}, upsert=True)


async def withdraw(db: Database, operation_id: str) -> None:
    """The operation has finished, one way or the other. May be repeated."""
    await db[INTENTS.name].delete_one({"_id": operation_id})


async def announced(db: Database, *, kind: str) -> set[str]:
    """The keys of all documents that somebody is about to write in this way."""
    found = await db[INTENTS.name].find({"kind": kind}, {"keys": 1}).to_list()
    return {key for intent in found for key in intent["keys"]}


async def sweep_left_behind(
    db: Database, do: Callable[[Document], Awaitable[int]], *, kind: str, before: datetime
) -> int:
    """Does it with every intent of this kind that was announced at this time or earlier. Returns and raises as `sweep`.

    An intent is {_id: the operation's, keys, at}.
    """
    return await sweep(db, INTENTS, {"kind": kind, "at": {"$lte": before}}, do)
