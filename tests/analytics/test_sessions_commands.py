"""The commands of recording, rolling up and reading sessions: their number, their shards and their indexes."""

from __future__ import annotations

import pytest

from portico.schema.roles import Role
from tests.analytics.kit import KIT
from tests.analytics.support.session_cases import recorded, report, roll_up, session
from tests.support.harness import GatewayClient, SettableClock
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed, assert_sends, names, sent

BUDGETS = KIT.budgets


@pytest.fixture
async def busy(gateway: GatewayClient) -> GatewayClient:
    """Many sessions of several users that are rolled up, and some that are pending."""
    for user in ("ann", "bob", "carl"):
        await recorded(gateway, *(session(f"2026-01-{day:02}T{day:02}:00:00Z", user=user) for day in range(1, 24)))
    await roll_up(gateway)
    await recorded(gateway, *(session(user=user) for user in ("ann", "bob")))
    return gateway


async def test_sessions_are_recorded_by_one_insert(busy: GatewayClient) -> None:
    commands = await sent(busy, recorded(busy, *(session() for _ in range(50))))

    assert names(commands) == BUDGETS["record 50 sessions"]


async def test_statistics_are_read_with_two_indexed_commands(busy: GatewayClient) -> None:
    name = "statistics of sessions by day"
    astray = await assert_sends(busy, report(busy, "DAY"), BUDGETS[name], name)

    # An `eventId` is unique over all shards, so the sessions of a user are on all of them.
    assert astray == ["find analytics.sessions pending_since user_id"]


async def test_a_caller_without_the_role_sends_no_command(busy: GatewayClient) -> None:
    query = '{ sessionStats(userId: "ann", granularity: DAY, from: "2026-01-01", to: "2026-02-01") { asOf } }'
    commands = await sent(busy, busy.as_caller("somebody", Role.SERVICE).ask(query))

    assert names(commands) == []


async def test_roll_ups_and_gauges_use_indexes(busy: GatewayClient, clock: SettableClock) -> None:
    gauges = [gauge for gauge in busy.domains.gauges if gauge.name.startswith("portico_roll_up")]
    commands = [command for gauge in gauges for command in await sent(busy, gauge.read(busy.db, clock.now()))]
    commands += await sent(busy, roll_up(busy))

    assert len(gauges) == 2
    # A run looks on all shards for what is pending, and for the sessions of its hours.
    assert sorted(set(unroutable(commands))) == [
        "aggregate analytics.sessions hour length",
        "aggregate analytics.sessions pending_since",
        "find analytics.sessions pending_since",
    ]
    await assert_indexed(busy, commands)
