"""Profiles: one document a browser, with what its caps and its events need.

A call with a key and without a user has a profile of its own, which counts nothing. Its `_id` is derived from the call.

**Deciding.** A call counts impressions for the user by one guarded update of the profile, which also records them and
the call (`decide`). If it matches, all impressions of the call happened; otherwise none did. The day of a call is the
day of its time, or the day that the profile counts if that is later. So a call counts on exactly one day, and a day
that is over is never counted again, also by processes whose clocks differ.

**Claims.** A call with claims on counters makes sure that its profile exists, reads the fence, claims, and then decides
by an update without upsert that requires this fence. A job that finds an old claim draws a new fence, unless the
profile has an entry with the token of the claim. So a call that resumes late cannot decide any more, whether the
profile is still there, was deleted, or was created again.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import derived_nonce, is_repeatable


class StoredEvent(TypedDict):
    """An impression or a click."""

    kind: str
    at: datetime
    campaign_id: str
    ad_unit_id: str
    site_id: str
    zone_id: str


class ServedAd(TypedDict):
    """A placement as it was shown. A call that cannot be repeated keeps the key and the cap only."""

    key: str
    # The cap of the ad as the call knew it.
    cap: int | None
    campaign_id: NotRequired[str]
    ad_unit_id: NotRequired[str]
    ecpm: NotRequired[int]
    keywords: NotRequired[list[str]]


class Serve(TypedDict):
    """A decided call. A call has an entry if it can be repeated, or if it has claims."""

    op: NotRequired[str]
    token: ObjectId
    at: datetime
    # If the entries are large, it becomes empty when the call has finished.
    ads: list[ServedAd]
    # Whether the call shows and records nothing.
    refused: NotRequired[bool]
    # Whether a job has counted a claim of the call.
    is_settled: NotRequired[bool]


class ProfileDocument(Versioned):
    """A profile. Its `_id` is the pseudonym of the user, see `pseudonyms`. The user id itself is nowhere."""

    _id: str
    # UTC midnight of the day that `shown` counts; it only rises.
    day: NotRequired[datetime]
    # The impressions on `day`, by the key of the ad; at most 2,000 ads.
    shown: NotRequired[dict[str, int]]
    # In the order in which they were recorded or imported; the latest 200, and up to 50 older ones.
    events: NotRequired[list[StoredEvent]]
    # A lower bound of the oldest event's time, or, without events, when the profile was created.
    events_since: NotRequired[datetime]
    # Oldest first.
    serves: NotRequired[list[Serve]]
    # A random nonce. A call that has claims decides only while the fence is the one that it has read.
    fence: NotRequired[str]
    # Of the profile of a call: when the call cannot be repeated any more, and a job deletes the profile.
    kept_until: NotRequired[datetime]


PROFILES = CollectionSpec(
    "ads.profiles",
    document=ProfileDocument,
    indexes=[
        IndexModel([("events_since", ASCENDING)], sparse=True),
        IndexModel([("kept_until", ASCENDING)], sparse=True),
    ],
    shard_key={"_id": "hashed"},
)
# The events that clients see. The array is cut only when it would have MAX_STORED: an update that cuts it writes all of
# it to MongoDB's log, 28 kB instead of 0.5 kB.
MAX_EVENTS = 200
MAX_STORED = 250
# The most ads that a profile counts in a day. Beyond them, other ads count as capped, so that profiles stay small.
MAX_COUNTED_ADS = 2_000
# A profile keeps at least the entries of this many latest calls, finished or not.
SERVES_KEPT = 64
# An entry can have 100 ads. From this size on, the ads of finished calls are removed from `serves`. It never gets
# larger than MAX_SERVES_BYTES and one more entry, because documents have 16 MB at most.
TRIMMED_BYTES, MAX_SERVES_BYTES = 1_000_000, 8_000_000
# The size of `serves` in BSON.
SERVES_BYTES = {"$bsonSize": {"serves": {"$ifNull": ["$serves", []]}}}
IMPRESSION, CLICK = "IMPRESSION", "CLICK"


def day_of(now: datetime) -> datetime:
    """Returns the UTC midnight at which the day of this time has begun."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


def random_fence() -> str:
    return os.urandom(12).hex()


def id_of_call(operation_id: str) -> str:
    """Returns the `_id` of the profile of a call without a user."""
    return f"call-{derived_nonce(operation_id, 'ads')}"


def is_capped(counts: Mapping[str, int], key: str, daily_cap: int, *, more: int = 0) -> bool:
    """Returns whether the user has seen the ad with this key as often in the day as the cap allows.

    Args:     counts: as `shown_on` returns them.
              more: how many other ads the call shows that `counts` lacks.
    """
    count = counts.get(key)
    return len(counts) + more >= MAX_COUNTED_ADS if count is None else count >= daily_cap


def counts_of(profile: Document | None, *, now: datetime) -> Mapping[str, int]:
    """Returns how often the user has seen each ad on the day of `now`, by the keys of ads.

    If another process has counted a later day already, that day counts.
    """
    if profile is None or "day" not in profile or profile["day"] < day_of(now):
        return {}
    counts: Mapping[str, int] = profile.get("shown", {})
    return counts


async def shown_on(db: Database, profile_id: str, *, now: datetime) -> Mapping[str, int]:
    """Returns how often the user has seen each ad on the day of `now`, as `counts_of` does. One command."""
    return counts_of(await db[PROFILES.name].find_one({"_id": profile_id}, {"day": 1, "shown": 1}), now=now)


