"""Recording clicks, and impressions that were counted elsewhere, e.g. by a mail campaign or an app."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.documents import Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.together import both
from portico.resolvers.writes.retries import attempts

from . import counters, profiles, serves
from .ads import ad_key
from .attempts import Attempt, Call, Means
from .campaigns import CAMPAIGNS
from .profiles import CLICK
from .zone_reads import EMPTY, ParsedZone, is_exhausted


async def record_event(means: Means, call: Call, *, kind: str, campaign_id: str, ad_unit_id: str) -> bool:
    """Records a click or an impression of an ad in the profile of a user.

    An impression counts for the caps of the ad. If the ad is not placed in this zone, it has no daily cap there.

    Args:     kind: CLICK or IMPRESSION.
    Returns:  False if a cap does not allow the impression. Then nothing is counted or recorded.
    Raises:   InvalidInput (there is no such campaign), Conflict (parallel calls of the user kept changing the profile).
    Writes:   as `serving.serve`.
    """
    if await call.db[CAMPAIGNS.name].find_one({"_id": campaign_id}, {"_id": 1}) is None:
        text = "There is no such campaign. Place one of its ads first."
        raise InvalidInput(text, "campaign_id", code=InvalidInput.UNKNOWN)
    named = {"campaign_id": campaign_id, "ad_unit_id": ad_unit_id, "key": ad_key(campaign_id, ad_unit_id)}
    async for _ in attempts(steps=3):
        zone, profile = await both(_zone(means, call, kind), call.read_profile())
        decided = profiles.entry_of(profile)
        if decided is not None:
            await serves.conclude(call.db, means.counters, decided)
            return not decided.get("refused", False)
        attempt = Attempt(call, means, profile)
        event = profiles.event(kind, named, at=call.now, site_id=call.site_id, zone_id=call.zone_id)
        ad = None if kind == CLICK else await _placed(call, zone, named)
        if ad is not None and not await attempt.is_ready([ad]):
            continue
        is_allowed = ad is None or (_may_show(ad, profile, call) and all(await attempt.claim([ad])))
        shown = [] if ad is None else [ad]
        if not is_allowed:
            if await attempt.refuse():
                return False
            continue
        decided_on = await attempt.decide(shown, events=[event])
        if decided_on is not None:
            await attempt.conclude()
            return len(decided_on) == len(shown)
    raise Conflict("Too many parallel calls for the same user. Try again.")


def _may_show(ad: Document, profile: Document | None, call: Call) -> bool:
    """Returns whether the caps allow an impression, as far as the zone and the profile show it."""
    counts = profiles.counts_of(profile, now=call.now)
    return not profiles.is_capped(counts, ad["key"], ad["daily_cap"]) and not is_exhausted(ad)


async def _zone(means: Means, call: Call, kind: str) -> ParsedZone:
    """Returns the zone, which only impressions need."""
    return EMPTY if kind == CLICK else await means.zones.read(call.db, call.site_id, call.zone_id)


async def _placed(call: Call, zone: ParsedZone, named: Mapping[str, Any]) -> Document:
    """Returns the ad as it is placed in the zone; with the cap of the ad alone if it is not."""
    if named["key"] in zone.keys:
        return {**zone.ads[zone.keys.index(named["key"])], **named}
    counter = await counters.cap_of(call.db, named["key"])
    caps = {"daily_cap": 2**63 - 1, "cap": counter.get("cap"), "shown": counter.get("shown", 0)}
    return {**named, "ecpm": 0, "keywords": [], **caps}
