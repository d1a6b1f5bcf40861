"""Imports of past events into the profiles of browsers. May be repeated.

An event has no id: the same user, kind, time, ad and zone are the same event. Imported events count for no cap. The
counts of a day include all impressions that its profile has recorded on that day, so an import begins the present day
in the profile, and takes only impressions of days before. It sorts the events of the profile by time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import Any

from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.import_outcomes import Outcome, outcome_of

from . import profiles
from .campaigns import CAMPAIGNS
from .profiles import IMPRESSION, MAX_EVENTS, PROFILES, day_of
from .pseudonyms import Pseudonyms


@dataclass(frozen=True)
class EventRecord:
    """An event as an import describes it. `at` is UTC, without a time zone; `kind` is CLICK or IMPRESSION."""

    user_id: str
    kind: str
    at: datetime
    campaign_id: str
    ad_unit_id: str
    site_id: str
    zone_id: str

    @property
    def key(self) -> tuple[Any, ...]:
        return astuple(self)

    def event(self) -> Document:
        ad = {"campaign_id": self.campaign_id, "ad_unit_id": self.ad_unit_id}
        return profiles.event(self.kind, ad, at=self.at, site_id=self.site_id, zone_id=self.zone_id)


async def import_events(
    db: Database, records: Sequence[EventRecord], *, now: datetime, resources: Resources
) -> list[Outcome]:
    """Records the events. Returns the outcome of each record.

    An event that is older than the 200 that a profile keeps changes nothing.

    Writes:   ads.profiles; one insert or one guarded update for each event.
    """
    named = sorted({record.campaign_id for record in records})
    found = db[CAMPAIGNS.name].find({"_id": {"$in": named}}, {"_id": 1}, batch_size=len(named) + 1)
    campaigns = {campaign["_id"] async for campaign in found}
    pseudonyms = resources.of(Pseudonyms)

    async def import_one(record: EventRecord) -> Outcome:
        if record.campaign_id not in campaigns:
            raise InvalidInput("There is no such campaign. Import it first.", "campaignId")
        return await _record(db, pseudonyms.of(record.user_id, "userId"), record, now)

    return [await outcome_of(import_one(record)) for record in records]


async def _record(db: Database, profile_id: str, record: EventRecord, now: datetime) -> Outcome:
    """Records one event.

    Raises:   InvalidInput, Conflict (another writer was faster; the import tries again).
    """
    if record.at > now:
        raise InvalidInput("must not be in the future", "at")
    if record.kind == IMPRESSION and record.at >= day_of(now):
        text = "must be before today (UTC): record today's impressions with `recordAdEvent`, which counts them"
        raise InvalidInput(text, "at")
    event = record.event()
    profile = await db[PROFILES.name].find_one({"_id": profile_id}, {"events": 1})
    if profile is None:
        new = {**profiles.new_profile(profile_id, now=now), "events": [event], "events_since": record.at}
        if not await profiles.create(db, new):
            raise Conflict("The profile has just been created.")
        return "created"
    events = profile["events"]
    if event in events or (len(events) >= MAX_EVENTS and record.at <= min(one["at"] for one in events)):
        return "unchanged"
    guard = {"_id": profile_id, "events": {"$not": {"$elemMatch": event}}}
    if not (await db[PROFILES.name].update_one(guard, [_stage(event, day_of(now))])).matched_count:
        raise Conflict("The profile has just changed.")
    return "created"


def _stage(event: Document, today: datetime) -> Document:
    more = {"$concatArrays": ["$events", [{"$literal": event}]]}
    latest = {"$slice": [{"$sortArray": {"input": more, "sortBy": {"at": 1}}}, -MAX_EVENTS]}
    return {
        "$set": {
            "day": {"$max": ["$day", today]},
            "shown": {"$cond": [{"$lt": ["$day", today]}, {"$literal": {}}, "$shown"]},
            "events": latest,
            "events_since": {"$min": ["$events_since", event["at"]]},
        }
    }
