"""Profiles: one document a browser, with what its caps and its events need.

A document:

    _id           the pseudonym of the user, see `pseudonyms`. The user id itself is nowhere
    day           UTC midnight of the day that `shown` counts; it only rises
    shown         {the key of an ad: its impressions on `day`}
    events        [{kind, at, campaign_id, ad_unit_id, site_id, zone_id}], oldest first, the latest 200
    events_since  a lower bound of the oldest event's time; missing without events
    serves        decided calls: [{op, token, at, ads}]; `ads` are the placements as they were shown
    fence         a random nonce. A call that has claims decides only while the fence is the one that it has read
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database

PROFILES = CollectionSpec(
    "ads.profiles",
    indexes=[IndexModel([("events_since", ASCENDING)], sparse=True)],
    shard_key={"_id": "hashed"},
)


# The most ads that a profile counts in a day. Beyond them, other ads count as capped, so that profiles stay small.
MAX_COUNTED_ADS = 2_000


def is_capped(counts: Mapping[str, int], key: str, daily_cap: int) -> bool:
    """Returns whether the user has seen the ad with this key as often in the day as the cap allows.

    Args:     counts: as `shown_on` returns them.
    """
    count = counts.get(key)
    return len(counts) >= MAX_COUNTED_ADS if count is None else count >= daily_cap


def day_of(now: datetime) -> datetime:
    """Returns the UTC midnight at which the day of this time has begun."""
    return now.replace(hour=0, minute=0, second=0, microsecond=0)


async def shown_on(db: Database, profile_id: str, *, now: datetime) -> Mapping[str, int]:
    """Returns how often the user has seen each ad on the day of `now`, by the keys of ads.

    If another process has counted a later day already, that day counts. One command.
    """
    profile = await db[PROFILES.name].find_one({"_id": profile_id}, {"day": 1, "shown": 1})
    if profile is None or "day" not in profile or profile["day"] < day_of(now):
        return {}
    counts: Mapping[str, int] = profile.get("shown", {})
    return counts
