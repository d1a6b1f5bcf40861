"""Counts impressions that no cap in all limits: one command at a time for all calls and ads of a process.

Such an impression needs no claim, because nothing can refuse it. Its call counts it and decides at the same moment, and
answers after both. So every impression that a page shows is counted. If a process is killed in between, an impression
can stay counted that no page has shown.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import nullcontext

from pymongo import UpdateOne

from portico.resolvers.documents import Database
from portico.resolvers.waiting import ASIDE

from .counters import COUNTERS, CountedAd


class Tally:
    """The impressions that this process counts without claims. One for each process."""

    def __init__(self) -> None:
        self._numbers: Counter[CountedAd] = Counter()
        # Completed when the impressions in `_numbers` are counted.
        self._done: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def add(self, db: Database, ads: Iterable[CountedAd], number: int = 1) -> None:
        """Counts this many impressions of each ad; a negative number takes impressions back.

        Writes:   ads.counters; one command for all that waits.
        """
        self._numbers.update(dict.fromkeys(ads, number))
        if not self._numbers:
            return
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
        done = self._done
        if self._task is None:
            self._task = asyncio.create_task(self._empty(db))
        # The impressions of a call that is cancelled are counted with the others.
        await asyncio.shield(done)

    async def _empty(self, db: Database) -> None:
        # The work belongs to all callers, so it waits on behalf of none of them.
        ASIDE.set(nullcontext)
        try:
            while self._done is not None:
                numbers, done = self._numbers, self._done
                self._numbers, self._done = Counter(), None
                try:
                    await _count(db, numbers)
                except BaseException as error:
                    done.set_exception(error)
                    # Retrieves an error that nobody waits for, so that asyncio does not log it.
                    done.exception()
                    if not isinstance(error, Exception):
                        raise
                else:
                    done.set_result(None)
        finally:
            self._task = None


async def _count(db: Database, numbers: Counter[CountedAd]) -> None:
    updates = [
        UpdateOne(
            {"_id": ad.key},
            {
                "$inc": {"shown": number, "uncapped": number},
                "$setOnInsert": {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id, "claims": []},
            },
            upsert=True,
        )
        for ad, number in numbers.items()
    ]
    await db[COUNTERS.name].bulk_write(updates, ordered=False)