async def read_to_decide(db: Database, profile_id: str, operation_id: str) -> Document | None:
    """Returns the day, the counts and the fence of a profile, and `serves` with the entry of this call if it has one.

    `entries` and `recorded` are how many entries `serves` and `events` have in the database. `bytes` is the size of
    `serves` there.
    """
    wanted: Document = {
        "day": 1,
        "shown": 1,
        "fence": 1,
        "entries": {"$size": {"$ifNull": ["$serves", []]}},
        "recorded": {"$size": {"$ifNull": ["$events", []]}},
        "bytes": SERVES_BYTES,
    }
    if is_repeatable(operation_id):
        wanted["serves"] = {"$elemMatch": {"op": operation_id}}
    return await db[PROFILES.name].find_one({"_id": profile_id}, wanted)


def entry_of(profile: Document | None) -> Document | None:
    """Returns the entry of the call for which the profile was read, if the call was decided."""
    found: Sequence[Document] = () if profile is None else profile.get("serves", ())
    return found[0] if found else None


@dataclass(frozen=True)
class Decision:
    """What a call decides.

    Args:     ads: the impressions to count for the user, each with `key` and `daily_cap`.
              events: what to record for the user.
              entry: the entry in `serves`; None if the call needs none.
              kept_until: of the profile of a call without a user.
    """

    profile_id: str
    now: datetime
    operation_id: str
    ads: Sequence[Document] = ()
    events: Sequence[Document] = ()
    entry: Document | None = None
    has_claims: bool = False
    kept_until: datetime | None = None


def new_profile(profile_id: str, *, now: datetime, kept_until: datetime | None = None) -> Document:
    """Returns an empty profile with a fence of its own."""
    ends = {"events_since": now} if kept_until is None else {"kept_until": kept_until}
    empty: Document = {"shown": {}, "events": [], "serves": []}
    return {"_id": profile_id, "day": day_of(now), **empty, **ends, "fence": random_fence()}


async def create(db: Database, profile: Document) -> bool:
    """Inserts a new profile. Returns False if there is one already."""
    try:
        await db[PROFILES.name].insert_one(profile)
    except DuplicateKeyError:
        return False
    return True


async def decide(db: Database, decision: Decision, profile: Document | None) -> bool:
    """Decides a call. Returns False if the profile is not the one that was read, in what the call depends on.

    Args:     profile: as read before the claims of the call; None if there was none and the call has no claims.
    Writes:   ads.profiles; one guarded update or one insert.
    """
    if profile is None:
        return await create(db, _with(decision))
    guard: Document = {"_id": decision.profile_id}
    if decision.has_claims:
        guard["fence"] = profile["fence"]
    if is_repeatable(decision.operation_id):
        guard["serves.op"] = {"$ne": decision.operation_id}
        guard["$and"] = [{"$expr": {"$lt": [SERVES_BYTES, MAX_SERVES_BYTES]}}]
    update: Document = {}
    if decision.ads:
        more_of_guard, update = _counting(decision, profile)
        guard |= more_of_guard
    pushed: Document = {}
    if decision.events:
        pushed["events"] = {"$each": list(decision.events)}
        room = MAX_STORED - len(decision.events)
        if profile["recorded"] <= room:
            guard[f"events.{room}"] = {"$exists": False}
        else:
            pushed["events"]["$slice"] = -MAX_EVENTS
        update["$min"] = {"events_since": decision.now}
    if decision.entry is not None:
        pushed["serves"] = decision.entry
    return bool((await db[PROFILES.name].update_one(guard, {**update, "$push": pushed})).matched_count)


def _counting(decision: Decision, profile: Document) -> tuple[Document, Document]:
    """Returns the guard and the update that count the impressions."""
    today, day = day_of(decision.now), profile.get("day")
    if day is None or day < today:
        return {"day": day}, {"$set": {"day": today, "shown": {ad["key"]: 1 for ad in decision.ads}}}
    caps: Document = {f"shown.{ad['key']}": {"$not": {"$gte": ad["daily_cap"]}} for ad in decision.ads}
    new = sum(ad["key"] not in profile["shown"] for ad in decision.ads)
    if new:
        counted: Document = {"$size": {"$objectToArray": "$shown"}}
        caps["$expr"] = {"$lte": [counted, MAX_COUNTED_ADS - new]}
    return {"day": day, **caps}, {"$inc": {f"shown.{ad['key']}": 1 for ad in decision.ads}}


def _with(decision: Decision) -> Document:
    """Returns a new profile that has the decision."""
    profile = new_profile(decision.profile_id, now=decision.now, kept_until=decision.kept_until)
    counted = {"shown": {ad["key"]: 1 for ad in decision.ads}}
    return profile | counted | {"events": list(decision.events), "serves": [decision.entry] if decision.entry else []}


def event(kind: str, ad: Mapping[str, Any], *, at: datetime, site_id: str, zone_id: str) -> Document:
    """Returns an event of a profile."""
    named = {"campaign_id": ad["campaign_id"], "ad_unit_id": ad["ad_unit_id"]}
    return {"kind": kind, "at": at, **named, "site_id": site_id, "zone_id": zone_id}


async def read_events(db: Database, profile_id: str) -> Sequence[Document] | None:
    """Returns the events that a profile has, latest first; None if there is no profile."""
    profile = await db[PROFILES.name].find_one({"_id": profile_id}, {"events": 1})
    if profile is None:
        return None
    latest: list[Document] = [*reversed(profile.get("events", [])[-MAX_EVENTS:])]
    return sorted(latest, key=lambda one: one["at"], reverse=True)
