"""Roll-ups while others read, record and roll up: until when they are complete, and which value stays."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from typing import Any

import pytest

from portico.testing.repeated_writes import RepeatedWrites
from portico.testing.stages import Stage
from tests.analytics.support.session_cases import (
    COLLECTIONS,
    LEVELS,
    Given,
    Model,
    assert_matches,
    later,
    pending,
    recorded,
    report,
    roll_up,
    session,
    shown,
    stats,
    stored_roll_ups,
)
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, stops
from tests.support.interruptions import crashing, database_of, delayed, interrupted, stopping
from tests.support.moments import meanwhile

# The commands of a run for a batch of sessions that nobody else rolls up.
COMMANDS = [
    "find analytics.sessions",
    "find analytics.session_roll_ups",
    "aggregate analytics.sessions",
    "update analytics.session_roll_ups",
    *["aggregate analytics.session_roll_ups", "update analytics.session_roll_ups"] * 3,
    "update analytics.sessions",
]


class Scene(Stage):
    """Sessions that are rolled up, and later ones that are pending, of two users, in both of two hours."""

    collections = COLLECTIONS

    async def build(self) -> None:
        self.first = [session(f"2026-01-31T1{number % 2}:05:00Z", number + 1) for number in range(6)]
        self.late = [session(f"2026-01-31T1{number % 2}:45:00Z", 7, user) for number, user in enumerate(("ann", "bob"))]
        await recorded(self.gateway, *self.first)
        await roll_up(self.gateway)
        self.clock.advance(hours=1)
        await recorded(self.gateway, *self.late)

    async def model(self) -> Model:
        """Returns a model of what is recorded after the data is restored."""
        await self.restore()
        model = Model()
        model.record([*self.first, *self.late])
        return model


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


async def test_without_pending_sessions_the_figures_are_as_of_now(gateway: GatewayClient, clock: SettableClock) -> None:
    await recorded(gateway, session())
    await roll_up(gateway)
    clock.advance(hours=1)

    before, found, after = clock.now(), await report(gateway), clock.now()

    assert shown(before) <= found["asOf"] <= shown(after)


async def test_pending_sessions_of_the_user_hold_the_time_back_and_those_of_others_do_not(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await recorded(gateway, session(user="bob"))
    clock.advance(hours=1)
    before = clock.now()
    await recorded(gateway, session())
    after = clock.now()
    clock.advance(hours=1)
    await recorded(gateway, session())
    clock.advance(hours=1)

    found = [(await report(gateway, level))["asOf"] for level in LEVELS[1:]]

    assert all(shown(before) <= one <= shown(after) for one in found)
    now = clock.now()
    assert (await report(gateway, user="carl"))["asOf"] >= shown(now)
    await roll_up(gateway)
    assert (await report(gateway))["asOf"] > later(after, hours=1)
    assert len((await report(gateway))["stats"]) == 1


async def assert_complete(gateway: GatewayClient, acknowledged: list[datetime]) -> None:
    """Asserts that the figures of ann have every session that was acknowledged before `asOf`."""
    for level in ("DAY", "YEAR"):
        found = await report(gateway, level)
        total = sum(one["sessions"] for one in found["stats"])
        assert total >= sum(shown(time) < found["asOf"] for time in acknowledged), (level, found)


async def test_every_session_that_was_acknowledged_before_the_time_is_in_the_figures_between_any_two_commands(
    scene: Scene, other: GatewayClient
) -> None:
    for stop in stops():
        await scene.restore()
        acknowledged = [scene.clock.now()] * 7

        async def read(acknowledged: list[datetime] = acknowledged) -> None:
            for _ in range(2):
                await assert_complete(other, acknowledged)
                scene.clock.advance(seconds=1)
                await recorded(other, session(length=3))
                acknowledged.append(scene.clock.now())
                scene.clock.advance(seconds=1)

        with meanwhile(scene.gateway, read, skip=stop) as outcome:
            await roll_up(scene.gateway)
        await assert_complete(other, acknowledged)
        if not outcome:
            break
    assert stop == len(COMMANDS)


async def test_a_read_during_which_sessions_are_rolled_up_promises_no_more_than_it_has(
    scene: Scene, other: GatewayClient
) -> None:
    for stop in stops():
        await scene.restore()
        acknowledged = [scene.clock.now()] * 7

        async def overtake(acknowledged: list[datetime] = acknowledged) -> None:
            await recorded(other, session(length=3))
            acknowledged.append(scene.clock.now())
            await roll_up(other)
            scene.clock.advance(seconds=1)

        with meanwhile(scene.gateway, overtake, skip=stop) as outcome:
            found = await report(scene.gateway)
        total = sum(one["sessions"] for one in found["stats"])
        assert total >= sum(shown(time) < found["asOf"] for time in acknowledged), stop
        if not outcome:
            break
    assert stop == 2


@pytest.mark.sample(2)
@pytest.mark.parametrize("records", [True, False], ids=["with another session", "with the same sessions"])
async def test_a_run_that_is_suspended_anywhere_and_resumes_late_replaces_nothing_newer(
    scene: Scene, other: GatewayClient, *, records: bool
) -> None:
    for stop in stops():
        model = await scene.model()

        async def overtake(model: Model = model) -> None:
            # Twice, so that the other stores a second revision, too.
            for number in range(2 * records):
                late = [session(f"2026-01-31T11:5{number}:00Z", 9), session("2025-01-31T11:50:00Z", 9, "bob")]
                await recorded(other, *late)
                model.record(late)
                await roll_up(other)
            await roll_up(other)
            assert await pending(other.db) == 0

        with meanwhile(scene.gateway, overtake, skip=stop) as outcome:
            await roll_up(scene.gateway)
        if not outcome:
            break
        await assert_matches(scene.gateway, model)
        await assert_invariants(scene.gateway)
    assert stop == len(COMMANDS)


@pytest.mark.parametrize("step", range(4), ids=["hours", "days", "weeks and months", "years"])
async def test_a_run_that_is_overtaken_by_an_older_sum_sums_again(
    gateway: GatewayClient, other: GatewayClient, step: int
) -> None:
    has_summed, may_store = asyncio.Event(), asyncio.Event()

    async def suspend() -> None:
        has_summed.set()
        await may_store.wait()

    async def resume() -> None:
        may_store.set()
        await slow

    model = Model()
    model.record([session(length=1), session(length=2)])
    first, second = model.sessions
    await recorded(gateway, first)
    name = "analytics.session_roll_ups"
    suspended = interrupted(other.db, name, "bulk_write", suspend, skip=step)
    overtaken = interrupted(gateway.db, name, "bulk_write", resume, skip=step)

    with database_of(other, suspended), database_of(gateway, overtaken):
        slow = asyncio.create_task(roll_up(other))
        await has_summed.wait()
        await recorded(gateway, second)
        # Before this stores what has both sessions, the other stores what has only the first.
        await roll_up(gateway)

    assert slow.done()
    assert await pending(gateway.db) == 0
    await assert_matches(gateway, model)


@pytest.mark.parametrize("step", range(4), ids=["hours", "days", "weeks and months", "years"])
async def test_a_run_does_not_rely_on_roll_ups_that_a_change_of_the_primary_undoes(scene: Scene, step: int) -> None:
    model = await scene.model()
    rolled_up = scene.gateway.db["analytics.session_roll_ups"]
    levels = {"level": {"$in": LEVELS[step:] if step < 3 else ["YEAR"]}}
    before = await rolled_up.find(levels).to_list()
    # A run has stored this step, and crashes.
    with crashing(scene.gateway, step + 1), stopping():
        await roll_up(scene.gateway)

    async def undo() -> None:
        await rolled_up.delete_many(levels)
        await rolled_up.insert_many(before)

    # The next run has read what the first has stored, when it is undone.
    undone = interrupted(scene.gateway.db, rolled_up.name, "bulk_write", undo, skip=step)
    with database_of(scene.gateway, undone):
        await roll_up(scene.gateway)

    assert await pending(scene.gateway.db) == 0
    await assert_matches(scene.gateway, model)


@pytest.mark.sample(2)
@pytest.mark.parametrize("seed", range(4))
async def test_runs_at_the_same_time_as_each_other_and_as_recordings_leave_the_right_figures(
    gateway: GatewayClient, other: GatewayClient, seed: int
) -> None:
    rng = random.Random(seed)
    model = Model()
    batches = [
        [session(f"2026-0{rng.randint(1, 3)}-01T0{rng.randint(0, 2)}:00:00Z", rng.random(), user) for user in "abc"]
        for _ in range(20)
    ]
    for batch in batches:
        model.record(batch)

    async def record_all(through: GatewayClient, some: list[list[Given]]) -> None:
        for batch in some:
            await recorded(through, *batch)

    async def roll_up_often(through: GatewayClient) -> None:
        for _ in range(6):
            await roll_up(through)

    one, two = delayed(gateway.db, rng, 0.01), delayed(other.db, rng, 0.01)
    with database_of(gateway, one), database_of(other, two):
        async with asyncio.TaskGroup() as group:
            for through, some in ((gateway, batches[:12]), (other, batches[8:])):
                group.create_task(record_all(through, some))
                group.create_task(roll_up_often(through))

    await roll_up(gateway)
    await assert_matches(gateway, model)
    await assert_invariants(gateway)


async def test_a_run_whose_writes_are_sent_twice_leaves_the_right_figures(scene: Scene) -> None:
    model = await scene.model()

    with database_of(scene.gateway, RepeatedWrites.of(scene.gateway.db)):
        await roll_up(scene.gateway)

    assert await pending(scene.gateway.db) == 0
    await assert_matches(scene.gateway, model)


async def test_a_run_sends_as_many_commands_for_a_thousand_periods_as_for_one(gateway: GatewayClient) -> None:
    one = [session()]
    many = [session(f"20{year}-0{month}-1{day}T10:00:00Z", user=f"user {year} {month}")
            for year in range(10, 30) for month in range(1, 6) for day in range(10)]  # fmt: skip
    model = Model()
    for sessions in (one, many):
        await recorded(gateway, *sessions)
        model.record(sessions)
        gateway.commands.clear()
        assert await roll_up(gateway) == len(sessions)
        # MongoDB ends a cursor that has returned its last batch only when it is asked again.
        sent = [name for name in gateway.commands.names() if not name.startswith("getMore")]
        assert sent == COMMANDS

    assert len(await stored_roll_ups(gateway.db)) > 2_400
    await assert_matches(gateway, model)
    await assert_invariants(gateway)


async def test_a_run_takes_batches_of_a_thousand_sessions(gateway: GatewayClient) -> None:
    for _ in range(3):
        await recorded(gateway, *(session(length=1, user=f"user {number % 7}") for number in range(700)))
    gateway.commands.clear()

    assert await roll_up(gateway) == 2_100

    names: list[Any] = gateway.commands.names()
    assert names.count("update analytics.sessions") == 3
    assert len(names) <= 3 * len(COMMANDS)
    assert await stats(gateway, "YEAR", user="user 3") == [("2026-01-01T00", 300, 300)]
