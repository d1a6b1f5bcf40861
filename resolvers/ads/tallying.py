"""Counts impressions that no cap in all limits: one command at a time for all calls and ads of a process.

Such an impression needs no claim. Its call counts it and decides at the same moment, and answers after both. So every
impression that a page shows is counted. If a process is killed in between, an impression can stay counted that no page
has shown.

A zone may not know yet that the ad has just got a cap. The counter knows, and refuses such an impression: its update
matches only a counter without a cap.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database
from portico.resolvers.writes.combining import Combiner, Waiting

from .counters import COUNTERS, CountedAd

_DUPLICATE_KEY = 11000


@dataclass(eq=False, kw_only=True)
class _Shown(Waiting[frozenset[CountedAd]]):
    """The ads of a call that counts an impression of each."""

    ads: Sequence[CountedAd]


class Tally:
    """The impressions that this process counts without claims. One for each process."""

    def __init__(self) -> None:
        self._calls: Combiner[None, _Shown] = Combiner(_count_all)

    async def add(self, db: Database, ads: Sequence[CountedAd]) -> frozenset[CountedAd]:
        """Counts an impression of each of these ads, at least one. Returns those that it refuses: they have a cap.

        The impressions of a call that is cancelled are counted with the others.

        Writes:   ads.counters; one command for all that waits.
        """
        shown = _Shown(db=db, ads=ads)
        self._calls.add(None, shown)
        return await shown.done


async def _count_all(_key: None, calls: list[_Shown]) -> None:
    refused = await _count(calls[0].db, Counter(ad for call in calls for ad in call.ads))
    for call in calls:
        call.answer(refused)


async def _count(db: Database, numbers: Counter[CountedAd]) -> frozenset[CountedAd]:
    """Counts the impressions. Returns the ads that have a cap."""
    refused = await _upsert(db, numbers, list(numbers))
    # Another process may just have inserted the counter of an ad. The second time, its counter is there.
    return frozenset(await _upsert(db, numbers, refused)) if refused else frozenset()


async def _upsert(db: Database, numbers: Counter[CountedAd], ads: Sequence[CountedAd]) -> Sequence[CountedAd]:
    """Returns the ads whose counters do not match. For these, the upsert tries to insert a second one."""
    updates = [
        UpdateOne(
            {"_id": ad.key, "cap": None},
            {
                "$inc": {"shown": numbers[ad], "uncapped": numbers[ad]},
                "$setOnInsert": {"campaign_id": ad.campaign_id, "ad_unit_id": ad.ad_unit_id, "claims": []},
                "$unset": {"cap": ""},
            },
            upsert=True,
        )
        for ad in ads
    ]
    try:
        await db[COUNTERS.name].bulk_write(updates, ordered=False)
    except BulkWriteError as error:
        failed = error.details["writeErrors"]
        if error.details["writeConcernErrors"] or any(one["code"] != _DUPLICATE_KEY for one in failed):
            raise
        return [ads[one["index"]] for one in failed]
    return []


async def take_back(db: Database, ads: Sequence[CountedAd]) -> None:
    """Takes back an impression of each of these ads that was counted, and that no page shows.

    Writes:   ads.counters; one command.
    """
    if ads:
        change = {"$inc": {"shown": -1, "uncapped": -1}}
        await db[COUNTERS.name].bulk_write([UpdateOne({"_id": ad.key}, change) for ad in ads], ordered=False)
