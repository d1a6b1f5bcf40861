"""Deactivating a campaign: its ads are taken out of all zones, also of those that are being written meanwhile.

1. Mark the campaign ENDING. From now on, no placement that looks at it confirms (see `placing`).
2. One update of every zone with ads of the campaign removes the pending ones and marks the live ones as `ended`. Nobody
   sees these any more.
3. Count the zones with ended ads, and store the number once, with some of their ids. No more can come: a placement that
   looked before ENDING had inserted its pending ad before, and the second step removed it or found it live.
4. Remove the ads from the zones.
5. Mark the campaign DEACTIVATED, and answer with the stored number.

Each step is idempotent, also when several processes run them concurrently. A job does steps 2 to 5 after a crash.
"""

from __future__ import annotations

from datetime import datetime

from pymongo import ReturnDocument

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound

from .campaigns import ACTIVE, CAMPAIGNS, DEACTIVATED, ENDING
from .zones import MAX_SHOWN, RENEW, ZONES


async def deactivate_campaign(db: Database, *, campaign_id: str, now: datetime) -> Document:
    """Takes the ads of a campaign out of all zones, for good. Deactivating it again gives the same answer.

    Returns:  the campaign, with `zones`: how many zones its ads were taken out of; and `ended_in`: the ids of up to
              `MAX_SHOWN` of these. A campaign that an earlier version has deactivated has no `ended_in`.
    Raises:   NotFound.
    Writes:   ads.campaigns, ads.zones; see above.
    """
    mark = {"$set": {"state": ENDING, "ending_since": now}}
    guard = {"_id": campaign_id, "state": ACTIVE}
    campaign = await db[CAMPAIGNS.name].find_one_and_update(guard, mark, return_document=ReturnDocument.AFTER)
    return await finish(db, campaign or await look_at(db, campaign_id))


async def look_at(db: Database, campaign_id: str) -> Document:
    """Returns the campaign. Raises NotFound.

    It writes, because a server that has lost its primary role can answer reads. What the answer to an acknowledged
    write shows is on a majority.
    """
    campaign = await db[CAMPAIGNS.name].find_one_and_update(
        {"_id": campaign_id}, {"$inc": {"looks": 1}}, return_document=ReturnDocument.AFTER
    )
    if campaign is None:
        raise NotFound("Campaign", message="There is no such campaign.")
    return campaign


async def finish(db: Database, campaign: Document) -> Document:
    """Finishes the deactivation of a campaign that is ENDING, and returns the campaign. Idempotent."""
    if campaign["state"] != ENDING:
        return campaign
    campaign_id = campaign["_id"]
    await _end_ads(db, campaign_id)
    ended = {"ads": {"$elemMatch": {"campaign_id": campaign_id, "ended": True}}}
    some = [zone["_id"] for zone in await db[ZONES.name].find(ended, {"_id": 1}, limit=MAX_SHOWN + 1).to_list()]
    number = len(some) if len(some) <= MAX_SHOWN else await db[ZONES.name].count_documents(ended)
    uncounted = {"_id": campaign_id, "state": ENDING, "zones": None}
    counted = {"zones": number, "ended_in": some[:MAX_SHOWN]}
    await db[CAMPAIGNS.name].update_one(uncounted, {"$set": counted})
    await remove_ads(db, campaign_id)
    update = {"$set": {"state": DEACTIVATED}, "$unset": {"ending_since": ""}}
    guard = {"_id": campaign_id, "state": ENDING}
    done = await db[CAMPAIGNS.name].find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
    return done or await look_at(db, campaign_id)


async def finish_now(db: Database, campaign_id: str) -> None:
    """Finishes the deactivation of a campaign, for jobs and repairs. Raises NotFound."""
    await finish(db, await look_at(db, campaign_id))


async def _end_ads(db: Database, campaign_id: str) -> None:
    is_own = {"$eq": ["$$ad.campaign_id", {"$literal": campaign_id}]}
    confirmed: Document = {
        "$filter": {"input": "$ads", "as": "ad", "cond": {"$not": [{"$and": [is_own, "$$ad.pending"]}]}}
    }
    ended = {"$cond": [is_own, {"$mergeObjects": ["$$ad", {"ended": True}]}, "$$ad"]}
    stages = [{"$set": {"ads": {"$map": {"input": confirmed, "as": "ad", "in": ended}}}}, RENEW]
    await db[ZONES.name].update_many({"ads.campaign_id": campaign_id}, stages)


async def remove_ads(db: Database, campaign_id: str) -> None:
    """Removes the ads of a campaign from all zones. Idempotent."""
    others: Document = {
        "$filter": {"input": "$ads", "as": "ad", "cond": {"$ne": ["$$ad.campaign_id", {"$literal": campaign_id}]}}
    }
    await db[ZONES.name].update_many({"ads.campaign_id": campaign_id}, [{"$set": {"ads": others}}, RENEW])
