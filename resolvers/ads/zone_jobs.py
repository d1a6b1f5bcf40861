"""Finishes interrupted deactivations, and removes pending ads whose placement has crashed."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import in_turn, sweep

from . import deactivating
from .campaigns import CAMPAIGNS
from .placing import STALE_AFTER
from .zones import RENEW, ZONES


async def settle_ads(db: Database, *, now: datetime) -> int:
    """Finishes deactivations, and removes pending ads, that are older than five seconds. Returns how many."""
    return await in_turn(partial(_finish_deactivations, db, now), partial(_remove_pending, db, now))


async def _finish_deactivations(db: Database, now: datetime) -> int:
    async def finish(campaign: Document) -> int:
        await deactivating.finish_now(db, campaign["_id"])
        return 1

    return await sweep(db, CAMPAIGNS, {"ending_since": {"$lte": now - STALE_AFTER}}, finish, fields=())


async def _remove_pending(db: Database, now: datetime) -> int:
    before = now - STALE_AFTER

    async def remove(zone: Document) -> int:
        return await remove_pending(db, zone["_id"], before)

    return await sweep(db, ZONES, {"ads.pending.at": {"$lte": before}}, remove, fields=())


async def remove_pending(db: Database, zone: str, before: datetime) -> int:
    """Removes the ads of a zone that have been pending since this time or longer. Returns 1 if there were any."""
    is_stale = {"$and": ["$$ad.pending", {"$lte": ["$$ad.pending.at", before]}]}
    kept: Document = {"$filter": {"input": "$ads", "as": "ad", "cond": {"$not": [is_stale]}}}
    guard = {"_id": zone, "ads.pending.at": {"$lte": before}}
    return (await db[ZONES.name].update_one(guard, [{"$set": {"ads": kept}}, RENEW])).modified_count
