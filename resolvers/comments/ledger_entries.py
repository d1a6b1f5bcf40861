"""The entries of a discussion: one for each write of a comment that is in flight. `ledger` says what they are for."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from secrets import token_hex
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound

from .discussions import DISCUSSIONS, OPEN

# A comment that can be removed.
CHILDLESS: Document = {"replies": 0, "coming.0": {"$exists": False}, "removing": None, "gone": None}
# How many of the removals that were called off a comment remembers. There is one only after a crash or a long pause.
_CALLED_OFF_KEPT = 20


def is_childless(comment: Mapping[str, Any]) -> bool:
    """Returns whether a comment has no replies, no entries of replies in flight, and is not being removed."""
    return comment["replies"] == 0 and not any(comment.get(name) for name in ("coming", "removing", "gone"))


def new_entry(comment_id: ObjectId, *, by: int, parent: ObjectId | None, now: datetime) -> Document:
    return {"id": comment_id, "attempt": token_hex(16), "by": by, "parent": parent, "at": now}


async def add_entry(db: Database, discussion: ObjectId, entry: Document) -> None:
    # For each `find_one_and_update`, MongoDB also stores the whole document, in case the driver sends it again.
    if not (await db[DISCUSSIONS.name].update_one(*adding(discussion, entry))).matched_count:
        raise NotFound("Discussion", str(discussion))


def adding(discussion: ObjectId, entry: Document) -> tuple[Document, Document]:
    """Returns the guard and the update that add an entry to the discussion."""
    return {"_id": discussion, **OPEN}, {"$push": {"under_way": entry}}


def took_effect(comment: Mapping[str, Any] | None, entry: Mapping[str, Any]) -> bool:
    """Returns whether the write of an entry has taken effect on its comment."""
    if comment is None:
        return False
    by = comment["attempt"] if entry["by"] > 0 else comment.get("gone", {}).get("attempt")
    return bool(by == entry["attempt"])


def standing(entry: Mapping[str, Any]) -> Document:
    """Returns a guard that a removal has not been called off."""
    return {"called_off": {"$ne": entry["attempt"]}}


def calling_off(entry: Mapping[str, Any]) -> Document:
    """Returns an update that calls a removal off: its process, which may resume later, cannot carry it out any more."""
    return {"$push": {"called_off": {"$each": [entry["attempt"]], "$slice": -_CALLED_OFF_KEPT}}}
