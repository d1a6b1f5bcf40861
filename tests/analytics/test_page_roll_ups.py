"""`pageCounts` reads days that are over from roll-ups, and stays exact."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.analytics import page_counts as reads
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.scalars import format_instant
from tests.analytics.support.log_events import NOON, Given, event, log, page_counts
from tests.analytics.support.page_roll_ups import DAY, JOB, counted, marks, roll_up, rolled_days, unused_counts
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, run_jobs, running, with_settings

MIDNIGHT = NOON.replace(hour=0)


def events_of(days: int, count: int = 20, seed: int = 1) -> list[Given]:
    """Random events on so many days from 9 March 2026."""
    rng = random.Random(seed)
    return [
        event(
            rng.choice(["/", "/a", "/é", "$x.y"]),
            time=format_instant(MIDNIGHT + day * DAY + timedelta(milliseconds=rng.randrange(86_400_000))),
            host=f"::{rng.randrange(3)}",
            user=rng.choice([None, "robin"]),
        )
        for day in range(days)
        for _ in range(count)
    ]


async def keys_of(gateway: GatewayClient, *arguments: datetime, **variables: Any) -> int:
    """Returns how many keys of indexes and documents `pageCounts` reads."""
    gateway.commands.clear()
    await page_counts(gateway, *arguments, **variables)
    total = 0
    for command in list(gateway.commands.sent):
        if command.get("aggregate") or command.get("find"):
            names = ("aggregate", "find", "pipeline", "hint", "cursor", "filter", "projection", "sort", "limit")
            given = {name: command[name] for name in names if name in command}
            explained: Any = await gateway.db.command("explain", given, verbosity="executionStats")
            stats = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
            total += stats["totalKeysExamined"] + stats["totalDocsExamined"]
    return total


async def test_days_that_are_over_are_counted_as_the_log_counts_them(gateway: GatewayClient) -> None:
    events = events_of(4)
    await log(gateway, *events)
    before = await page_counts(gateway, MIDNIGHT, MIDNIGHT + 4 * DAY, limit=1_000)
    await roll_up(gateway)

    assert await marks(gateway.db) == 0
    assert before == counted(events)
    for begin, end in (
        (MIDNIGHT, MIDNIGHT + 4 * DAY),
        (MIDNIGHT + timedelta(milliseconds=1), MIDNIGHT + 4 * DAY - timedelta(milliseconds=1)),
        (MIDNIGHT - 3 * DAY, MIDNIGHT + 9 * DAY),
        (NOON, NOON + 2 * DAY),
        (NOON, NOON + timedelta(hours=1)),
        (MIDNIGHT + DAY, MIDNIGHT + 2 * DAY),
        (NOON, MIDNIGHT + DAY),
    ):
        wanted = counted(events, begin, end)
        for limit in (1, 3, 1_000):
            assert await page_counts(gateway, begin, end, limit=limit) == wanted[:limit], (begin, end)
    await assert_invariants(gateway)


async def test_what_a_page_count_reads_does_not_grow_with_the_events_of_its_days(gateway: GatewayClient) -> None:
    await log(gateway, *events_of(5, 180))
    before = await keys_of(gateway, MIDNIGHT, MIDNIGHT + 5 * DAY, limit=3)
    await roll_up(gateway)

    after = await keys_of(gateway, MIDNIGHT, MIDNIGHT + 5 * DAY, limit=3)

    assert before > 900
    # Two documents of days for each day, a key of each day's counts, and the rows.
    assert after <= 4 * 5 + 5 + 3 + 5


async def test_today_and_a_day_that_has_just_ended_are_counted_from_the_log(gateway: GatewayClient) -> None:
    today = gateway.clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
    given = [event(time=format_instant(today + timedelta(seconds=number))) for number in range(3)]
    await log(gateway, *given)
    await roll_up(gateway)
    assert await rolled_days(gateway.db) == []
    assert await page_counts(gateway, today, today + DAY) == counted(given)

    await gateway.run_jobs(JOB, seconds=(today + DAY - gateway.clock.now()).total_seconds())
    assert await rolled_days(gateway.db) == []

    await gateway.run_jobs(JOB, minutes=11)
    assert await rolled_days(gateway.db) == [today]
    assert await page_counts(gateway, today, today + DAY) == counted(given)


async def test_a_late_event_counts_at_once_and_once(gateway: GatewayClient) -> None:
    events = events_of(3)
    await log(gateway, *events)
    await roll_up(gateway)
    for number in range(3):
        late = event("/late", number, eventId=f"{number}")
        await log(gateway, late, late)
        events.append(late)

        assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 3 * DAY, limit=1_000) == counted(events)
        assert await roll_up(gateway) > 0
        assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 3 * DAY, limit=1_000) == counted(events)
        assert await marks(gateway.db) == 0
    await log(gateway, events[-1])
    await roll_up(gateway)

    assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 3 * DAY, limit=1_000) == counted(events)
    assert await unused_counts(gateway.db) == 0
    await assert_invariants(gateway)


async def test_a_day_is_rolled_up_again_at_most_every_five_minutes(gateway: GatewayClient) -> None:
    await log(gateway, event())
    await gateway.run_jobs(JOB)
    await log(gateway, event())

    await gateway.run_jobs(JOB, minutes=4)
    assert await marks(gateway.db) == 1

    await gateway.run_jobs(JOB, minutes=2)
    assert await marks(gateway.db) == 0


async def test_a_database_without_roll_ups_gets_them_backwards_and_31_in_a_run(gateway: GatewayClient) -> None:
    events = [event(f"/{day}", day * DAY.total_seconds()) for day in range(0, 80, 2)]
    # A device whose clock was not set.
    events.append(event("/first", time="1970-01-01T00:00:00.000Z"))
    await log(gateway, *events)
    # As an earlier version has left them.
    await gateway.db["analytics.log_events"].update_many({}, {"$unset": {"uncounted": ""}})
    end = NOON.replace(hour=0) + 79 * DAY
    gateway.clock.advance(seconds=(end + timedelta(hours=1) - gateway.clock.now()).total_seconds())
    lasts: list[datetime] = []
    for _ in range(9):
        assert await page_counts(gateway, datetime(1970, 1, 1), end, limit=1_000) == counted(events)  # noqa: DTZ001 - naive UTC
        if await run_jobs(gateway, gateway.clock, JOB) == 0:
            break
        lasts.append((await rolled_days(gateway.db))[0])

    # 79 days with and without events, and the first day alone: there is a long gap before it.
    assert lasts == [end - 31 * DAY, end - 62 * DAY, datetime(1970, 1, 1)]  # noqa: DTZ001 - naive UTC
    assert len(await rolled_days(gateway.db)) == 80
    await assert_invariants(gateway)


async def test_more_days_than_mongodb_merges_are_read_in_parts(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_MERGED", 2)
    events = events_of(7)
    await log(gateway, *events)
    await roll_up(gateway)

    for limit in (1, 5, 1_000):
        assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 7 * DAY, limit=limit) == counted(events)[:limit]


async def test_of_many_stretches_without_roll_ups_the_rest_of_the_range_is_one(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "_MOST_STRETCHES", 3)
    events = events_of(12)
    await log(gateway, *events)
    await roll_up(gateway)
    for day in range(1, 12, 2):
        late = event("/late", day * DAY.total_seconds())
        await log(gateway, late)
        events.append(late)

        assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 12 * DAY, limit=1_000) == counted(events)


async def test_only_events_without_a_roll_up_count_towards_the_limit(settings: Settings) -> None:
    clock = SettableClock()
    limited = with_settings(settings, AnalyticsSettings, max_page_count_events=10)
    async with running(limited, clock=clock) as gateway:
        events = [event("/a", number) for number in range(30)]
        await log(gateway, *events)
        await roll_up(gateway)

        assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + DAY) == counted(events)


async def test_roll_ups_go_before_their_events_expire(settings: Settings) -> None:
    clock = SettableClock()
    async with running(with_settings(settings, AnalyticsSettings, log_days=30.0), clock=clock) as gateway:
        today = clock.now().replace(hour=0, minute=0, second=0, microsecond=0)
        events = [
            event(time=format_instant(today - day * DAY + timedelta(hours=hour)))
            for day in range(1, 5)
            for hour in (1, 23)
        ]
        await log(gateway, *events)
        clock.advance(days=1)
        await roll_up(gateway)
        assert len(await rolled_days(gateway.db)) == 5
        now = today + 28 * DAY + timedelta(hours=12)
        clock.advance(seconds=(now - clock.now()).total_seconds())

        # Two days have expired, and half of the third.
        left = [one for one in events if one["time"] >= format_instant(now - 30 * DAY)]
        for _ in range(2):
            await gateway.run_jobs("forget-log-events")
            await roll_up(gateway)

            assert await page_counts(gateway, today - 9 * DAY, today, limit=1_000) == counted(left)
            assert await unused_counts(gateway.db) == 0
            await assert_invariants(gateway)
        assert min(await rolled_days(gateway.db)) == today - DAY


async def test_the_doctor_finds_a_roll_up_that_differs_from_its_events_and_mends_it(gateway: GatewayClient) -> None:
    (invariant,) = [one for one in gateway.domains.invariants if one.name.startswith("Every roll-up of log")]
    counts, events = gateway.db["analytics.page_days"], gateway.db["analytics.log_events"]
    # So few days later, the job rolls up few days, and the doctor checks few.
    gateway.clock.advance(seconds=(MIDNIGHT + 4 * DAY - gateway.clock.now()).total_seconds())
    given = events_of(2)
    await log(gateway, *given)
    await roll_up(gateway)

    async def changed(collection: Any, change: Given, **conditions: Any) -> None:
        assert (await collection.update_one({"day": MIDNIGHT, **conditions}, change)).modified_count == 1

    damages = (
        changed(counts, {"$inc": {"hits": 1}}, path="/"),
        changed(counts, {"$inc": {"visitors": -1}}, path="/"),
        changed(counts, {"$set": {"path": "/other"}}, path="/"),
        counts.delete_one({"day": MIDNIGHT, "path": "/"}),
        counts.delete_many({"day": MIDNIGHT}),
        gateway.db["analytics.log_days"].update_one({"_id": MIDNIGHT}, {"$inc": {"pages": 1}}),
        # An event that another program has inserted, without a mark.
        events.insert_one({"path": "/x", "time": NOON, "visitor": "h:x"}),
    )
    for damage in damages:
        await damage
        (problem,) = [problem async for problem in invariant.problems(gateway.db)]
        assert (problem.subject, problem.is_open) == (f"log day {MIDNIGHT}", False)
        assert await problem.mend()
        assert [problem async for problem in invariant.problems(gateway.db)] == []
        # Deletes the counts that were mended, so that the next damage is to valid ones.
        await gateway.run_jobs(JOB)
    found = await page_counts(gateway, MIDNIGHT, MIDNIGHT + 2 * DAY, limit=1_000)
    assert [one for one in found if one["path"] != "/x"] == counted(given)


async def test_the_doctor_names_a_document_that_is_no_day(gateway: GatewayClient) -> None:
    (invariant,) = [one for one in gateway.domains.invariants if one.name.startswith("Every roll-up of log")]
    await gateway.db["analytics.log_days"].insert_one({"_id": "x"})

    (problem,) = [problem async for problem in invariant.problems(gateway.db)]

    assert (problem.text, await problem.mend()) == ("it is not a day", False)
