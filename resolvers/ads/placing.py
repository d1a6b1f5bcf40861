"""Placing an ad in a zone.

A placement must not survive the deactivation of its campaign, whatever crashes or pauses. It is *mark, then look*:

1. One update of the zone. If the ad is live there, it gets the new values, and this is all: a deactivation has not
   taken it out yet, and will. Otherwise the update inserts the ad as pending, with a random token.
2. Look at the campaign, by a write that creates a missing one. If the campaign is not ACTIVE, remove the pending ad.
3. Confirm: one update makes the pending ad with this token live. If it is gone, start again with a new token.

A deactivation makes the campaign ENDING, and then takes its ads out of all zones, pending ones as well (see
`deactivating`). So there are three cases:

* The placement looked after ENDING. It sees that, and does not confirm.
* It looked before ENDING. Then the pending ad was inserted before the deactivation took the ads out. If it was
  confirmed before, it was taken out live.
* If it was not, the token is gone. No other placement, also of the same operation, has the same token.

If the placement has changed the total cap of the ad, the cap of the ad is then worked out (`capping`).

A job removes pending ads that are older than five seconds. Their placement was not confirmed, and starts again if it is
still running.
"""

from __future__ import annotations

from datetime import datetime
from uuid import uuid4

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.together import both
from portico.resolvers.writes.marks import applied_with, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.timer import Timer

from . import capping, counters
from .ads import Ad, advertiser_of, require_ad, require_id
from .campaigns import ACTIVE, CAMPAIGNS
from .counters import CountedAd
from .zones import MAX_ADS, RENEW, SORT, VERSION_OF_NEW, ZONES, live_ads, live_where, same_ad, zone_key


async def place_ad(db: Database, *, site_id: str, zone_id: str, ad: Ad, now: datetime, operation_id: str) -> Document:
    """Places an ad in a zone, or changes the ad that has this campaign and ad unit there. Creates zone and campaign.

    Returns:  the zone after the write.
    Raises:   InvalidInput (a field, a full zone, or a deactivated campaign), Conflict (too many concurrent placements).
    Writes:   ads.zones, ads.campaigns, ads.zones; see above. As `capping.settle`, if the total cap has changed.
    """
    with InvalidInput.collect() as check:
        check(require_id, site_id, "site_id")
        check(require_id, zone_id, "zone_id")
        ad = check(require_ad, ad, "ad")
    placing = _Placing(db, site_id, zone_id, ad, operation_id)
    timer = Timer(now)
    async for _ in attempts(steps=2):
        zone = await placing.attempt(timer.now())
        if zone is not None:
            await placing.settle(zone)
            await trim_marks(db, ZONES, zone)
            return zone
    raise Conflict("Too many concurrent calls place ads in the same zone. Try again.")


