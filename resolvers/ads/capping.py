"""The cap of an ad: the smallest total cap of its live placements. It holds in all of its zones.

The counter of the ad has the cap, and each zone a copy, so that a choice needs no read of counters. A placement that
changes the total cap of an ad *marks, then looks*:

1. Its update of the zone marks the ad with a random token.
2. Read the version of the cap. Then look at all placements of the ad.
3. Store the smallest total cap in the counter, guarded by the version. If another process has stored one, start again.
4. Spread the cap with its version to all zones. Each takes it only if it has an older version. The same update removes
   the marks that the look has seen on live placements.

Two placements at the same moment store one after the other, and the later one has seen both. A placement without a
total cap looks at the counter between its insertion as pending and its confirmation (`placing`): either it sees the
cap, or the insertion came before the cap was stored, and the spreading finds it. A job does the same for marks that are
older than five seconds. Until a placement is acknowledged, its own total cap holds in its own zone.
"""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts

from . import counters
from .counters import CountedAd
from .zones import RENEW, ZONES, is_live, same_ad


async def settle(db: Database, ad: CountedAd, *, repairs: bool = False) -> None:
    """Stores the cap of an ad, spreads it to all of its zones, and removes the marks. Idempotent.

    With `repairs`, the cap gets a new version, so that every zone takes it.

    Raises:   Conflict (too many concurrent placements of the ad).
    Writes:   ads.counters, ads.zones; see above.
    """
    async for _ in attempts(steps=2):
        counter: Document | None = await counters.cap_of(db, ad.key)
        assert counter is not None
        version = counter.get("cap_version", 0)
        placed = await placements_of(db, ad)
        cap = smallest_cap(placed)
        if repairs or not version or counter.get("cap") != cap:
            counter = await counters.store_cap(db, ad, cap, version)
        if counter is not None:
            # The cap does not have the total cap of a pending placement, so its mark stays until it is live.
            await _spread(
                db, ad, counter, [one["capping"]["token"] for one in filter(is_live, placed) if "capping" in one]
            )
            return
    raise Conflict("Too many concurrent calls place the same ad. Try again.")


async def placements_of(db: Database, ad: CountedAd) -> Sequence[Document]:
    """Returns the ad as it is in each of its zones, also where it is not live."""
    found = await db[ZONES.name].aggregate(placements(ad))
    return [zone["ads"] async for zone in found]


def placements(ad: CountedAd) -> list[Document]:
    """Returns the stages that find these placements. Each result has `ads`, one of them."""
    own = {"$filter": {"input": "$ads", "as": "ad", "cond": same_ad("$$ad", ad)}}
    names = {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id}
    query = {"ads": {"$elemMatch": names}, "ads.campaign_id": ad.campaign_id}
    return [{"$match": query}, {"$project": {"ads": own, "schema_version": 1}}, {"$unwind": "$ads"}]


def smallest_cap(placed: Sequence[Document]) -> int | None:
    """Returns the smallest total cap of live placements; None if none has one."""
    caps = [one["total_cap"] for one in placed if is_live(one)]
    return min((cap for cap in caps if cap is not None), default=None)


async def _spread(db: Database, ad: CountedAd, counter: Document, tokens: Sequence[str]) -> None:
    version = counter["cap_version"]
    names = {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id}
    is_outdated = [{"cap_version": {"$not": {"$gte": version}}}, {"capping.token": {"$in": list(tokens)}}]
    query = {"ads": {"$elemMatch": {**names, "$or": is_outdated}}, "ads.campaign_id": ad.campaign_id}
    changed = with_cap("$$ad", counter)
    is_seen = {"$in": [{"$ifNull": ["$$ad.capping.token", ""]}, {"$literal": list(tokens)}]}
    own = {"$cond": [is_seen, {"$unsetField": {"field": "capping", "input": changed}}, changed]}
    each = {"$cond": [same_ad("$$ad", ad), own, "$$ad"]}
    stages = [{"$set": {"ads": {"$map": {"input": "$ads", "as": "ad", "in": each}}}}, RENEW]
    await db[ZONES.name].update_many(query, stages)


def with_cap(variable: str, counter: Document) -> Document:
    """Returns an expression: the ad in this variable, with the cap and the impressions of its counter if newer."""
    version = counter.get("cap_version", 0)
    is_older = {"$lt": [{"$ifNull": [f"{variable}.cap_version", 0]}, version]}
    newer = {"$cond": [is_older, {"cap": {"$literal": counter.get("cap")}, "cap_version": version}, {}]}
    shown = {"$max": [f"{variable}.shown", counter.get("shown", 0)]}
    return {"$mergeObjects": [variable, {"shown": shown}, newer]}
