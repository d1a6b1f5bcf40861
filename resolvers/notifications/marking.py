"""Marks notifications as read. A notification that has been read stays so."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portico.resolvers.documents import Database, Document

from .notifications import NOTIFICATIONS, NotificationDocument

# The notifications of one call: so many batches.
_BATCH, _BATCHES = 1_000, 10
MAX_MARKED = _BATCH * _BATCHES


async def mark_read(db: Database, member: str, keys: Sequence[str], *, now: datetime) -> None:
    """Marks these notifications of the member.

    Writes:   notifications; one guarded update of each, by one command.
    """
    guard: Document = {"_id": {"$in": list(keys)}, "of": member, "unread": True}
    await db[NOTIFICATIONS.name].update_many(guard, {"$set": {"read_at": now}, "$unset": {"unread": ""}})


async def mark_read_through(db: Database, member: str, last: NotificationDocument, *, now: datetime) -> None:
    """Marks a notification of the member and all older ones, at most `MAX_MARKED`, the latest first.

    Writes:   notifications; one guarded update of each, by one command for each 1,000.
    """
    same = {"created_at": last["created_at"], "_id": {"$lte": last["_id"]}}
    older = {"$or": [{"created_at": {"$lt": last["created_at"]}}, same]}
    query: Document = {"of": member, "unread": True, "created_at": {"$lte": last["created_at"]}, **older}
    for _ in range(_BATCHES):
        rows = db[NOTIFICATIONS.name].find(query, {"_id": 1}, sort=[("created_at", -1), ("_id", -1)], limit=_BATCH)
        keys = [row["_id"] for row in await rows.to_list()]
        if keys:
            await mark_read(db, member, keys, now=now)
        if len(keys) < _BATCH:
            return