class _Placing:
    """One call. An ad is compared by literals everywhere, so that no text of a caller is an expression."""

    def __init__(self, db: Database, site_id: str, zone_id: str, ad: Ad, operation_id: str) -> None:
        self._db = db
        self._ad = ad
        self._operation_id = operation_id
        self._names = {"site_id": site_id, "zone_id": zone_id}
        self._key = zone_key(site_id, zone_id)
        self._counted = CountedAd.of(ad._asdict())

    async def settle(self, zone: Document) -> None:
        """Works out the cap of the ad if the placement has changed its total cap."""
        names = (self._ad.campaign_id, self._ad.ad_unit_id)
        own = [ad for ad in live_ads(zone) if (ad["campaign_id"], ad["ad_unit_id"]) == names]
        if any("capping" in ad for ad in own):
            await capping.settle(self._db, self._counted)

    async def attempt(self, at: datetime) -> Document | None:
        """Returns the zone with the live ad. None if another process was faster, or if the pending ad was removed."""
        token = uuid4().hex
        try:
            zone = await self._put(token, at)
        except DuplicateKeyError:
            return await self._explain_miss()
        if not any(ad.get("pending", {}).get("token") == token for ad in zone["ads"]):
            return zone
        # It looks at the counter after the ad was inserted: see `capping`.
        is_active, counter = await both(self._is_active(), counters.cap_of(self._db, self._counted.key))
        if is_active:
            return await self._confirm(token, at, counter)
        await self._withdraw(token)
        text = "The campaign is deactivated, which is final. Use another campaign id."
        raise InvalidInput(text, "ad", "campaign_id", code=InvalidInput.NOT_ALLOWED)

    async def _put(self, token: str, at: datetime) -> Document:
        """Changes the live ad, or inserts a pending one. Raises DuplicateKeyError if the zone takes neither."""
        own = {"campaign_id": self._ad.campaign_id, "ad_unit_id": self._ad.ad_unit_id, "pending": None, "ended": None}
        has_room = [{f"ads.{MAX_ADS - 1}": {"$exists": False}}, {"ads": {"$elemMatch": own}}]
        guard = {"_id": self._key, "$or": has_room, **not_applied(self._operation_id)}
        zone = await self._db[ZONES.name].find_one_and_update(
            guard, self._placement(token, at), upsert=True, return_document=ReturnDocument.AFTER
        )
        assert zone is not None, "an upsert has a document"
        return zone

    def _placement(self, token: str, at: datetime) -> list[Document]:
        """Returns the stages of the update that changes the live ad, or adds the pending one with this token."""
        placed = {**self._ad._asdict(), "keywords": list(self._ad.keywords)}
        mark = {"capping": {"token": token, "at": at}}
        marked = mark if self._ad.total_cap is not None else {}
        pending = {**placed, "shown": 0, "pending": {"token": token, "at": at}, **marked}
        live = {"$and": [same_ad("$$ad", self._ad), live_where("$$ad")]}
        has_changed = {"$ne": ["$$ad.total_cap", self._ad.total_cap]}
        changed = {"$mergeObjects": ["$$ad", {"$literal": placed}, {"$cond": [has_changed, mark, {}]}]}
        is_live: Document = {"$anyElementTrue": [{"$map": {"input": "$ads", "as": "ad", "in": live}}]}
        return [
            {
                "$set": {
                    **VERSION_OF_NEW,
                    "ads": {"$ifNull": ["$ads", []]},
                    **{name: {"$literal": v} for name, v in self._names.items()},
                }
            },
            {"$set": {"applied": {"$cond": [is_live, applied_with(self._operation_id), "$applied"]}}},
            {
                "$set": {
                    "ads": {
                        "$cond": [
                            is_live,
                            {"$map": {"input": "$ads", "as": "ad", "in": {"$cond": [live, changed, "$$ad"]}}},
                            {"$concatArrays": ["$ads", [{"$literal": pending}]]},
                        ]
                    }
                }
            },
            SORT,
            RENEW,
        ]

    async def _explain_miss(self) -> Document | None:
        zone = await self._db[ZONES.name].find_one({"_id": self._key})
        if zone is not None and was_applied(zone, self._operation_id):
            return zone
        if zone is not None and len(zone["ads"]) >= MAX_ADS:
            text = f"The zone has {MAX_ADS:,} ads, which is the most."
            raise InvalidInput(text, "zone_id", code=InvalidInput.TOO_MANY, most=MAX_ADS)
        return None

    async def _is_active(self) -> bool:
        """Looks at the campaign, and creates a missing one.

        It writes, because a server that has lost its primary role can answer reads, and would show a campaign as active
        that was deactivated meanwhile.
        """
        campaign = {"_id": self._ad.campaign_id, "state": ACTIVE}
        update = {"$inc": {"looks": 1}, "$setOnInsert": {"advertiser": advertiser_of(self._ad.campaign_id)}}
        async for _ in attempts():
            try:
                await self._db[CAMPAIGNS.name].update_one(campaign, update, upsert=True)
            except DuplicateKeyError:
                found = await self._db[CAMPAIGNS.name].find_one({"_id": self._ad.campaign_id})
                if found is not None and found["state"] != ACTIVE:
                    return False
                # Another call has just created the campaign.
            else:
                return True
        raise Conflict("Too many concurrent calls use the campaign. Try again.")

    async def _confirm(self, token: str, at: datetime, counter: Document) -> Document | None:
        """Makes the pending ad with this token live, in place of a live one. Returns None if it is gone.

        Args:     counter: as read after the ad was inserted.
        """
        own = {"$eq": ["$$ad.pending.token", token]}
        is_replaced = {"$and": [same_ad("$$ad", self._ad), live_where("$$ad")]}
        others: Document = {"$filter": {"input": "$ads", "as": "ad", "cond": {"$not": [is_replaced]}}}
        # The replaced one may have had another total cap.
        replaces = {"$anyElementTrue": [{"$map": {"input": "$ads", "as": "ad", "in": is_replaced}}]}
        mark = {"$cond": [replaces, {"capping": {"token": token, "at": at}}, {}]}
        confirmed = {"$unsetField": {"field": "pending", "input": capping.with_cap("$$ad", counter)}}
        live = {"$mergeObjects": [confirmed, mark]}
        stages: list[Document] = [
            {"$set": {"ads": {"$map": {"input": others, "as": "ad", "in": {"$cond": [own, live, "$$ad"]}}}}},
            {"$set": {"applied": applied_with(self._operation_id)}},
            SORT,
            RENEW,
        ]
        guard = {"_id": self._key, "ads.pending.token": token, **not_applied(self._operation_id)}
        return await self._db[ZONES.name].find_one_and_update(guard, stages, return_document=ReturnDocument.AFTER)

    async def _withdraw(self, token: str) -> None:
        kept: Document = {"$filter": {"input": "$ads", "as": "ad", "cond": {"$ne": ["$$ad.pending.token", token]}}}
        guard = {"_id": self._key, "ads.pending.token": token}
        await self._db[ZONES.name].update_one(guard, [{"$set": {"ads": kept}}, RENEW])
