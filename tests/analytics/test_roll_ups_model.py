"""Random recordings, roll-ups, crashes and reads have the figures of a model that keeps all sessions in a list."""

from __future__ import annotations

from datetime import datetime
from itertools import product
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.analytics.support.session_cases import (
    COLLECTIONS,
    RECORD,
    Model,
    assert_matches,
    at,
    report,
    roll_up,
    shown,
    stats,
)
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.interruptions import crashing, stopping
from tests.support.machines import examples
from tests.support.stored import empty

USERS = st.sampled_from(["ann", "bob", "$x.y"])
# Many fall into the same periods; others are at their edges, or anywhere.
TIMES = st.one_of(
    st.sampled_from(
        [
            "1970-01-01T00:00:00.000Z",
            "1999-12-31T23:59:59.999Z",
            "2000-02-29T12:00:00.000Z",
            "2020-12-31T23:59:59.999Z",
            "2021-01-01T00:00:00.000Z",
            "2021-01-03T23:59:59.999Z",
            "2021-01-04T00:00:00.000Z",
            "2100-02-28T23:59:59.999Z",
            "2100-03-01T00:00:00.000Z",
            "2199-12-31T23:59:59.999Z",
        ]
    ),
    st.datetimes(at("2020-12-28"), at("2021-01-06")).map(shown),
    st.datetimes(at("1970-01-01"), at("2199-12-31")).map(shown),
)
LENGTHS = st.one_of(st.sampled_from([0, 0.1, 1 / 3, 2_678_400]), st.floats(0, 2_678_400, allow_nan=False))
ENTRIES = st.fixed_dictionaries(
    {"userId": USERS, "at": TIMES, "length": LENGTHS}, optional={"eventId": st.sampled_from("abcdefgh")}
)
STEPS = st.one_of(
    st.tuples(st.just("record"), st.lists(ENTRIES, min_size=1, max_size=8)),
    st.tuples(st.just("crash"), st.integers(0, 5)),
    st.tuples(st.just("roll up"), st.none()),
    st.tuples(st.just("read"), USERS),
)

# 10,000 weeks are less than 230 years.
END = {"WEEK": "2161-01-01T00:00:00Z", "MONTH": "2200-01-01T00:00:00Z", "YEAR": "2200-01-01T00:00:00Z"}


async def read(gateway: GatewayClient, model: Model, user: str, told: list[tuple[datetime, str]]) -> None:
    """Asserts that the figures have at least the sessions before `asOf`, and at most all."""
    found = await report(gateway, "YEAR", user=user)
    total = sum(one["sessions"] for one in found["stats"])
    at_least = sum(shown(time) < found["asOf"] for time, of in told if of == user)
    at_most = sum(count for start, (count, _) in model.figures(user, "YEAR").items() if start.year < 2150)
    assert at_least <= total <= at_most


@examples(6, 400)
@given(steps=st.lists(STEPS, min_size=3, max_size=12))
async def test_random_recordings_crashes_and_reads_have_the_figures_of_the_model(
    gateway: GatewayClient, clock: SettableClock, steps: list[tuple[str, Any]]
) -> None:
    await empty(gateway.db, COLLECTIONS)
    model = Model()
    told: list[tuple[datetime, str]] = []
    for step, value in steps:
        clock.advance(seconds=1)
        if step == "record":
            answer = await gateway.data(RECORD, {"input": value})
            assert answer["recordSessions"]["recorded"] == len(value)
            # Sessions after 2149 are not in the years that are read.
            told += [(clock.now(), one["userId"]) for one in model.record(value) if one["at"] < "2150"]
        elif step == "crash":
            with crashing(gateway, value), stopping():
                await roll_up(gateway)
        elif step == "roll up":
            await roll_up(gateway)
        else:
            await read(gateway, model, value, told)
    await roll_up(gateway)
    await assert_matches(gateway, model)
    for user, (level, end) in product(model.users(), END.items()):
        found = await stats(gateway, level, "1970-01-01T00:00:00Z", end, user=user)
        assert found == [
            (f"{start:%Y-%m-%dT%H}", sessions, total / 1e6)
            for start, (sessions, total) in sorted(model.figures(user, level).items())
            if shown(start) < end
        ]
    await assert_invariants(gateway)
