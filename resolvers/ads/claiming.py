"""Combines what all calls of a process do to the counter of an ad: one update at a time, with everything that waits.

The counter of a popular ad is a point of contention, because every impression claims and concludes there. So each ad
that is being counted has a queue of claims, of impressions without a claim and of ends of claims (`writes/combining`).
One update has all that waits (`counters.apply`), and every call is answered from the counter afterwards. Nothing of the
counter is remembered for a later update: what the server computes is exact, however many processes do the same.

A claim can be refused only because claims in flight fill the rest of the cap. These can be released again, e.g. because
parallel pages of one user have reached its daily cap. A *patient* claim stays in the queue until it is granted, until
the cap is reached, or until the claims that fill the rest are old, which means that their processes have crashed.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal

from bson import ObjectId
from pymongo.errors import PyMongoError

from portico.resolvers.documents import Database, Document
from portico.resolvers.lru import Lru
from portico.resolvers.writes.combining import Combiner, Waiting
from portico.resolvers.writes.timer import Timer

from . import counters
from .counters import Changes, CountedAd, smaller
from .exhaustion import mark_zones

# New claims, patient claims, and ends of claims in one update, of each at most this many.
_MOST = 500
# A call decides within milliseconds. Nobody waits for the end of an older claim.
_YOUNG = timedelta(seconds=1)
# A patient claim waits for this long at most.
_PATIENCE = 2.0
# How often patient claims look whether other processes have released theirs, in seconds.
_FIRST_LOOK, _LONGEST_LOOK, _GROWTH = 0.005, 0.05, 1.6

# How long the end of a claim waits for the next claim, in seconds.
_LINGER = 0.05
# Counters of which a process remembers how much is used.
_REMEMBERED = 10_000

GRANTED: Literal["GRANTED"] = "GRANTED"
EXHAUSTED: Literal["EXHAUSTED"] = "EXHAUSTED"
FILLED: Literal["FILLED"] = "FILLED"
# Outcomes of a claim. EXHAUSTED is final: the cap is reached. FILLED is not: claims in flight fill the rest.
Outcome = Literal["GRANTED", "EXHAUSTED", "FILLED"]


@dataclass(eq=False, kw_only=True)
class _Claim(Waiting[Outcome]):
    """A claim in the queue; without a token, an impression to count at once. `cap` is None if nothing limits it.

    A claim that was tried and stays is not urgent: it waits for a change, or for the next look.
    """

    cap: int | None
    timer: Timer
    claim: Document | None
    is_patient: bool

    @property
    def is_tried(self) -> bool:
        return not self.is_urgent

    def stays(self, counter: Document) -> bool:
        """Returns whether a refused claim stays in the queue."""
        cap = smaller(self.cap, counter.get("cap"))
        if not self.is_patient or self.done.done() or cap is None:
            return False
        return can_be_granted(counter["shown"], [one["at"] for one in counter["claims"]], cap, self.timer)


@dataclass(eq=False, kw_only=True)
class _End(Waiting[Outcome]):
    """The end of a claim in the queue."""

    cap: int | None
    token: ObjectId
    is_shown: bool

    def fail(self, _error: BaseException) -> None:
        """Answers the call. A job ends claims that are left behind."""
        self.answer(FILLED)


def _take(waiting: list[_Claim | _End]) -> tuple[list[_Claim | _End], list[_Claim | _End]]:
    """Takes what goes into the next update: ends of claims, and claims of one cap. Drops claims of cancelled calls."""
    ends = [one for one in waiting if isinstance(one, _End)]
    claims = [one for one in waiting if isinstance(one, _Claim) and not one.done.done()]
    # The cap that has waited longest, so that no cap keeps the claims of another one waiting.
    of_cap = [one for one in claims if one.cap == claims[0].cap]
    # The claims that have waited go first. They never fill an update, so that it always tries new ones as well.
    tried = [one for one in of_cap if one.is_tried][:_MOST]
    new = [one for one in of_cap if not one.is_tried][:_MOST]
    for end in ends[_MOST:]:
        end.is_urgent = True
    taken = {*tried, *new}
    return [*tried, *new, *ends[:_MOST]], [*(one for one in claims if one not in taken), *ends[_MOST:]]


def can_be_granted(shown: int, claims: Sequence[datetime], cap: int, timer: Timer) -> bool:
    """Returns whether it makes sense to wait for an impression below the cap.

    Args:     claims: the times of the claims.  timer: of the call, which waits for two seconds at most.
    """
    if timer.seconds > _PATIENCE:
        return shown + len(claims) < cap
    limit = timer.now() - _YOUNG
    return shown + sum(at < limit for at in claims) < cap


class Counters:
    """The counters that this process writes, and the tasks that write them. One for each process."""

    def __init__(self) -> None:
        self._queues: Combiner[CountedAd, _Claim | _End] = Combiner(self._update, take=_take, linger=self._linger)
        # How long claims that were tried wait for the next look at the counter of their ad.
        self._looks: dict[CountedAd, float] = {}
        # The shown and claimed impressions of ads, and their caps: the latest that this process has seen.
        self._used: Lru[str, tuple[int, int | None]] = Lru(_REMEMBERED)

    async def claim(
        self,
        db: Database,
        ad: CountedAd,
        *,
        cap: int | None,
        claim: Document | None,
        timer: Timer,
        is_patient: bool = False,
    ) -> Outcome:
        """Claims an impression, or counts it at once if `claim` is None.

        Args:     cap: of the placement, or None.  claim: {token, profile}.  timer: of the call.
                  is_patient: waits while claims in flight fill the rest; see the module.
        Writes:   ads.counters; one update for all that waits. ads.zones, if the cap is reached.
        """
        waiting = _Claim(db=db, cap=cap, timer=timer, claim=claim, is_patient=is_patient)
        self._queues.add(ad, waiting)
        return await waiting.done

    def end(
        self, db: Database, ad: CountedAd, *, cap: int | None, token: ObjectId, is_shown: bool, is_urgent: bool
    ) -> asyncio.Future[Outcome]:
        """Ends a claim: counts its impression if `is_shown`, otherwise releases it. Idempotent.

        Unless it `is_urgent`, it waits for a moment to go into the same update as the next claim. The caller need not
        await the result, which never has a database error: a job ends claims that are left behind.

        Writes:   as `claim`.
        """
        # Claims that were tried wait for this end.
        waiting = _End(db=db, cap=cap, token=token, is_shown=is_shown, is_urgent=is_urgent or ad in self._looks)
        self._queues.add(ad, waiting)
        return waiting.done

    def is_used_up(self, ad: CountedAd, cap: int | None) -> bool:
        """Returns whether shown and claimed impressions have reached the cap, as far as this process knows."""
        used, known = self._used.get(ad.key) or (cap, None)
        limit = smaller(cap, known)
        return limit is not None and used is not None and used >= limit

    async def close(self) -> None:
        """Waits until nothing is in a queue."""
        await self._queues.close()

    def _linger(self, ad: CountedAd) -> float:
        look = self._looks.get(ad)
        if look is None:
            return _LINGER
        # Claims of other processes, for which tried claims wait, end without notice.
        self._looks[ad] = min(look * _GROWTH, _LONGEST_LOOK)
        return look

    async def _update(self, ad: CountedAd, batch: list[_Claim | _End]) -> None:
        """Sends one update, and answers those whose changes it had."""
        claims = [one for one in batch if isinstance(one, _Claim)]
        ends = [one for one in batch if isinstance(one, _End)]
        try:
            counter = await self._apply(batch[0].db, ad, claims, ends)
            for end in ends:
                end.answer(GRANTED)
            self._answer(ad, claims, counter)
        finally:
            if not any(isinstance(one, _Claim) and one.is_tried for one in self._queues.waiting(ad)):
                self._looks.pop(ad, None)

    async def _apply(self, db: Database, ad: CountedAd, claims: list[_Claim], ends: list[_End]) -> Document:
        counter = await counters.apply(db, ad, _changes(claims, ends))
        self._remember(ad, counter)
        caps = (counter.get("cap"), *(claim.cap for claim in claims), *(end.cap for end in ends))
        if any(cap is not None and counter["shown"] >= cap for cap in caps):
            # The next refused claim tells the zones if this fails.
            with contextlib.suppress(PyMongoError):
                await mark_zones(db, [(ad, counter["shown"])])
        return counter

    def _answer(self, ad: CountedAd, claims: list[_Claim], counter: Document) -> None:
        tokens = {claim["token"] for claim in counter["claims"]}
        counted = counter["counted"]
        for one in claims:
            if one.claim is not None and one.claim["token"] in tokens:
                one.answer(GRANTED)
            elif one.claim is None and counted > 0:
                counted -= 1
                one.answer(GRANTED)
            elif (cap := smaller(one.cap, counter.get("cap"))) is not None and counter["shown"] >= cap:
                one.answer(EXHAUSTED)
            elif one.stays(counter):
                one.is_urgent = False
                self._queues.add(ad, one)
                self._looks.setdefault(ad, _FIRST_LOOK)
            else:
                one.answer(FILLED)

    def _remember(self, ad: CountedAd, counter: Document) -> None:
        self._used.put(ad.key, (counter["shown"] + len(counter["claims"]), counter.get("cap")))


def _changes(claims: list[_Claim], ends: list[_End]) -> Changes:
    return Changes(
        cap=claims[0].cap if claims else 0,
        claims=[{**one.claim, "at": one.timer.now()} for one in claims if one.claim is not None],
        counted=sum(one.claim is None for one in claims),
        concluded=[end.token for end in ends if end.is_shown],
        released=[end.token for end in ends if not end.is_shown],
    )
