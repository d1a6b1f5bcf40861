"""Counters: one document an ad, over all zones, for the caps on its impressions in all.

A claim is granted only below the cap of the ad, and below the cap of its own placement, which may have just been
placed. So no cap is ever exceeded, and the impressions and claims that a cap has limited are at most `highest_cap`.

`apply` computes the new document on the server, so it never misses and never has to be repeated, however many processes
write the same counter. `claiming` sends the claims of all calls of a process with one update.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel, ReturnDocument
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.typed import TypedDict

from .ads import MAX_CAP, ad_key


class Claim(TypedDict):
    """An impression in flight. The token is random, a new one for each attempt."""

    token: ObjectId
    at: datetime
    # The `_id` of the profile that decides.
    profile: str
    # True if no cap limits it.
    is_uncapped: NotRequired[bool]


class CounterDocument(Versioned):
    """A counter. Its `_id` is the key of the ad, see `ads.ad_key`."""

    _id: str
    campaign_id: str
    ad_unit_id: str
    # Counted impressions, of all placements of the ad, and how many of them no cap has limited.
    shown: int
    uncapped: NotRequired[int]
    claims: list[Claim]
    # How many impressions the latest update counted without a claim.
    counted: NotRequired[int]
    # A lower bound of the oldest claim's time, rounded down to ten seconds so that the index of a hot counter seldom
    # changes. It can stay when there are no claims; then a job removes it.
    claims_since: NotRequired[datetime]
    # The cap of the ad: the smallest total cap of its placements; missing if none has one. See `capping`.
    cap: NotRequired[int | None]
    # How often `cap` was stored.
    cap_version: NotRequired[int]
    # The largest cap that a claim has ever had.
    highest_cap: NotRequired[int]


COUNTERS = CollectionSpec(
    "ads.counters",
    document=CounterDocument,
    indexes=[IndexModel([("claims_since", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)
# Seconds to which `claims_since` is rounded down.
_ROUNDED = 10
# The answer need not have the profiles of all claims. Nothing depends on this projection.
_ANSWERED = {"claims.profile": 0, "campaign_id": 0, "ad_unit_id": 0}


class CountedAd(NamedTuple):
    """An ad whose impressions are counted."""

    key: str
    campaign_id: str
    ad_unit_id: str

    @classmethod
    def of(cls, ad: Mapping[str, Any]) -> CountedAd:
        """Returns the ad of a placement, of a counter or of an entry, which has its `key` or its names."""
        campaign_id, ad_unit_id = ad["campaign_id"], ad["ad_unit_id"]
        return cls(ad.get("key") or ad_key(campaign_id, ad_unit_id), campaign_id, ad_unit_id)


class Used(NamedTuple):
    """The counted impressions of an ad, the times of its claims, and its cap."""

    shown: int
    claims: Sequence[datetime]
    cap: int | None = None


def smaller(one: int | None, other: int | None) -> int | None:
    """Returns the smaller of two caps. None is no cap."""
    return min((cap for cap in (one, other) if cap is not None), default=None)


def random_token() -> ObjectId:
    """Returns the token of an attempt: 96 random bits."""
    return ObjectId(os.urandom(12))


@dataclass
class Changes:
    """What one update changes in a counter.

    Args:     cap: for `claims` and `counted`, as their calls know it; None if they know of none.
              claims: new claims, {token, at, profile}; granted in this order while there is room.
              counted: impressions to count at once, without a claim.
              concluded, released: the tokens of claims to remove, with and without counting them.
    """

    cap: int | None = 0
    claims: list[Document] = field(default_factory=list)
    counted: int = 0
    concluded: list[ObjectId] = field(default_factory=list)
    released: list[ObjectId] = field(default_factory=list)


async def apply(db: Database, ad: CountedAd, changes: Changes) -> Document:
    """Applies the changes, first those that make room. Returns the counter afterwards.

    A claim was granted if its token is in `claims`. Of the impressions without a claim, `counted` were counted.

    Writes:   ads.counters; one upsert, computed by the server.
    """
    found = await db[COUNTERS.name].find_one_and_update(
        {"_id": ad.key},
        _pipeline(ad, changes),
        projection=_ANSWERED,
        upsert=True,
        return_document=ReturnDocument.AFTER,
    )
    assert found is not None, "an upsert has a document"
    return found


def _pipeline(ad: CountedAd, changes: Changes) -> list[Document]:
    claims: Any = {"$ifNull": ["$claims", []]}
    shown: Any = {"$ifNull": ["$shown", 0]}
    uncapped: Any = {"$ifNull": ["$uncapped", 0]}
    if changes.concluded:
        ended = _with_token(claims, changes.concluded)
        shown = {"$add": [shown, {"$size": ended}]}
        free: Document = {"$filter": {"input": ended, "cond": "$$this.is_uncapped"}}
        uncapped = {"$add": [uncapped, {"$size": free}]}
    if changes.concluded or changes.released:
        claims = _with_token(claims, changes.concluded + changes.released, is_among=False)
    named = {"campaign_id": {"$literal": ad.campaign_id}, "ad_unit_id": {"$literal": ad.ad_unit_id}}
    before = {"shown": shown, "uncapped": uncapped, "claims": claims, "counted": 0}
    stages: list[Document] = [{"$set": {**named, **before}}, *_new(changes)]
    oldest = {"$dateTrunc": {"date": {"$min": "$claims.at"}, "unit": "second", "binSize": _ROUNDED}}
    since = {"$cond": [{"$eq": ["$claims", []]}, "$claims_since", oldest]}
    return [*stages, {"$set": {"claims_since": since}}, {"$unset": "limit"}]


def _new(changes: Changes) -> list[Document]:
    """Returns the stages that grant new claims, and count impressions, while there is room."""
    if not changes.claims and not changes.counted:
        return []
    # Null if nothing limits them.
    limit = {"$min": [changes.cap, "$cap"]}
    is_free = {"$eq": ["$limit", None]}
    room = {"$max": [0, {"$subtract": [{"$ifNull": ["$limit", MAX_CAP]}, {"$add": ["$shown", {"$size": "$claims"}]}]}]}
    free = {"$literal": [{**claim, "is_uncapped": True} for claim in changes.claims]}
    granted = {"$cond": [is_free, free, {"$slice": [{"$literal": changes.claims}, _as_int(room)]}]}
    return [
        {"$set": {"limit": limit}},
        {"$set": {"highest_cap": {"$ifNull": [{"$max": ["$highest_cap", "$limit"]}, "$$REMOVE"]}}},
        *([{"$set": {"claims": {"$concatArrays": ["$claims", granted]}}}] if changes.claims else []),
        {"$set": {"counted": _as_int({"$min": [changes.counted, room]})}},
        {
            "$set": {
                "shown": {"$add": ["$shown", "$counted"]},
                "uncapped": {"$add": ["$uncapped", {"$cond": [is_free, "$counted", 0]}]},
            }
        },
    ]


def _with_token(claims: Any, tokens: Sequence[ObjectId], *, is_among: bool = True) -> Document:
    among = {"$in": ["$$this.token", {"$literal": list(tokens)}]}
    return {"$filter": {"input": claims, "cond": among if is_among else {"$not": [among]}}}


def _as_int(number: Document) -> Document:
    """Returns a number as an array size: caps can be larger than 2^31, arrays cannot."""
    return {"$toInt": {"$min": [number, 2**31 - 1]}}


async def used_of(db: Database, keys: Sequence[str]) -> dict[str, Used]:
    """Returns the counted and claimed impressions of ads, by their keys; without ads that were never counted.

    Both are on a majority.
    """
    at_majority = db[COUNTERS.name].with_options(read_concern=ReadConcern("majority"))
    fields = {"shown": 1, "claims.at": 1, "cap": 1}
    found = await at_majority.find({"_id": {"$in": list(keys)}}, fields, batch_size=len(keys) + 1).to_list()
    times = {one["_id"]: [claim["at"] for claim in one.get("claims", ())] for one in found}
    return {one["_id"]: Used(one["shown"], times[one["_id"]], one.get("cap")) for one in found}


async def cap_of(db: Database, key: str) -> Document:
    """Returns `shown`, `cap` and `cap_version` of an ad, as far as it has them."""
    return await db[COUNTERS.name].find_one({"_id": key}, {"shown": 1, "cap": 1, "cap_version": 1}) or {}


async def store_cap(db: Database, ad: CountedAd, cap: int | None, version: int) -> Document | None:
    """Stores the cap of an ad if its `cap_version` is still this one. Returns the counter; None if it is another.

    Writes:   ads.counters; one guarded upsert.
    """
    new = {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id, "shown": 0, "claims": []}
    update: Document = {"$set": {"cap_version": version + 1}, "$setOnInsert": new}
    if cap is None:
        update["$unset"] = {"cap": ""}
    else:
        update["$set"]["cap"] = cap
    try:
        return await db[COUNTERS.name].find_one_and_update(
            {"_id": ad.key, "cap_version": version or None},
            update,
            projection={"shown": 1, "cap": 1, "cap_version": 1},
            upsert=True,
            return_document=ReturnDocument.AFTER,
        )
    except DuplicateKeyError:
        return None


async def with_claims(db: Database, keys: Sequence[str], tokens: Sequence[ObjectId]) -> set[ObjectId]:
    """Returns which of the tokens still have a claim on one of these ads."""
    query = {"_id": {"$in": list(keys)}}
    found = await db[COUNTERS.name].find(query, {"claims.token": 1}, batch_size=len(keys) + 1).to_list()
    held = {claim["token"] for counter in found for claim in counter.get("claims", ())}
    return held.intersection(tokens)


async def forget_when_claimed(db: Database, key: str, since: datetime) -> bool:
    """Removes `claims_since` from a counter without claims, if it is still this time. Returns whether it was."""
    without = {"_id": key, "claims": [], "claims_since": since}
    return bool((await db[COUNTERS.name].update_one(without, {"$unset": {"claims_since": ""}})).modified_count)
