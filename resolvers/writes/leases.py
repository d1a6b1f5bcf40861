"""Leases: at most one holder at a time does a named piece of work, on any number of machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database

LEASES = CollectionSpec("leases")


async def acquire(db: Database, name: str, *, owner: str, now: datetime, duration: timedelta) -> bool:
    """Takes or renews the lease, for `duration` from `now`. False while somebody else has it.

    A lease keeps workers from doing the same work twice in vain; it guards nothing. What they do is safe to be done
    by two at once, for a holder may sleep past the end of its lease.

    Writes:   leases; one guarded upsert.
    """
    guard = {"_id": name, "$or": [{"owner": owner}, {"until": {"$lte": now}}]}
    try:
        await db[LEASES.name].update_one(guard, {"$set": {"owner": owner, "until": now + duration}}, upsert=True)
    except DuplicateKeyError:
        return False
    return True


async def release(db: Database, names: Sequence[str], *, owner: str) -> None:
    """Gives back those of the leases that this owner has."""
    await db[LEASES.name].delete_many({"_id": {"$in": list(names)}, "owner": owner})
