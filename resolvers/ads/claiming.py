"""Combines what all calls of a process do to the counter of an ad: one update at a time, with everything that waits.

The counter of a popular ad is a point of contention, because every impression claims and concludes there. If each call
sent its own updates, MongoDB would apply them one after the other, and each process would have many of them in flight.
Instead, each ad that is being counted has a queue and a task:

1. A call adds a claim, an impression without a claim, or the end of a claim to the queue.
2. The task sends one update with all that waits (`counters.apply`), and answers every call from the counter afterwards.

So the number of updates grows with the time that an update takes, and not with the number of calls. The task remembers
nothing of the counter for a later update: what the server computes is exact, however many processes do the same.

A claim can be refused only because claims in flight fill the rest of the cap. These can be released again, e.g. because
parallel pages of one user have reached its daily cap. A *patient* claim stays in the queue until it is granted, until
the cap is reached, or until the claims that fill the rest are old, which means that their processes have crashed.

Source: Hendler, Incze, Shavit and Tzafrir, "Flat Combining and the Synchronization-Parallelism Tradeoff" (2010).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal

from bson import ObjectId
from pymongo.errors import PyMongoError

from portico.resolvers.documents import Database, Document
from portico.resolvers.waiting import ASIDE
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


@dataclass(eq=False)
class _Claim:
    """A claim in the queue; without a token, an impression to count at once.

    `cap` is None if nothing limits it. `update` is the number of the update that tried it, or of the latest one when it
    came.
    """

    db: Database
    cap: int | None
    timer: Timer
    done: asyncio.Future[Outcome]
    update: int
    claim: Document | None = None
    is_patient: bool = False

    def stays(self, counter: Document) -> bool:
        """Returns whether a refused claim stays in the queue."""
        cap = smaller(self.cap, counter.get("cap"))
        if not self.is_patient or self.done.done() or cap is None:
            return False
        return can_be_granted(counter["shown"], [one["at"] for one in counter["claims"]], cap, self.timer)


@dataclass(eq=False)
class _End:
    """The end of a claim in the queue."""

    db: Database
    cap: int | None
    token: ObjectId
    is_shown: bool
    done: asyncio.Future[Outcome]


@dataclass(eq=False)
class _Queue:
    """What waits for the counter of an ad: new claims, claims that were tried and stay, and ends of claims."""

    ad: CountedAd
    updates: int = 0
    claims: list[_Claim] = field(default_factory=list)
    patient: list[_Claim] = field(default_factory=list)
    ends: list[_End] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_working: bool = False

    @property
    def is_empty(self) -> bool:
        return not (self.claims or self.patient or self.ends)

    def take(self) -> tuple[list[_Claim], list[_End]]:
        """Takes what goes into the next update: ends of claims, and claims of one cap."""
        ends, self.ends = self.ends[:_MOST], self.ends[_MOST:]
        # The callers of the others have been cancelled.
        new = [one for one in self.claims if not one.done.done()]
        patient = [one for one in self.patient if not one.done.done()]
        # The cap that has waited longest, so that no cap keeps the claims of another one waiting.
        cap = min((*new, *patient), key=lambda one: one.update).cap if new or patient else None
        # The claims that have waited go first. They never fill an update, so that it always tries new ones as well.
        earlier, self.patient = _split(patient, cap)
        later, self.claims = _split(new, cap)
        self.updates += 1
        for claim in (*earlier, *later):
            claim.update = self.updates
        self.changed.clear()
        # Patient claims have been tried, so they wait for a change or for the next look.
        if self.claims or self.ends:
            self.changed.set()
        return [*earlier, *later], ends


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
        self._queues: dict[str, _Queue] = {}
        # The shown and claimed impressions of ads, and their caps: the latest that this process has seen.
        self._used: OrderedDict[str, tuple[int, int | None]] = OrderedDict()
        self._tasks: set[asyncio.Task[None]] = set()

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
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        queue = self._queue_of(ad)
        queue.claims.append(_Claim(db, cap, timer, done, queue.updates, claim, is_patient))
        queue.changed.set()
        self._work(queue)
        return await done

    def end(
        self, db: Database, ad: CountedAd, *, cap: int | None, token: ObjectId, is_shown: bool, is_urgent: bool
    ) -> asyncio.Future[Outcome]:
        """Ends a claim: counts its impression if `is_shown`, otherwise releases it. Idempotent.

        Unless it `is_urgent`, it waits for a moment to go into the same update as the next claim. The caller need not
        await the result, which never has a database error: a job ends claims that are left behind.

        Writes:   as `claim`.
        """
        done: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        queue = self._queue_of(ad)
        queue.ends.append(_End(db, cap, token, is_shown, done))
        if is_urgent or queue.patient:
            queue.changed.set()
        self._work(queue)
        return done

    def is_used_up(self, ad: CountedAd, cap: int | None) -> bool:
        """Returns whether shown and claimed impressions have reached the cap, as far as this process knows."""
        used, known = self._used.get(ad.key, (cap, None))
        limit = smaller(cap, known)
        return limit is not None and used is not None and used >= limit

    async def settled(self) -> None:
        """Waits until nothing is in a queue."""
        while self._tasks:
            await asyncio.gather(*self._tasks, return_exceptions=True)

    def _queue_of(self, ad: CountedAd) -> _Queue:
        return self._queues.setdefault(ad.key, _Queue(ad))

    def _work(self, queue: _Queue) -> None:
        if queue.is_working:
            return
        queue.is_working = True
        task = asyncio.create_task(self._empty(queue))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _empty(self, queue: _Queue) -> None:
        # The work belongs to all callers, so it waits on behalf of none of them.
        ASIDE.set(nullcontext)
        look = _FIRST_LOOK
        try:
            while not queue.is_empty:
                if not queue.changed.is_set():
                    # Claims of other processes, for which patient claims wait, end without notice.
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(queue.changed.wait(), look if queue.patient else _LINGER)
                    look = min(look * _GROWTH, _LONGEST_LOOK)
                await self._update(queue)
        finally:
            queue.is_working = False
            if queue.is_empty:
                self._queues.pop(queue.ad.key, None)

    async def _update(self, queue: _Queue) -> None:
        """Sends one update, and answers those whose changes it had."""
        claims, ends = queue.take()
        if not claims and not ends:
            return
        db = (claims or ends)[0].db
        try:
            counter = await counters.apply(db, queue.ad, _changes(claims, ends))
            self._remember(queue.ad, counter)
            caps = (counter.get("cap"), *(claim.cap for claim in claims), *(end.cap for end in ends))
            if any(cap is not None and counter["shown"] >= cap for cap in caps):
                # The next refused claim tells the zones if this fails.
                with contextlib.suppress(PyMongoError):
                    await mark_zones(db, [(queue.ad, counter["shown"])])
        except BaseException as error:
            _fail(claims, ends, error)
            if not isinstance(error, Exception):
                raise
            return
        for end in ends:
            _answer(end, GRANTED)
        self._answer(queue, claims, counter)

    def _answer(self, queue: _Queue, claims: list[_Claim], counter: Document) -> None:
        tokens = {claim["token"] for claim in counter["claims"]}
        counted = counter["counted"]
        for one in claims:
            if one.claim is not None and one.claim["token"] in tokens:
                _answer(one, GRANTED)
            elif one.claim is None and counted > 0:
                counted -= 1
                _answer(one, GRANTED)
            elif (cap := smaller(one.cap, counter.get("cap"))) is not None and counter["shown"] >= cap:
                _answer(one, EXHAUSTED)
            elif one.stays(counter):
                queue.patient.append(one)
            else:
                _answer(one, FILLED)

    def _remember(self, ad: CountedAd, counter: Document) -> None:
        self._used[ad.key] = counter["shown"] + len(counter["claims"]), counter.get("cap")
        self._used.move_to_end(ad.key)
        if len(self._used) > _REMEMBERED:
            self._used.popitem(last=False)


def _split(claims: list[_Claim], cap: int | None) -> tuple[list[_Claim], list[_Claim]]:
    """Returns the first claims of a cap, as many as go into an update, and the others."""
    of_cap = [one for one in claims if one.cap == cap]
    return of_cap[:_MOST], [*(one for one in claims if one.cap != cap), *of_cap[_MOST:]]


def _changes(claims: list[_Claim], ends: list[_End]) -> Changes:
    return Changes(
        cap=claims[0].cap if claims else 0,
        claims=[{**one.claim, "at": one.timer.now()} for one in claims if one.claim is not None],
        counted=sum(one.claim is None for one in claims),
        concluded=[end.token for end in ends if end.is_shown],
        released=[end.token for end in ends if not end.is_shown],
    )


def _answer(waiting: _Claim | _End, outcome: Outcome) -> None:
    if not waiting.done.done():
        waiting.done.set_result(outcome)


def _fail(claims: list[_Claim], ends: list[_End], error: BaseException) -> None:
    for claim in claims:
        if not claim.done.done():
            claim.done.set_exception(error)
    for end in ends:
        _answer(end, FILLED)
