"""Recordings and roll-ups that crash before any command: afterwards the roll-ups are the same bytes."""

from __future__ import annotations

import itertools
import random

import pytest

from portico.testing.snapshots import Snapshot
from tests.analytics.support.session_cases import (
    COLLECTIONS,
    RECORD,
    Model,
    assert_matches,
    pending,
    recorded,
    roll_up,
    session,
    stats,
    stored_roll_ups,
)
from tests.support.harness import IS_SOAK, GatewayClient, assert_invariants, stops
from tests.support.interruptions import crashing, stopping
from tests.support.stored import empty

# Of two users, in several hours, some before and after New Year in week 53, and one on a leap day.
TIMES = ("2020-12-31T23:00:00Z", "2021-01-01T00:00:00Z", "2021-01-01T00:30:00Z", "2024-02-29T10:00:00Z")
SESSIONS = [session(time, 0.1 * number, user) for number, time in enumerate(TIMES, 1) for user in ("ann", "bob")]


@pytest.fixture
async def whole(gateway: GatewayClient) -> list[bytes]:
    """The roll-ups of all sessions, recorded at once and rolled up without a crash."""
    await recorded(gateway, *SESSIONS)
    await roll_up(gateway)
    model = Model()
    model.record(SESSIONS)
    await assert_matches(gateway, model)
    found = await stored_roll_ups(gateway.db)
    await empty(gateway.db, COLLECTIONS)
    return found


async def test_a_recording_that_crashes_anywhere_and_is_repeated_counts_once(
    gateway: GatewayClient, whole: list[bytes]
) -> None:
    for stop in stops():
        await empty(gateway.db, COLLECTIONS)
        with crashing(gateway, stop) as faulty:
            answer = await gateway.ask(RECORD, {"input": SESSIONS})
        if not faulty.has_crashed:
            break
        assert answer.codes == ["INTERNAL"]
        await roll_up(gateway)
        assert await recorded(gateway, *SESSIONS) == len(SESSIONS)
        await roll_up(gateway)
        assert await stored_roll_ups(gateway.db) == whole
    assert stop == 1


async def test_a_recording_whose_answer_is_lost_is_in_the_figures(gateway: GatewayClient, whole: list[bytes]) -> None:
    # The caller never learns that this has succeeded, and sends half of it again.
    await gateway.ask(RECORD, {"input": SESSIONS})
    await roll_up(gateway)
    await recorded(gateway, *SESSIONS[:4])
    await roll_up(gateway)

    assert await stored_roll_ups(gateway.db) == whole


async def test_a_run_that_crashes_anywhere_twice_is_finished_by_the_next(
    gateway: GatewayClient, whole: list[bytes]
) -> None:
    await recorded(gateway, *SESSIONS[3:])
    await roll_up(gateway)
    await recorded(gateway, *SESSIONS[:3])
    snapshot = Snapshot(gateway.db, COLLECTIONS)
    await snapshot.take()
    crashes = 0
    every_pair = list(itertools.product(range(6), repeat=2))
    pairs = every_pair if IS_SOAK else [(first, random.randrange(6)) for first in range(6)]
    for first, second in pairs:
        await snapshot.restore()
        for stop in (first, second):
            with crashing(gateway, stop) as faulty, stopping():
                await roll_up(gateway)
            crashes += faulty.has_crashed
        # The marks are removed last, and together.
        assert await pending(gateway.db) == 3 or await stored_roll_ups(gateway.db) == whole

        await roll_up(gateway)

        assert await stored_roll_ups(gateway.db) == whole
        assert await pending(gateway.db) == 0
        await assert_invariants(gateway)
    assert crashes >= len(pairs) * 5 / 6


@pytest.mark.sample(3)
@pytest.mark.parametrize("seed", range(6))
async def test_any_order_with_repetitions_and_crashes_gives_the_same_bytes(
    gateway: GatewayClient, whole: list[bytes], seed: int
) -> None:
    rng = random.Random(seed)
    sent = [*SESSIONS, *SESSIONS]
    rng.shuffle(sent)
    while sent:
        size = rng.randint(1, 5)
        batch, sent = sent[:size], sent[size:]
        with crashing(gateway, rng.choice([None, None, 0])):
            answer = await gateway.ask(RECORD, {"input": batch})
        if "errors" in answer.body:
            sent += batch
        with crashing(gateway, rng.choice([None, *range(6)])), stopping():
            await roll_up(gateway)

    await roll_up(gateway)

    assert await stored_roll_ups(gateway.db) == whole
    assert await stats(gateway, "YEAR") == [
        ("2020-01-01T00", 1, 0.1),
        ("2021-01-01T00", 2, 0.5),
        ("2024-01-01T00", 1, 0.4),
    ]
    await assert_invariants(gateway)
