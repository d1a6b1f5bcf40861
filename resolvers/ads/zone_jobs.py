"""Finishes interrupted deactivations, and removes pending ads whose placement has crashed."""

from __future__ import annotations

from datetime import datetime
from functools import partial

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import each, sweep

from . import capping, deactivating
from .campaigns import CAMPAIGNS
from .counters import CountedAd
from .zones import RENEW, ZONES


async def settle_ads(db: Database, *, now: datetime) -> int:
    """Finishes deactivations, removes pending ads and works out caps that are older than five seconds.

    Returns how many.
    """
    return await Job.in_sequence(
        partial(_finish_deactivations, db, now), partial(_remove_pending, db, now), partial(_settle_caps, db, now)
    )


async def _finish_deactivations(db: Database, now: datetime) -> int:
    async def finish(campaign: Document) -> int:
        await deactivating.finish_now(db, campaign["_id"])
        return 1

    return await sweep(db, CAMPAIGNS, {"ending_since": {"$lte": now - Job.STALE_AFTER}}, finish, fields=())


async def _remove_pending(db: Database, now: datetime) -> int:
    before = now - Job.STALE_AFTER

    async def remove(zone: Document) -> int:
        return await remove_pending(db, zone["_id"], before)

    return await sweep(db, ZONES, {"ads.pending.at": {"$lte": before}}, remove, fields=())


async def _settle_caps(db: Database, now: datetime) -> int:
    before = now - Job.STALE_AFTER

    async def settle(ad: Document) -> int:
        await capping.settle(db, CountedAd.of(ad))
        return 1

    async def settle_in(zone: Document) -> int:
        marked = [ad for ad in zone["ads"] if "capping" in ad and ad["capping"]["at"] <= before]
        return await each(marked, settle)

    return await sweep(db, ZONES, {"ads.capping.at": {"$lte": before}}, settle_in, fields=("ads",))


async def remove_pending(db: Database, zone: str, before: datetime) -> int:
    """Removes the ads of a zone that have been pending since this time or longer. Returns 1 if there were any."""
    is_stale = {"$and": ["$$ad.pending", {"$lte": ["$$ad.pending.at", before]}]}
    kept: Document = {"$filter": {"input": "$ads", "as": "ad", "cond": {"$not": [is_stale]}}}
    guard = {"_id": zone, "ads.pending.at": {"$lte": before}}
    return (await db[ZONES.name].update_one(guard, [{"$set": {"ads": kept}}, RENEW])).modified_count
