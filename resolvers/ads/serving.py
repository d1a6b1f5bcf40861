"""Serving ads: choosing the best ones, and counting their impressions in the same step.

1. Read the zone and the profile of the user, both at once.
2. Choose (`choosing`). Claim an impression of each chosen ad that has a cap (`claiming`). An ad that another
   page has used up meanwhile is passed over for the next best.
3. Decide by one guarded update of the profile (`profiles`). If the user has reached a daily cap meanwhile, release the
   claims, and start again. Impressions of ads without a cap are counted at the same moment (`tallying`).
4. Answer. Then conclude the claims.

A repeated call finds the entry of the first one in the profile, and gets the same ads, or none if there were none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.retries import attempts

from . import choosing, counters, profiles, serves
from .attempts import Attempt, Call, Means
from .choosing import Choice
from .claiming import can_be_granted
from .counters import CountedAd, Used, smaller
from .exhaustion import mark_zones
from .profiles import IMPRESSION
from .zone_reads import ParsedZone

# How many of the next best ads are looked up together when a chosen one turns out to be used up.
_LOOK_AHEAD = 50


@dataclass(frozen=True)
class Served:
    """The ads that a call shows, best first.

    `choice` has the state by which they were chosen; None if an earlier attempt of the call has chosen them.
    """

    ads: Sequence[Document]
    zone: ParsedZone
    choice: Choice | None


async def serve(means: Means, call: Call, *, keywords: frozenset[str], limit: int) -> Served:
    """Chooses up to `limit` ads for a page view, and counts an impression of each. No cap is ever exceeded.

    Args:     keywords: folded.
    Raises:   Conflict (parallel calls of the user kept changing the profile).
    Writes:   ads.counters, ads.profiles, ads.counters; a capped counter for each ad, and one guarded update. ads.zones,
              if a total cap is reached.
    """
    async for _ in attempts(steps=3):
        zone, profile = await asyncio.gather(means.zones.read(call.db, call.site_id, call.zone_id), call.read_profile())
        decided = profiles.entry_of(profile)
        if decided is not None:
            await serves.conclude(call.db, means.counters, decided)
            return Served(decided["ads"], zone, None)
        counts = {} if call.user is None else profiles.counts_of(profile, now=call.now)
        attempt = Attempt(call, means, profile)
        choice = await _Choosing(means, call, attempt, zone, counts, keywords).choose(limit)
        if choice is None:
            continue
        ads = choice.ads
        if not ads:
            if await attempt.refuse():
                return Served([], zone, choice)
            continue
        shown = await attempt.decide(ads, events=_events(call, ads))
        if shown is not None:
            await attempt.conclude()
        if shown:
            return Served(shown, zone, choice)
    raise Conflict("Too many parallel calls for the same user. Try again.")


def page_of(call: Call, served: Served, keywords: frozenset[str]) -> Document:
    """Returns what `rejected_later` needs, as a document."""
    # A keyword that matches nothing stands for all others.
    matching = keywords.intersection(frozenset[str]().union(*served.zone.words)) if keywords else ()
    return {
        "site_id": call.site_id,
        "zone_id": call.zone_id,
        "user": call.user,
        "keywords": sorted(matching or (keywords and {""})),
    }


async def rejected_later(
    db: Database, means: Means, page: Mapping[str, Any], ads: Sequence[Document], *, now: datetime
) -> Choice:
    """Returns a choice of these ads for a page by the present state, to say why the others were not chosen."""
    zone, counts = await asyncio.gather(
        means.zones.read(db, page["site_id"], page["zone_id"]), _counts(db, page["user"], now)
    )
    chosen = {CountedAd.of(ad).key for ad in ads}
    places = tuple(place for place, key in enumerate(zone.keys) if key in chosen)
    return Choice(zone, counts, frozenset(page["keywords"]), frozenset(), places)


async def _counts(db: Database, user: str | None, now: datetime) -> Mapping[str, int]:
    return {} if user is None else await profiles.shown_on(db, user, now=now)


def _events(call: Call, ads: Sequence[Document]) -> list[Document]:
    if call.user is None:
        return []
    return [profiles.event(IMPRESSION, ad, at=call.now, site_id=call.site_id, zone_id=call.zone_id) for ad in ads]


@dataclass
class _Choosing:
    """The choice of one attempt. `refused` are the keys of ads whose impressions are used up or claimed by others."""

    means: Means
    call: Call
    attempt: Attempt
    zone: ParsedZone
    counts: Mapping[str, int]
    keywords: frozenset[str]
    refused: set[str] = field(default_factory=set)
    taken: list[int] = field(default_factory=list)

    async def choose(self, limit: int) -> Choice | None:
        """Returns the choice, with the claims that it needs; None if the profile has just been created."""
        places = self._next(limit)
        while places:
            ads = [self.zone.ads[place] for place in places]
            if not await self.attempt.is_ready(ads):
                return None
            claimed = await self.attempt.claim(ads)
            self.taken += [place for place, is_claimed in zip(places, claimed, strict=True) if is_claimed]
            if all(claimed):
                break
            missed = [place for place, is_claimed in zip(places, claimed, strict=True) if not is_claimed]
            self.refused.update(self.zone.keys[place] for place in missed)
            places = await self._next_not_used_up(limit - len(self.taken))
        return Choice(self.zone, self.counts, self.keywords, frozenset(self.refused), tuple(self.taken))

    def _next(self, limit: int) -> Sequence[int]:
        """Returns the places of the best ads that are neither taken nor refused."""
        keys = self.zone.keys
        taken = {keys[place] for place in self.taken}
        return choosing.choose(
            self.zone,
            self.counts,
            keywords=self.keywords,
            limit=limit,
            rng=self.means.rng,
            refused=self.refused | taken,
            more=0 if self.call.user is None else len(taken - self.counts.keys()),
        ).places

    async def _next_not_used_up(self, limit: int) -> Sequence[int]:
        """Returns the next places like `_next`, without ads that have no impression left to claim or to wait for.

        Many ads of a zone can be used up without a mark in the zone, or be filled by the claims of crashed processes.
        This takes one command for 50 of them, and marks those together that are used up.
        """
        ads, keys = self.zone.ads, self.zone.keys
        while places := self._next(max(limit, _LOOK_AHEAD)):
            capped = [place for place in places if ads[place]["cap"] is not None]
            if not capped:
                return places[:limit]
            used = await counters.used_of(self.call.db, [keys[place] for place in capped])
            full = {place for place in capped if self._is_full(place, used)}
            self.refused.update(keys[place] for place in full)
            shown = {place: used[keys[place]].shown for place in full if keys[place] in used}
            over = [place for place, number in shown.items() if number >= ads[place]["cap"]]
            await mark_zones(self.call.db, [(CountedAd.of(ads[place]), shown[place]) for place in over])
            able = [place for place in places if place not in full]
            if able:
                return able[:limit]
        return []

    def _is_full(self, place: int, used: Mapping[str, Used]) -> bool:
        counted = used.get(self.zone.keys[place], Used(0, ()))
        cap = smaller(self.zone.ads[place]["cap"], counted.cap)
        return cap is not None and not can_be_granted(counted.shown, counted.claims, cap, self.call.timer)
