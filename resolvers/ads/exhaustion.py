"""Tells the zones of an ad how often it has been shown, once it has reached a cap.

Each zone has a lower bound of the counted impressions with each of its ads, so a choice needs no read of counters. The
bound is raised when a cap is reached. Until then a zone can offer an ad that no claim gets any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import UpdateMany

from portico.resolvers.documents import Database, Document

from .counters import CountedAd
from .zones import RENEW, ZONES


async def mark_zones(db: Database, shown: Sequence[tuple[CountedAd, int]]) -> None:
    """Raises `shown` of these ads in all of their zones to these numbers of impressions. Idempotent.

    Writes:   ads.zones; one update of many for each ad, all in one command.
    """
    updates = [UpdateMany(_below(ad, count), [_raised(ad, count), RENEW]) for ad, count in shown]
    if updates:
        await db[ZONES.name].bulk_write(updates, ordered=False)


def _below(ad: CountedAd, shown: int) -> Document:
    placed = {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id, "shown": {"$lt": shown}}
    return {"ads": {"$elemMatch": placed}, "ads.campaign_id": ad.campaign_id}


def _raised(ad: CountedAd, shown: int) -> Document:
    is_it = [
        {"$eq": ["$$this.campaign_id", {"$literal": ad.campaign_id}]},
        {"$eq": ["$$this.ad_unit_id", {"$literal": ad.ad_unit_id}]},
    ]
    raised = {"$mergeObjects": ["$$this", {"shown": {"$max": ["$$this.shown", shown]}}]}
    return {"$set": {"ads": {"$map": {"input": "$ads", "in": {"$cond": [{"$and": is_it}, raised, "$$this"]}}}}}
