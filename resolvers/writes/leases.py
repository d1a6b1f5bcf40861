"""Leases: at most one process at a time holds the lease of a named piece of work, across machines."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TypedDict

from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database


class Lease(TypedDict):
    """A lease. Its `_id` is the name of the work."""

    _id: str
    owner: str
    until: datetime


LEASES = CollectionSpec("leases", document=Lease)


async def acquire(db: Database, name: str, *, owner: str, now: datetime, duration: timedelta) -> bool:
    """Acquires or renews the lease, for `duration` from `now`. Returns False while another owner holds it.

    A lease only avoids duplicate work. It does not exclude concurrent work, because a holder can be suspended past the
    end of its lease. The work itself must be safe to run twice concurrently.

    Writes:   leases; one guarded upsert.
    """
    guard = {"_id": name, "$or": [{"owner": owner}, {"until": {"$lte": now}}]}
    try:
        await db[LEASES.name].update_one(guard, {"$set": {"owner": owner, "until": now + duration}}, upsert=True)
    except DuplicateKeyError:
        return False
    return True


async def release(db: Database, names: Sequence[str], *, owner: str) -> None:
    """Releases those of the leases that this owner holds."""
    await db[LEASES.name].delete_many({"_id": {"$in": list(names)}, "owner": owner})
