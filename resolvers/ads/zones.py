"""Zones: places on a site, with the ads that stand there. The collection.

Documents of version 1 have no `cap`. Their capped ads get it from the job that settles marks.

An ad is *live* if it is neither pending nor ended. A zone has each ad at most once among the live ones. A zone
with the nonce that a process has read is what the process has read. Zones are never deleted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import NotRequired

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

from .ads import Ad
from .counters import CountedAd

# At most this many ads, pending ones included.
MAX_ADS = 1_000
# The most zones that a payload shows. An ad can be in any number of them.
MAX_SHOWN = 100

_VERSION = 2
_LONG_AGO = datetime(2000, 1, 1)  # noqa: DTZ001 - as the driver gives it


def upgrade(zone: Document) -> Document:
    """Marks the capped ads of a zone, so that a job works out their caps."""
    mark = {"token": "upgrade", "at": _LONG_AGO}
    ads = [{"capping": mark, **ad} if ad.get("total_cap") is not None else ad for ad in zone["ads"]]
    return {**zone, "ads": ads}


class Mark(TypedDict):
    """A step of a process that is under way."""

    token: str
    at: datetime


class PlacedAd(TypedDict):
    """An ad in a zone."""

    # `advertiser:campaign`.
    campaign_id: str
    ad_unit_id: str
    # Cents for a thousand impressions, 0 to 2^31 - 1.
    ecpm: int
    # As placed, up to 50, 2,000 bytes of UTF-8 together.
    keywords: list[str]
    # Impressions that a user may have of it in a day, at least 1.
    daily_cap: int
    # Impressions in all, as placed; None for no limit.
    total_cap: int | None
    # A copy of the cap of the ad, see `capping`. Missing if the ad never had a cap.
    cap: NotRequired[int | None]
    cap_version: NotRequired[int]
    # The cap of the ad must be worked out again.
    capping: NotRequired[Mark]
    # A lower bound of the ad's counted impressions, which only rises. The ad is exhausted if it is at least the smaller
    # one of `cap` and `total_cap`.
    shown: NotRequired[int]
    # Until the placement is confirmed. Only its placement and a job look at a pending ad.
    pending: NotRequired[Mark]
    # True while a deactivation takes the ad out. Nobody else looks at it.
    ended: NotRequired[bool]


class ZoneDocument(Repeatable):
    """A zone. Its `_id` is derived from the site and the zone, whose names are the caller's."""

    _id: str
    site_id: str
    zone_id: str
    # A random number that the server draws anew for every update, see `RENEW`.
    nonce: float
    # Dearest first: by `ecpm` down, then by campaign and ad unit.
    ads: list[PlacedAd]


ZONES = CollectionSpec(
    "ads.zones",
    document=ZoneDocument,
    indexes=[
        # The zones of a campaign, which its deactivation changes.
        IndexModel([("ads.campaign_id", ASCENDING)]),
        # The zones with placements that may have been left behind.
        IndexModel([("ads.pending.at", ASCENDING)], sparse=True),
        # The zones with ads whose cap may not have been worked out.
        IndexModel([("ads.capping.at", ASCENDING)], sparse=True),
        # The zones of an older version.
        IndexModel([("schema_version", ASCENDING)]),
    ],
    shard_key={"_id": "hashed"},
    version=_VERSION,
    upgrade=upgrade,
)
# In the first stage of an upsert: a new zone has the newest version.
VERSION_OF_NEW: Document = {
    "schema_version": {"$cond": [{"$eq": [{"$type": "$ads"}, "missing"]}, _VERSION, "$schema_version"]}
}

# The last stage of every update of a zone. The server draws the nonce when it applies the update: a nonce of the
# client's would be the same if the driver sends the update again after an election, and the zone could be another.
RENEW: Document = {"$set": {"nonce": {"$rand": {}}}}
# The stage after every change of the ads or their prices.
SORT: Document = {
    "$set": {"ads": {"$sortArray": {"input": "$ads", "sortBy": {"ecpm": -1, "campaign_id": 1, "ad_unit_id": 1}}}}
}

_ID = re.compile(r"[0-9a-f]{40}")


def zone_key(site_id: str, zone_id: str) -> str:
    """Returns the `_id` of a zone. Different zones have different texts, and so different hashes."""
    return hashlib.blake2b(json.dumps([site_id, zone_id]).encode(), digest_size=20).hexdigest()


async def find_names(db: Database, key: str) -> tuple[str, str] | None:
    """Returns the site and the zone of the zone with this key."""
    found = await ZONES.of(db).find_one({"_id": key}, {"site_id": 1, "zone_id": 1})
    return None if found is None else (found["site_id"], found["zone_id"])


async def keys_with(db: Database, ad: Ad | CountedAd, *, limit: int) -> list[str]:
    """Returns the keys of some zones with this ad, also of those where it is not live."""
    names = {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id}
    query = {"ads": {"$elemMatch": names}, "ads.campaign_id": ad.campaign_id}
    found = await ZONES.of(db).find(query, {"_id": 1}, limit=limit).to_list()
    return [zone["_id"] for zone in found]


def parse_id(text: str) -> str:
    """Parses the `_id` of a zone. Raises ValueError."""
    if not _ID.fullmatch(text):
        raise ValueError(text)
    return text


def same_ad(variable: str, ad: Ad | CountedAd) -> Document:
    """Returns an expression: the ad in this variable has the campaign and the ad unit of the given one."""
    return {
        "$and": [
            {"$eq": [f"{variable}.campaign_id", {"$literal": ad.campaign_id}]},
            {"$eq": [f"{variable}.ad_unit_id", {"$literal": ad.ad_unit_id}]},
        ]
    }


def live_where(variable: str) -> Document:
    """Returns an expression: the ad in this variable is live."""
    return {"$not": [{"$or": [f"{variable}.pending", f"{variable}.ended"]}]}


def is_live(ad: Document) -> bool:
    """Returns whether the ad can be chosen and shown."""
    return ad.get("pending") is None and not ad.get("ended")


def live_ads(zone: Document) -> Sequence[Document]:
    """Returns the ads of a zone that can be chosen and shown, dearest first."""
    return [ad for ad in zone.get("ads", ()) if is_live(ad)]
