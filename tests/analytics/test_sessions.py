"""Recording sessions, and reading their statistics by hour, day, ISO week, month and year."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.analytics.analysts import ANALYST
from portico.schema.roles import Role
from tests.analytics.support.session_cases import (
    LEVELS,
    RECORD,
    STATS,
    analyst,
    pending,
    record,
    recorded,
    report,
    roll_up,
    session,
    stats,
)
from tests.support.harness import GatewayClient, assert_invariants


async def test_a_session_is_in_the_figures_of_each_of_its_periods(gateway: GatewayClient) -> None:
    assert await recorded(gateway, session("2026-01-31T10:30:00Z", 90.5), session("2026-01-31T11:00:00Z", 9.5)) == 2

    assert await roll_up(gateway) == 2

    assert await stats(gateway, "HOUR") == [("2026-01-31T10", 1, 90.5), ("2026-01-31T11", 1, 9.5)]
    assert await stats(gateway, "DAY") == [("2026-01-31T00", 2, 100)]
    assert await stats(gateway, "WEEK") == [("2026-01-26T00", 2, 100)]
    assert await stats(gateway, "MONTH") == [("2026-01-01T00", 2, 100)]
    assert await stats(gateway, "YEAR") == [("2026-01-01T00", 2, 100)]
    await assert_invariants(gateway)
    assert await roll_up(gateway) == 0


PERIODS = {
    # The time of a session, and the starts of its day, week, month and year.
    "the first instant": ("1970-01-01T00:00:00.000Z", "1970-01-01", "1969-12-29", "1970-01-01", "1970-01-01"),
    "a leap day": ("2024-02-29T23:59:59.999Z", "2024-02-29", "2024-02-26", "2024-02-01", "2024-01-01"),
    "after February without a leap day": (
        "2100-03-01T00:00:00.000Z",
        "2100-03-01",
        "2100-03-01",
        "2100-03-01",
        "2100-01-01",
    ),
    "the last day of a year in week 53": (
        "2020-12-31T12:00:00.000Z",
        "2020-12-31",
        "2020-12-28",
        "2020-12-01",
        "2020-01-01",
    ),
    "New Year in week 53 of the year before": (
        "2021-01-01T00:00:00.000Z",
        "2021-01-01",
        "2020-12-28",
        "2021-01-01",
        "2021-01-01",
    ),
    "the last day of a year in week 1 of the next": (
        "2024-12-31T12:00:00.000Z",
        "2024-12-31",
        "2024-12-30",
        "2024-12-01",
        "2024-01-01",
    ),
    "the last instant of 2100": ("2100-12-31T23:59:59.999Z", "2100-12-31", "2100-12-27", "2100-12-01", "2100-01-01"),
    "the last instant of all": ("2199-12-31T23:59:59.999Z", "2199-12-31", "2199-12-30", "2199-12-01", "2199-01-01"),
}


@pytest.mark.parametrize("name", PERIODS)
async def test_a_session_belongs_to_the_periods_of_its_time_in_utc(gateway: GatewayClient, name: str) -> None:
    time, *starts = PERIODS[name]
    await recorded(gateway, session(time))
    await roll_up(gateway)

    for level, start in zip(LEVELS, (time[:13], *starts), strict=True):
        day = time[:10]
        found = await stats(gateway, level, f"{day}T00:00:00Z", f"{day}T23:59:59.999Z")
        assert found == [(start if level == "HOUR" else f"{start}T00", 1, 60)], level
    await assert_invariants(gateway)


async def test_a_time_with_another_offset_belongs_to_the_periods_in_utc(gateway: GatewayClient) -> None:
    await recorded(gateway, session("2026-01-01T00:30:00+01:00"))
    await roll_up(gateway)

    assert await stats(gateway, "YEAR") == [("2025-01-01T00", 1, 60)]


async def test_a_range_includes_its_first_period_whole_and_ends_before_its_end(gateway: GatewayClient) -> None:
    await recorded(gateway, *(session(f"2026-03-0{day}T12:00:00Z", day) for day in (1, 2, 3)))
    await roll_up(gateway)

    days = await stats(gateway, "DAY", "2026-03-02T18:00:00Z", "2026-03-03T00:00:00Z")
    assert days == [("2026-03-02T00", 1, 2)]
    days = await stats(gateway, "DAY", "2026-03-02T18:00:00Z", "2026-03-03T00:00:00.001Z")
    assert days == [("2026-03-02T00", 1, 2), ("2026-03-03T00", 1, 3)]


REFUSED: dict[str, dict[str, Any]] = {
    "MINUTE": {"granularity": "MINUTE"},
    "an empty range": {"to": "2026-01-01T00:00:00Z"},
    "a range that ends before it begins": {"to": "2025-01-01T00:00:00Z"},
    "more than 10,000 hours": {"granularity": "HOUR", "to": "2027-02-21T16:00:00.001Z"},
    "a time before 1970": {"from": "1969-12-31T00:00:00Z"},
    "a time after 2199": {"to": "2200-01-01T00:00:00.001Z", "granularity": "YEAR"},
    "an empty user": {"user": ""},
    "a user that is too long": {"user": "x" * 256},
    "a user with a NUL": {"user": "a\0b"},
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_read_that_is_not_valid_is_refused(gateway: GatewayClient, name: str) -> None:
    valid = {"user": "ann", "granularity": "DAY", "from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}

    answer = await analyst(gateway).ask(STATS, {**valid, **REFUSED[name]})

    assert answer.codes == ["BAD_USER_INPUT"]


async def test_a_read_of_10_000_periods_is_answered(gateway: GatewayClient) -> None:
    await recorded(gateway, session("2026-01-01T00:30:00Z"), session("2027-02-21T15:30:00Z"))
    await roll_up(gateway)

    found = await stats(gateway, "HOUR", "2026-01-01T00:00:00Z", "2027-02-21T16:00:00Z")

    assert found == [("2026-01-01T00", 1, 60), ("2027-02-21T15", 1, 60)]
    assert await stats(gateway, "YEAR", "1970-01-01T00:00:00Z", "2200-01-01T00:00:00Z") != []


async def test_an_unknown_user_has_no_periods(gateway: GatewayClient) -> None:
    found = await report(gateway, "YEAR", user="nobody")

    assert found["stats"] == []


@pytest.mark.parametrize(
    ("roles", "may_record", "may_read"),
    [((Role.SERVICE,), True, False), ((ANALYST,), False, True), ((Role.ADMIN,), True, True), ((), False, False)],
)
async def test_only_services_record_and_only_analysts_read(
    gateway: GatewayClient, roles: tuple[Role, ...], *, may_record: bool, may_read: bool
) -> None:
    caller = gateway.as_caller("somebody", *roles)
    read = {"user": "ann", "granularity": "DAY", "from": "2026-01-01T00:00:00Z", "to": "2026-02-01T00:00:00Z"}

    assert (await caller.ask(RECORD, {"input": [session()]})).codes == ([] if may_record else ["FORBIDDEN"])
    assert (await caller.ask(STATS, read)).codes == ([] if may_read else ["FORBIDDEN"])
    # The roles are checked before anything else.
    assert may_read or (await caller.ask(STATS, {**read, "granularity": "MINUTE"})).codes == ["FORBIDDEN"]


INVALID: dict[str, tuple[dict[str, Any], str]] = {
    "an empty user": ({"userId": ""}, "userId"),
    "a user that is too long": ({"userId": "x" * 256}, "userId"),
    "a user with a NUL": ({"userId": "a\0b"}, "userId"),
    "a time before 1970": ({"at": "1969-12-31T23:59:59.999Z"}, "at"),
    "a time after 2199": ({"at": "2200-01-01T00:00:00Z"}, "at"),
    "a negative length": ({"length": -0.001}, "length"),
    "more than 31 days": ({"length": 2_678_400.001}, "length"),
    "an empty event id": ({"eventId": ""}, "eventId"),
    "an event id that is too long": ({"eventId": "x" * 256}, "eventId"),
}


async def test_invalid_sessions_are_named_by_position_and_the_others_recorded(gateway: GatewayClient) -> None:
    wrong = [{**session(), **fields} for fields, _ in INVALID.values()]

    answer = await record(gateway, session(), *wrong, session())

    assert answer["recorded"] == 2
    paths = [[str(position), path] for position, (_, path) in enumerate(INVALID.values(), 1)]
    assert [one["path"] for one in answer["invalid"]] == paths
    assert await roll_up(gateway) == 2
    assert await stats(gateway, "DAY") == [("2026-01-31T00", 2, 120)]


@pytest.mark.parametrize("name", INVALID)
async def test_a_call_without_a_valid_session_is_refused_with_its_first_error(
    gateway: GatewayClient, name: str
) -> None:
    fields, path = INVALID[name]

    answer = await record(gateway, {**session(), **fields}, {**session(), "length": -1})

    assert (answer["__typename"], answer["path"]) == ("InvalidInput", ["0", path])
    assert await gateway.db["analytics.sessions"].count_documents({}) == 0


async def test_a_call_can_have_a_thousand_sessions_and_no_more(gateway: GatewayClient) -> None:
    answer = await record(gateway, *(session() for _ in range(1_001)))
    assert answer["__typename"] == "InvalidInput"
    assert await gateway.db["analytics.sessions"].count_documents({}) == 0

    assert await recorded(gateway, *(session() for _ in range(1_000))) == 1_000
    assert await roll_up(gateway) == 1_000
    assert await recorded(gateway) == 0


async def test_the_longest_and_the_shortest_session_and_any_user_are_recorded(gateway: GatewayClient) -> None:
    users = ["x" * 255, " ", "$a.b", "🎧\n\u200f", "ann\ufffe"]
    await recorded(gateway, *(session(user=user, length=length) for user in users for length in (0, 2_678_400)))
    await roll_up(gateway)

    for user in users:
        assert await stats(gateway, "MONTH", user=user) == [("2026-01-01T00", 2, 2_678_400)]
    await assert_invariants(gateway)


async def test_a_session_that_is_sent_again_counts_once(gateway: GatewayClient) -> None:
    one, other = session(length=1), session(length=2)
    changed = {**one, "userId": "bob", "at": "2020-01-01T00:00:00Z", "length": 7}

    # Twice in a call, in a later call, of another caller, and after it was rolled up.
    assert await recorded(gateway, one, changed, other) == 3
    assert await recorded(gateway, changed) == 1
    assert await recorded(gateway.as_caller("other", Role.SERVICE), one, other) == 2
    await roll_up(gateway)
    assert await recorded(gateway, changed) == 1
    assert await pending(gateway.db) == 0
    await roll_up(gateway)

    assert await stats(gateway, "DAY") == [("2026-01-31T00", 2, 3)]
    assert await stats(gateway, "DAY", user="bob") == []


async def test_a_session_without_an_event_id_counts_each_time(gateway: GatewayClient) -> None:
    given = session(eventId=None)
    await recorded(gateway, given, given)
    await recorded(gateway, given)
    await roll_up(gateway)

    assert await stats(gateway, "DAY") == [("2026-01-31T00", 3, 180)]


async def test_sums_are_exact_in_any_order(gateway: GatewayClient) -> None:
    lengths = [0.1, 0.2, 0.3, 1e6, 0.000001, 0.0000004, 2_678_399.999999, 1 / 3]
    for user, ordered in (("ann", lengths), ("bob", lengths[::-1])):
        for length in ordered:
            await recorded(gateway, session(user=user, length=length))
            await roll_up(gateway)

    found = [await stats(gateway, "YEAR", user=user) for user in ("ann", "bob")]

    assert found == [[("2026-01-01T00", 8, 3_678_400.933333)]] * 2


async def test_a_session_that_arrives_a_year_late_changes_exactly_its_periods(gateway: GatewayClient) -> None:
    times = [f"{year}-0{month}-1{day}T0{hour}:10:00Z" for year in (2025, 2026) for month in (1, 2) for day in (0, 1)
             for hour in (7, 8)]  # fmt: skip
    await recorded(gateway, *(session(time, user=user) for time in times for user in ("ann", "bob")))
    await roll_up(gateway)
    rolled_up = gateway.db["analytics.session_roll_ups"]
    before = {one["_id"]: one async for one in rolled_up.find({})}
    gateway.clock.advance(days=365)

    await recorded(gateway, session("2025-02-11T08:59:00Z", 5))
    await roll_up(gateway)

    after = {one["_id"]: one async for one in rolled_up.find({})}
    changed = [after[key] for key in after if after[key] != before.get(key)]
    assert {(one["user_id"], one["level"], f"{one['start']:%Y-%m-%dT%H}") for one in changed} == {
        ("ann", "HOUR", "2025-02-11T08"),
        ("ann", "DAY", "2025-02-11T00"),
        ("ann", "WEEK", "2025-02-10T00"),
        ("ann", "MONTH", "2025-02-01T00"),
        ("ann", "YEAR", "2025-01-01T00"),
    }
    assert [one["total"] - before[one["_id"]]["total"] for one in changed] == [5_000_000] * 5
    await assert_invariants(gateway)


async def test_sessions_are_pending_until_they_are_rolled_up_and_gauges_show_them(gateway: GatewayClient) -> None:
    async def gauges() -> dict[str, float]:
        return {gauge.name: await gauge.read(gateway.db, gateway.clock.now()) for gauge in gateway.domains.gauges
                if gauge.name.startswith("portico_roll_up")}  # fmt: skip

    await recorded(gateway, session(), session(user="bob"))
    gateway.clock.advance(seconds=90)
    found = await gauges()
    assert found["portico_roll_up_pending_sessions"] == 2
    assert 90 <= found["portico_roll_up_lag_seconds"] < 120

    await roll_up(gateway)
    assert set((await gauges()).values()) == {0}
