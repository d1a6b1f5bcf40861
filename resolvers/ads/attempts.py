"""One attempt of a call to show ads: it claims their impressions, decides, and ends the claims.

      nothing --claim--> claims on counters --decide--> an entry in the profile --conclude--> counted
                              |
                              +--release, if the profile has changed or the attempt was refused

Every attempt has a new random token, so nobody can take its claims for those of another attempt, also not of the same
call. An attempt that crashes leaves claims, which keep their places below the cap until a job ends them: it counts them
if the profile has an entry with their token, and otherwise makes the decision impossible and releases them.

A call without a user and without a key has nothing to decide. It counts its impressions at once.

An impression of an ad without a cap needs no claim, unless the call can be repeated: it is counted while the call
decides (`tallying`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from random import Random

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.together import both
from portico.resolvers.waiting import waiting
from portico.resolvers.writes.marks import is_repeatable
from portico.resolvers.writes.timer import Timer

from . import counters, profiles, serves
from .claiming import FILLED, GRANTED, Counters, Outcome
from .counters import CountedAd
from .profiles import Decision
from .tallying import Tally, take_back
from .zone_reads import Zones


@dataclass(frozen=True)
class Means:
    """What a process shows ads with."""

    zones: Zones
    counters: Counters
    tally: Tally
    rng: Random


@dataclass(frozen=True)
class Call:
    """A call that shows ads.

    Args:     user: the `_id` of the user's profile; None without a user.
              keys_kept: how long the call can be repeated.
    """

    db: Database
    site_id: str
    zone_id: str
    user: str | None
    now: datetime
    operation_id: str
    keys_kept: timedelta

    @cached_property
    def timer(self) -> Timer:
        return Timer(self.now)

    @cached_property
    def profile_id(self) -> str | None:
        """The profile that decides the call; None if nothing is to decide."""
        if self.user is not None:
            return self.user
        return profiles.id_of_call(self.operation_id) if is_repeatable(self.operation_id) else None

    def claims(self, ad: Document) -> bool:
        """Returns whether the call claims an impression before it shows this ad, as choices see it."""
        return ad["cap"] is not None or is_repeatable(self.operation_id)

    async def read_profile(self) -> Document | None:
        if self.profile_id is None:
            return None
        return await profiles.read_to_decide(self.db, self.profile_id, self.operation_id)

    def new_profile(self) -> Document:
        assert self.profile_id is not None
        kept_until = None if self.user is not None else self.now + self.keys_kept
        return profiles.new_profile(self.profile_id, now=self.now, kept_until=kept_until)


class Attempt:
    """One attempt. `profile` is the one that was read for it."""

    def __init__(self, call: Call, means: Means, profile: Document | None) -> None:
        self._call = call
        self._writer = means.counters
        self._tally = means.tally
        self._profile = profile
        self._token: ObjectId = counters.random_token()
        self._claimed: list[Document] = []

    async def is_ready(self, ads: Sequence[Document]) -> bool:
        """Makes sure that the profile exists before these ads are claimed. Returns False if it has just appeared."""
        needs = self._call.profile_id is not None and self._profile is None
        if needs and any(map(self._call.claims, ads)):
            created = self._call.new_profile()
            if not await profiles.create(self._call.db, created):
                return False
            self._profile = {**created, "entries": 0, "recorded": 0, "bytes": 0}
        return True

    async def claim(self, ads: Sequence[Document]) -> list[bool]:
        """Claims an impression of each ad that needs a claim. Returns for each ad whether it may be shown."""
        if not any(map(self._call.claims, ads)):
            return [True] * len(ads)
        return [outcome == GRANTED for outcome in await asyncio.gather(*map(self._claim, ads))]

    async def _claim(self, ad: Document) -> Outcome:
        if not self._call.claims(ad):
            return GRANTED
        profile_id = self._call.profile_id
        claim = None if profile_id is None else {"token": self._token, "profile": profile_id}
        outcome = await self._patiently(ad, claim)
        if outcome == GRANTED and claim is not None:
            self._claimed.append(ad)
        return outcome

    async def _patiently(self, ad: Document, claim: Document | None) -> Outcome:
        outcome = await self._ask(ad, claim, is_patient=False)
        if outcome == FILLED:
            async with waiting():
                outcome = await self._ask(ad, claim, is_patient=True)
        return outcome

    async def _ask(self, ad: Document, claim: Document | None, *, is_patient: bool) -> Outcome:
        return await self._writer.claim(
            self._call.db,
            CountedAd.of(ad),
            cap=ad["cap"],
            claim=claim,
            timer=self._call.timer,
            is_patient=is_patient,
        )

    async def decide(self, ads: Sequence[Document], *, events: Sequence[Document]) -> Sequence[Document] | None:
        """Decides that these ads are shown. Returns None if the profile has changed; then the claims are released.

        Otherwise it returns the ads, without those that have just got their first cap and have reached it.

        Args:     ads: the placements, each with its `key`.
        """
        free = [CountedAd.of(ad) for ad in ads if not self._call.claims(ad)]
        deciding = self._decide(ads, events=events, entry=self._entry(ads))
        if not free:
            return ads if await deciding else None
        is_decided, refused = await both(deciding, self._tally.add(self._call.db, free))
        if not is_decided:
            await take_back(self._call.db, [ad for ad in free if ad not in refused])
            return None
        return [ad for ad in ads if CountedAd.of(ad) not in refused or await self._patiently(ad, None) == GRANTED]

    async def refuse(self) -> bool:
        """Decides that the call shows and records nothing. Returns False if the profile has changed.

        Only a call that can be repeated needs it: without an entry, a parallel call with its key could still decide
        otherwise.
        """
        if not is_repeatable(self._call.operation_id):
            return True
        return await self._decide([], events=[], entry={**(self._entry([]) or {}), "refused": True})

    def _entry(self, ads: Sequence[Document]) -> Document | None:
        return serves.entry(self._call.operation_id, self._token, ads, at=self._call.now)

    async def _decide(self, ads: Sequence[Document], *, events: Sequence[Document], entry: Document | None) -> bool:
        call = self._call
        if call.profile_id is None:
            return True
        decision = Decision(
            profile_id=call.profile_id,
            now=call.now,
            operation_id=call.operation_id,
            ads=ads if call.user is not None else (),
            events=events,
            entry=entry,
            has_claims=bool(self._claimed),
            kept_until=None if call.user is not None else call.now + call.keys_kept,
        )
        is_decided = await profiles.decide(call.db, decision, self._profile)
        if not is_decided:
            self._end(self._claimed, is_shown=False, is_urgent=True)
            # The entries of other calls may leave no room.
            await self._trim()
        return is_decided

    async def conclude(self) -> None:
        """Counts the claimed impressions, and forgets entries of older calls.

        It waits only for ads whose caps are used up, so that a read after the last answer finds them exhausted.
        """
        used_up = [one for one in self._claimed if self._writer.is_used_up(CountedAd.of(one), one["cap"])]
        others = [one for one in self._claimed if one not in used_up]
        self._end(others, is_shown=True, is_urgent=False)
        await asyncio.gather(*self._end(used_up, is_shown=True, is_urgent=True))
        await self._trim()

    async def _trim(self) -> None:
        profile = self._profile
        if profile is None or self._call.user is None:
            return
        entries = profile["entries"]
        is_due = entries >= 2 * profiles.SERVES_KEPT and not entries % profiles.SERVES_KEPT
        if is_due or profile["bytes"] >= profiles.TRIMMED_BYTES:
            await serves.trim(self._call.db, self._call.user)

    def _end(self, ads: Sequence[Document], *, is_shown: bool, is_urgent: bool) -> list[asyncio.Future[Outcome]]:
        return [
            self._writer.end(
                self._call.db,
                CountedAd.of(ad),
                cap=ad["cap"],
                token=self._token,
                is_shown=is_shown,
                is_urgent=is_urgent,
            )
            for ad in ads
        ]
