"""Roll-ups of log events that crash before any command, or run at the same time as writes, reads and other roll-ups."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portico.gateway.settings import Settings
from portico.resolvers.analytics import page_counts as reads
from portico.resolvers.analytics import page_roll_ups
from portico.resolvers.analytics.page_roll_ups import roll_up_day, roll_up_days
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.scalars import format_instant
from portico.testing.snapshots import Snapshot
from tests.analytics.support.log_events import LOG, NOON, Given, event, log, page_counts, service
from tests.analytics.support.page_roll_ups import COLLECTIONS, DAY, JOB, counted, marks, roll_up, unused_counts
from tests.support.harness import (
    IS_SOAK,
    GatewayClient,
    SettableClock,
    assert_invariants,
    running,
    some_stops,
    stops,
    with_settings,
)
from tests.support.interruptions import crashing, delayed, interrupted, stopping
from tests.support.machines import examples
from tests.support.moments import meanwhile
from tests.support.stored import empty

MIDNIGHT = NOON.replace(hour=0)
END = MIDNIGHT + 3 * DAY
EVENTS = [event(f"/{number % 3}", number * 3_600, host=f"::{number % 4}") for number in range(40)]
LATE = [event("/late", 7_200 * number, eventId=f"late {number}") for number in range(15)]


MORE = event("/more", 1)


@pytest.fixture
def clock(clock: SettableClock) -> SettableClock:
    """A clock that is a few days after the events, so that the job rolls up few other days."""
    clock.advance(seconds=(END + 3 * DAY - clock.now()).total_seconds())
    return clock


async def all_counts(gateway: GatewayClient) -> Any:
    return await page_counts(gateway, MIDNIGHT, END, limit=1_000)


async def assert_settled(gateway: GatewayClient, events: list[Given]) -> None:
    """Runs the job twice. Asserts that the roll-ups are those of the events, and that nothing else is left."""
    for _ in range(2):
        await roll_up(gateway)
    assert await all_counts(gateway) == counted(events)
    assert (await marks(gateway.db), await unused_counts(gateway.db)) == (0, 0)
    await assert_invariants(gateway)


async def test_a_run_that_crashes_anywhere_twice_leaves_exact_counts_and_is_finished_by_the_next(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(page_roll_ups, "_INSERTED_AT_ONCE", 2)
    monkeypatch.setattr(page_roll_ups, "_UNMARKED_AT_ONCE", 10)
    await log(gateway, *EVENTS)
    await roll_up(gateway)
    await log(gateway, *LATE)
    snapshot = Snapshot(gateway.db, COLLECTIONS)
    await snapshot.take()
    crashes = 0
    every_pair = list(itertools.product(range(8), range(6)))
    pairs = every_pair if IS_SOAK else [(first, random.randrange(6)) for first in range(8)]
    for first, second in pairs:
        await snapshot.restore()
        for stop in (first, second):
            with crashing(gateway, stop) as faulty, stopping():
                await roll_up(gateway)
            crashes += faulty.has_crashed
            assert await all_counts(gateway) == counted([*EVENTS, *LATE])
        await assert_settled(gateway, [*EVENTS, *LATE])
    assert crashes > len(pairs) * 5 / 8


async def test_an_expiry_that_crashes_anywhere_counts_no_deleted_events(settings: Settings) -> None:
    clock = SettableClock()
    async with running(with_settings(settings, AnalyticsSettings, log_days=30.0), clock=clock) as gateway:
        now = clock.now()
        today = now.replace(hour=0, minute=0, second=0, microsecond=0)
        events = [event(time=format_instant(today - day * DAY)) for day in range(1, 5)]
        await log(gateway, *events)
        await roll_up(gateway)
        clock.advance(days=28)
        snapshot = Snapshot(gateway.db, COLLECTIONS)
        await snapshot.take()
        for stop in stops():
            await snapshot.restore()
            with crashing(gateway, stop) as faulty, stopping():
                await gateway.run_jobs("forget-log-events")
            stored = [one["time"] async for one in gateway.db["analytics.log_events"].find()]
            left = [one for one in events if one["time"] in {format_instant(time) for time in stored}]

            assert await page_counts(gateway, today - 9 * DAY, today) == counted(left)
            await roll_up(gateway)
            assert await page_counts(gateway, today - 9 * DAY, today) == counted(left)
            await assert_invariants(gateway)
            if not faulty.has_crashed:
                break
        assert (stop, len(left)) == (3, 1)


# What happens between any two commands of a roll-up.

Action = Callable[[GatewayClient], Awaitable[None]]


async def another_build(gateway: GatewayClient) -> None:
    await roll_up_day(gateway.db, MIDNIGHT, now=gateway.clock.now())


async def another_run(gateway: GatewayClient) -> None:
    await roll_up_days(gateway.db, now=gateway.clock.now() + timedelta(minutes=6), days=None)


async def late_events(gateway: GatewayClient) -> None:
    await log(gateway, *LATE)


def one_after_the_other(*actions: Action) -> Action:
    async def act(gateway: GatewayClient) -> None:
        for action in actions:
            await action(gateway)

    return act


BETWEEN = {
    "another build": one_after_the_other(another_build),
    "another run": one_after_the_other(another_run),
    "late events": one_after_the_other(late_events),
    "late events and another build": one_after_the_other(late_events, another_build),
    "another build and late events": one_after_the_other(another_build, late_events),
    "builds around late events": one_after_the_other(another_build, late_events, another_build),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", BETWEEN)
async def test_whatever_happens_between_two_commands_of_a_build_each_event_counts_once(
    gateway: GatewayClient, clock: SettableClock, name: str
) -> None:
    events = [*EVENTS, MORE, *(LATE if "late events" in name else [])]

    async def act() -> None:
        await BETWEEN[name](gateway)
        # What the paused process has not done yet is missing in no answer.
        assert await all_counts(gateway) == counted(events)

    for skip in some_stops(3):
        await empty(gateway.db, COLLECTIONS)
        await log(gateway, *EVENTS)
        await another_build(gateway)
        await log(gateway, MORE)
        with meanwhile(gateway, act, skip=skip) as outcome:
            await roll_up_day(gateway.db, MIDNIGHT, now=clock.now())
        if not outcome:
            break

        assert await all_counts(gateway) == counted(events)
        await assert_settled(gateway, events)
    assert skip >= 6


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", BETWEEN)
async def test_whatever_happens_between_two_commands_of_a_read_it_counts_each_earlier_event_once(
    gateway: GatewayClient, name: str
) -> None:
    wanted = [tuple(one.values()) for one in counted(EVENTS)]

    async def act() -> None:
        await BETWEEN[name](gateway)
        # Deletes the counts that were replaced.
        await another_run(gateway)

    for skip in some_stops(3):
        await empty(gateway.db, COLLECTIONS)
        await log(gateway, *EVENTS)
        await roll_up(gateway)
        with meanwhile(gateway, act, skip=skip) as outcome:
            found = await reads.count_pages(gateway.db, MIDNIGHT, END, limit=1_000, max_events=1_000)
        if not outcome:
            break
        pages = [(one["path"], format_instant(one["day"]), one["hits"], one["visitors"]) for one in found]

        assert [one for one in pages if one[0] != "/late"] == wanted, skip
    # Four commands: the marks, the days, the counts, and the days again.
    assert skip >= 4


async def test_a_read_whose_roll_ups_are_replaced_again_and_again_counts_the_log(gateway: GatewayClient) -> None:
    await log(gateway, *EVENTS)
    await roll_up(gateway)
    replaced = 0

    class Replacing:
        def __getitem__(self, name: str) -> Any:
            nonlocal replaced
            if name != "analytics.page_days":
                return gateway.db[name]
            replaced += 1
            return interrupted(gateway.db, None, None, lambda: another_build(gateway))[name]

    database: Any = Replacing()
    found = await reads.count_pages(database, MIDNIGHT, END, limit=1_000, max_events=1_000)

    assert replaced == 3
    assert [one["hits"] for one in found] == [one["hits"] for one in counted(EVENTS)]


async def test_roll_ups_reads_and_late_events_at_the_same_time_lose_and_double_nothing(gateway: GatewayClient) -> None:
    rng = random.Random(3)
    await log(gateway, *EVENTS)
    acknowledged = list(EVENTS)
    is_over = False

    async def record(number: int) -> None:
        for count in range(12):
            late = event(f"/{number}", 3_600 * rng.randrange(40), eventId=f"{number} {count}")
            await log(gateway, late, late)
            acknowledged.append(late)
            if count % 3 == 0:
                await log(gateway, late)

    async def build() -> None:
        while not is_over:
            database = delayed(gateway.db, rng, 0.005)
            # As if five minutes had passed.
            await roll_up_days(database, now=gateway.clock.now() + timedelta(minutes=6), days=None)
            for day in range(3):
                await roll_up_day(database, MIDNIGHT + day * DAY, now=gateway.clock.now())

    async def read() -> None:
        while not is_over:
            before = len(acknowledged)
            found = sum(one["hits"] for one in await all_counts(gateway))
            # Each of the four recorders can have an event under way.
            assert before <= found <= len(acknowledged) + 4

    async def record_all() -> None:
        nonlocal is_over
        try:
            await asyncio.gather(*(record(number) for number in range(4)))
        finally:
            is_over = True

    await asyncio.gather(record_all(), build(), build(), read(), read())

    await assert_settled(gateway, acknowledged)


# Random steps


TIMES = st.one_of(
    st.integers(0, 4 * 24 - 1).map(lambda hour: MIDNIGHT + timedelta(hours=hour)),
    st.integers(0, 3).map(lambda day: MIDNIGHT + (day + 1) * DAY - timedelta(milliseconds=1)),
)
ENTRIES = st.builds(
    lambda path, time, host, user, key: event(path, time=format_instant(time), host=host, user=user, eventId=key),
    st.sampled_from(["/", "/a", "/é"]),
    TIMES,
    st.sampled_from(["::1", "::2"]),
    st.sampled_from([None, "robin"]),
    st.one_of(st.none(), st.sampled_from("abcdefgh")),
)
STEPS = st.one_of(
    st.tuples(st.just("log"), st.lists(ENTRIES, min_size=1, max_size=6)),
    # Many runs crash after some changes.
    st.tuples(st.just("roll up"), st.one_of(st.none(), st.integers(0, 6))),
    st.tuples(
        st.just("read"), st.tuples(TIMES, TIMES, st.sampled_from([1, 2, 1_000])).filter(lambda one: one[0] < one[1])
    ),
    # As events of an earlier version are, in days that have no roll-up.
    st.tuples(st.just("forget marks"), st.none()),
)


@examples(8, 400)
@given(steps=st.lists(STEPS, min_size=4, max_size=14))
async def test_random_events_roll_ups_crashes_and_reads_have_the_counts_of_the_model(
    gateway: GatewayClient, steps: list[tuple[str, Any]]
) -> None:
    await empty(gateway.db, COLLECTIONS)
    model: dict[Any, Given] = {}
    for step, value in steps:
        if step == "log":
            await service(gateway).data(LOG, {"input": value})
            for one in value:
                model.setdefault(one["eventId"] or len(model), one)
        elif step == "roll up":
            with crashing(gateway, value), stopping():
                await roll_up(gateway)
        elif step == "read":
            begin, end, limit = value
            found = await page_counts(gateway, begin, end, limit=limit)
            assert found == counted(model.values(), begin, end)[:limit]
        elif await gateway.db["analytics.log_days"].find_one({}) is None:
            await gateway.db["analytics.log_events"].update_many({}, {"$unset": {"uncounted": ""}})
        found = await page_counts(gateway, MIDNIGHT, MIDNIGHT + 4 * DAY, limit=1_000)
        assert found == counted(model.values())
    for _ in range(2):
        await roll_up(gateway)
    assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 4 * DAY, limit=1_000) == counted(model.values())
    assert (await marks(gateway.db), await unused_counts(gateway.db)) == (0, 0)
    await assert_invariants(gateway)


async def test_events_sent_again_after_a_crash_count_once(gateway: GatewayClient) -> None:
    for stop in range(2):
        with crashing(gateway, stop):
            await service(gateway).ask(LOG, {"input": LATE})
        await gateway.run_jobs(JOB)
        await log(gateway, *LATE)
        await assert_settled(gateway, LATE)
