"""Checks counters and profiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator
from datetime import datetime

from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, problems_with
from portico.resolvers.writes.sweeps import require

from .ads import ad_key
from .counters import COUNTERS
from .profiles import IMPRESSION, MAX_COUNTED_ADS, MAX_STORED, PROFILES, day_of

_COUNTER, _PROFILE = Problem.named("ad counter"), Problem.named("ad profile")


async def find_wrong_counters(db: Database) -> AsyncIterator[Problem]:
    """Yields counters that exceed their caps, or that no job can settle."""
    found = db[COUNTERS.name].find({}, sort=[("_id", ASCENDING)])
    async for problem in Problem.all_in(found, _wrong_counters, _COUNTER):
        yield problem


async def _wrong_counters(batch: list[Document]) -> AsyncIterator[Problem]:
    for counter in batch:
        for text in _wrong_with_counter(counter):
            yield Problem(_COUNTER(counter), text)


def _wrong_with_counter(counter: Document) -> Iterator[str]:
    shown, claims = counter["shown"], counter["claims"]
    if shown < 0:
        yield f"it has {shown:,} impressions"
    cap, uncapped = counter.get("highest_cap", 0), counter.get("uncapped", 0)
    limited = shown - uncapped + sum(not claim.get("is_uncapped") for claim in claims)
    if limited > cap:
        without = f" and {uncapped:,} impressions without a cap" if uncapped else ""
        yield f"it has {shown:,} impressions and {len(claims):,} claims, above its cap of {cap:,}{without}"
    if counter["_id"] != ad_key(counter["campaign_id"], counter["ad_unit_id"]):
        yield "its `_id` is not that of its ad"
    for claim in claims:
        require(claim, ("token", "profile"))
    if len({claim["token"] for claim in claims}) < len(claims):
        yield "it has a claim twice"
    since = counter.get("claims_since")
    if claims and (since is None or since > min(claim["at"] for claim in claims)):
        yield "it has a claim that no job finds"


async def find_wrong_profiles(db: Database) -> AsyncIterator[Problem]:
    """Yields profiles that break a bound, or that no job forgets."""
    found = db[PROFILES.name].find({}, sort=[("_id", ASCENDING)], batch_size=100)
    async for problem in Problem.all_in(found, _wrong_profiles, _PROFILE, 100):
        yield problem


async def _wrong_profiles(batch: list[Document]) -> AsyncIterator[Problem]:
    for profile in batch:
        for problem in problems_with(profile, _wrong_with_profile, _PROFILE):
            yield problem


def _wrong_with_profile(profile: Document) -> Iterator[Problem]:
    for text in (*_wrong_counts(profile), *_wrong_events(profile), *_wrong_serves(profile)):
        yield Problem(_PROFILE(profile), text)


def _wrong_counts(profile: Document) -> Iterator[str]:
    require(profile, ("fence",))
    day: datetime = profile["day"]
    if day != day_of(day):
        yield f"its day begins at {day:%H:%M}"
    if len(profile["shown"]) > MAX_COUNTED_ADS:
        yield f"it counts {len(profile['shown']):,} ads, more than {MAX_COUNTED_ADS:,}"
    recorded: Counter[str] = Counter(
        ad_key(event["campaign_id"], event["ad_unit_id"])
        for event in profile["events"]
        if event["kind"] == IMPRESSION and event["at"] >= day
    )
    if any(profile["shown"].get(key, 0) < count for key, count in recorded.items()):
        yield "it counts fewer impressions than it has recorded"
    if any(count < 1 for count in profile["shown"].values()):
        yield "it counts an ad less than once"


def _wrong_events(profile: Document) -> Iterator[str]:
    events = profile["events"]
    if len(events) > MAX_STORED:
        yield f"it has {len(events):,} events, more than {MAX_STORED}"
    since = profile.get("events_since")
    if since is None and "kept_until" not in profile:
        yield "no job forgets it"
    if events and (since is None or since > min(event["at"] for event in events)):
        yield "it has an event that no job forgets"


def _wrong_serves(profile: Document) -> Iterator[str]:
    operations = [entry["op"] for entry in profile["serves"] if "op" in entry]
    tokens = [entry["token"] for entry in profile["serves"]]
    if len(set(operations)) < len(operations) or len(set(tokens)) < len(tokens):
        yield "it has a call twice"
