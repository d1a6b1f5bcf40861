"""Ends the claims that interrupted calls have left on counters, and forgets what profiles need no longer."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import each, sweep

from . import clicks, counters, serves
from .counters import COUNTERS, Changes, CountedAd
from .exhaustion import mark_zones
from .profiles import PROFILES, day_of, random_fence

# A call decides within seconds. A claim of this age was left by a crash, or by a suspended process.
_STALE_AFTER = timedelta(seconds=10)
# How often the job looks at a profile that a call is deciding at the same moment.
_LOOKS = 3


async def settle_claims(db: Database, *, now: datetime) -> int:
    """Ends claims that are older than ten seconds. Returns how many.

    A claim whose call has been decided is counted. For any other, the decision is made impossible, and the claim is
    released.
    """

    async def settle(counter: Document) -> int:
        stale = [claim for claim in counter["claims"] if claim["at"] <= now - _STALE_AFTER]
        ended = await each(stale, partial(_settle_one, db, counter))
        if not counter["claims"]:
            await counters.forget_when_claimed(db, counter["_id"], counter["claims_since"])
        return ended

    return await sweep(db, COUNTERS, {"claims_since": {"$lte": now - _STALE_AFTER}}, settle)


async def _settle_one(db: Database, counter: Document, claim: Document) -> int:
    ad = CountedAd(counter["_id"], counter["campaign_id"], counter["ad_unit_id"])
    token = claim["token"]
    if await _is_decided(db, claim["profile"], token, ad.key):
        counted = await counters.apply(db, ad, Changes(concluded=[token]))
        await mark_zones(db, [(ad, counted["shown"])])
    else:
        await counters.apply(db, ad, Changes(released=[token]))
    return 1


async def _is_decided(db: Database, profile_id: str, token: ObjectId, key: str) -> bool:
    """Returns whether the call with this token was decided with this ad. If not, makes that impossible first.

    It finds out by writes, because a server that has lost its primary role can answer reads.
    """
    profiles = db[PROFILES.name]
    with_it = {"serves": {"$elemMatch": {"token": token, "ads.key": key}}}
    for _ in range(_LOOKS):
        found = await profiles.update_one({"_id": profile_id, **with_it}, {"$set": {"serves.$.is_settled": True}})
        if found.matched_count:
            return True
        unless = {"_id": profile_id, "serves": {"$not": with_it["serves"]}}
        if (await profiles.update_one(unless, {"$set": {"fence": random_fence()}})).matched_count:
            return False
        # There is no profile, or the call was decided between the two updates.
    # There is no profile. If another call creates it again, the profile has another fence.
    return False


async def forget_events(db: Database, *, now: datetime, days: float, clicks_last: timedelta) -> int:
    """Removes events that are older than this many days, and profiles with nothing left. Returns how many documents.

    Args:     clicks_last: how long the link of a served ad records a click. Clicks stay for another day at least, for
              gateways whose clocks differ.
    """
    kept = timedelta(days=days)
    return await Job.in_sequence(
        partial(_forget_users, db, now, kept),
        partial(_forget_calls, db, now),
        partial(clicks.forget_clicks, db, now=now, kept=max(kept, clicks_last + timedelta(days=1))),
    )


async def _forget_users(db: Database, now: datetime, kept: timedelta) -> int:
    limit = now - kept

    async def forget(profile: Document) -> int:
        key = profile["_id"]
        recent: Any = {"$filter": {"input": "$events", "cond": {"$gt": ["$$this.at", limit]}}}
        # Without events, the profile is looked at again after the same time.
        since = {"$ifNull": [{"$min": "$events.at"}, now]}
        stages = [{"$set": {"events": recent}}, {"$set": {"events_since": since}}]
        await db[PROFILES.name].update_one({"_id": key}, stages)
        await serves.trim(db, key, kept=0, until=limit)
        empty = {"_id": key, "events": [], "serves": [], "day": {"$lt": day_of(now)}}
        await db[PROFILES.name].delete_one(empty)
        return 1

    return await sweep(db, PROFILES, {"events_since": {"$lte": limit}}, forget, fields=())


async def _forget_calls(db: Database, now: datetime) -> int:
    """Deletes the profiles of calls without a user that cannot be repeated any more."""

    async def forget(profile: Document) -> int:
        await serves.trim(db, profile["_id"], kept=0)
        deleted = await db[PROFILES.name].delete_one({"_id": profile["_id"], "serves": []})
        return deleted.deleted_count

    return await sweep(db, PROFILES, {"kept_until": {"$lte": now}}, forget, fields=())
