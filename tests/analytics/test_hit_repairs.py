"""The doctor repairs counters of hits of which one level lacks hits that another has."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import partial
from typing import Any

import pytest

from portico.gateway.domains.analytics import DOMAIN
from portico.resolvers.analytics.hit_writing import HitWriter
from portico.resolvers.problems import Problem
from tests.analytics.support.hits import COLLECTIONS, hit, points, record_hits
from tests.support.harness import GatewayClient, assert_invariants, some_of_part
from tests.support.interruptions import crashing, stopping
from tests.support.moments import meanwhile
from tests.support.stored import empty

DAY, HOUR = timedelta(days=1), timedelta(hours=1)
FIRST = datetime(2024, 3, 1)  # noqa: DTZ001 - stored times are naive UTC
SECOND = FIRST + DAY
# Of the hits of the first day, two are in an earlier flush, and one is in the latest.
FLUSHES = (
    [hit(at=SECOND + 10 * HOUR), hit(at=FIRST + 10 * HOUR), hit(at=FIRST + 10 * HOUR)],
    [hit(at=FIRST + 11 * HOUR), hit("/other", SECOND)],
)


@pytest.fixture
async def counted(gateway: GatewayClient) -> GatewayClient:
    await count(gateway)
    return gateway


async def count(gateway: GatewayClient) -> None:
    await empty(gateway.db, COLLECTIONS)
    gateway.state.resources[HitWriter] = HitWriter()
    for hits in FLUSHES:
        await record_hits(gateway, *hits)
    await assert_invariants(gateway)


async def lose(gateway: GatewayClient, level: str) -> None:
    """Loses the counter of the first day, as a gateway did that took it for the counter of its month; or the month."""
    chosen = {"start": FIRST, "page": "/"}
    assert (await gateway.db[f"analytics.hit_{level}"].delete_one(chosen)).deleted_count == 1


async def problems(gateway: GatewayClient, database: Any = None) -> list[Problem]:
    return [one async for one in DOMAIN.invariants[0].problems(gateway.db if database is None else database)]


async def repair(gateway: GatewayClient, database: Any = None) -> int:
    """Repairs what `portico doctor` finds. Returns how many problems it has repaired."""
    return sum([await problem.mend() for problem in await problems(gateway, database)])


async def counts(gateway: GatewayClient, page: str = "/") -> dict[str, dict[str, int]]:
    """What each level has of the first two days: hits by the part of the time after the month, without zeros."""
    found = {}
    for level in ("MINUTE", "HOUR", "DAY", "MONTH"):
        series = await points(gateway, level, FIRST, FIRST + 2 * DAY, page)
        found[level] = {at[8:13]: hits for at, hits in series if hits}
    return found


WHOLE = {
    "MINUTE": {"01T10": 2, "01T11": 1, "02T10": 1},
    "HOUR": {"01T10": 2, "01T11": 1, "02T10": 1},
    "DAY": {"01T00": 3, "02T00": 1},
    "MONTH": {"01T00": 4},
}
# The two hits of the earlier flush have lost their minutes.
REPAIRED = {**WHOLE, "MINUTE": {"01T11": 1, "02T10": 1}, "HOUR": {"01T11": 1, "02T10": 1}}


async def test_lost_hits_of_the_latest_flush_are_rebuilt_and_others_stay_in_their_day(counted: GatewayClient) -> None:
    await lose(counted, "days")

    (problem,) = await problems(counted)

    assert problem.text == (
        "hits of 2024-03-01 in no hour and minute: 3. A repair counts those of the latest flush there, and keeps the "
        "others in their day only, because their time is stored nowhere"
    )
    assert await problem.mend()
    assert await counts(counted) == REPAIRED
    await assert_invariants(counted)
    day = await counted.stored("analytics.hit_days", {"start": FIRST, "page": "/"})
    assert day["unplaced"] == 2


async def test_a_lost_month_is_rebuilt_from_its_days(counted: GatewayClient) -> None:
    await lose(counted, "months")

    texts = {problem.text for problem in await problems(counted)}

    assert texts == {"the counter of its month is missing"}
    assert await repair(counted) == 2
    assert await counts(counted) == WHOLE
    await assert_invariants(counted)


async def test_a_month_that_lacks_hits_gets_those_of_its_days(counted: GatewayClient) -> None:
    await counted.db["analytics.hit_months"].update_one({"page": "/"}, {"$inc": {"days.0": -2, "days.1": -1}})

    (problem,) = await problems(counted)

    assert problem.text == "hits that it lacks of 2024-03-01 and 1 other day, which the days have: 3"
    assert await problem.mend()
    assert await counts(counted) == WHOLE
    await assert_invariants(counted)


async def test_hits_are_counted_as_usual_after_a_repair(counted: GatewayClient) -> None:
    await lose(counted, "days")
    await repair(counted)

    await record_hits(counted, hit(at=FIRST + 10 * HOUR), hit(at=FIRST + 11 * HOUR))

    assert (await counts(counted))["HOUR"] == {"01T10": 1, "01T11": 2, "02T10": 1}
    assert (await counts(counted))["DAY"] == {"01T00": 5, "02T00": 1}
    await assert_invariants(counted)


async def test_a_flush_recreates_a_counter_that_is_missing(counted: GatewayClient) -> None:
    for level in ("days", "months"):
        await lose(counted, level)
        await record_hits(counted, hit(at=FIRST + 12 * HOUR))

        await repair(counted)

        found = await counts(counted)
        assert found["HOUR"]["01T12"] == found["MINUTE"]["01T12"] == (1 if level == "days" else 2)
    await assert_invariants(counted)


@pytest.mark.parametrize("level", ["days", "months"])
async def test_a_repair_that_stops_anywhere_can_be_repeated(gateway: GatewayClient, level: str) -> None:
    for stop in some_of_part(int(level == "days"), of=2):
        await count(gateway)
        await lose(gateway, level)
        with crashing(gateway, stop) as database, stopping():
            await repair(gateway, database)
        if not database.has_crashed:
            break

        await repair(gateway)

        assert await counts(gateway) == (REPAIRED if level == "days" else WHOLE), stop
        await assert_invariants(gateway)
    assert stop > 1


@pytest.mark.parametrize("level", ["days", "months"])
async def test_hits_that_arrive_anywhere_during_a_repair_are_counted_once(gateway: GatewayClient, level: str) -> None:
    more = [hit(at=FIRST + 10 * HOUR), hit(at=FIRST + 11 * HOUR), hit(at=SECOND + 10 * HOUR)]
    for skip in some_of_part(int(level == "days"), of=4):
        await count(gateway)
        await lose(gateway, level)
        with meanwhile(gateway, partial(record_hits, gateway, *more), skip=skip) as outcome:
            await repair(gateway, gateway.db)
        if not outcome:
            break

        await repair(gateway)

        found = await counts(gateway)
        assert found["DAY"] == {"01T00": 5, "02T00": 2}, skip
        assert found["MONTH"] == {"01T00": 7}
        # The hit of the flush before can no longer be rebuilt, if others have followed.
        assert found["HOUR"] == found["MINUTE"]
        assert found["HOUR"]["02T10"] == 2
        if level == "months":
            assert found["HOUR"] == {"01T10": 3, "01T11": 2, "02T10": 2}
        await assert_invariants(gateway)
    assert skip > 5
