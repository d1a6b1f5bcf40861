"""The demo's traffic: a month of visits, which do not change when the demo starts again."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from portico.gateway.domains.analytics.demo import DAYS, PAGES, SITE, visits_until
from portico.gateway.settings import Settings
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.scalars import format_instant
from tests.analytics.support.hits import points
from tests.analytics.support.log_events import page_counts
from tests.analytics.support.session_cases import STATS, analyst
from tests.support.demo import load_demo
from tests.support.harness import GatewayClient, assert_invariants, with_settings

NOW = datetime(2026, 3, 9, 12, 30)  # noqa: DTZ001 - stored times are naive UTC
LOG = "analytics.log_events"


async def stored(gateway: GatewayClient) -> list[dict[str, Any]]:
    return await gateway.db[LOG].find().sort("_id", 1).to_list()


async def stats(
    gateway: GatewayClient, user: str, granularity: str, begin: datetime, end: datetime
) -> list[dict[str, Any]]:
    """Returns the statistics of a user's sessions."""
    bounds = {"from": format_instant(begin), "to": format_instant(end)}
    given = {"user": user, "granularity": granularity, **bounds}
    found: list[dict[str, Any]] = (await analyst(gateway).data(STATS, given))["sessionStats"]["stats"]
    return found


async def figures(gateway: GatewayClient, begin: datetime, end: datetime) -> tuple[int, int]:
    """Returns the hits of all pages, and the sessions of a user, in a range."""
    hits = [await points(gateway, "HOUR", begin, end, path, SITE) for path in PAGES]
    sessions = await stats(gateway, "mara", "DAY", begin, end)
    return sum(number for one in hits for _, number in one), sum(one["sessions"] for one in sessions)


def test_a_day_has_the_same_visits_whenever_they_are_generated() -> None:
    today, tomorrow = visits_until(NOW), visits_until(NOW + timedelta(days=1))

    ids = {visit.id for visit in today}
    assert len(ids) == len(today) > 200
    assert [visit for visit in tomorrow if visit.id in ids] == [
        visit for visit in today if visit in tomorrow or visit.views[0].time >= NOW - timedelta(days=DAYS - 1)
    ]
    assert all(visit.views[-1].time <= NOW for visit in today)
    assert min(visit.views[0].time for visit in today) >= NOW - timedelta(days=DAYS + 1)


@pytest.fixture
async def printed(gateway: GatewayClient, settings: Settings) -> str:  # noqa: ARG001 - it creates the indexes
    """Loads the demo's traffic. Returns what that has printed."""
    return await load_demo(replace(settings, domains="analytics"))


async def test_the_demo_has_a_month_of_traffic(gateway: GatewayClient, printed: str) -> None:
    events = await stored(gateway)

    assert f"logs: {len(events):,} created" in printed
    assert len(events) > 500
    times = [event["time"] for event in events]
    assert max(times) - min(times) > timedelta(days=DAYS - 2)
    found = await page_counts(gateway, min(times), max(times) + timedelta(days=1), limit=1_000)
    assert sum(one["hits"] for one in found) == len(events)
    assert {"/jazz", "/blog"} < {one["path"] for one in found}
    for path in ("/jazz", "/blog"):
        days = await points(gateway, "DAY", min(times), max(times) + timedelta(days=1), path, SITE)
        counted = {one["day"]: one["hits"] for one in found if one["path"] == path}
        assert {day: hits for day, hits in days if hits} == counted
    assert f"hits: {len(events):,} of 8 pages" in printed
    years = await stats(gateway, "mara", "YEAR", min(times) - timedelta(days=1), max(times) + timedelta(days=1))
    assert sum(one["sessions"] for one in years) > 20
    await assert_invariants(gateway)


@pytest.mark.usefixtures("printed")
async def test_starting_the_demo_again_adds_only_what_is_new(gateway: GatewayClient, settings: Settings) -> None:
    before = await stored(gateway)
    times = [event["time"] for event in before]
    # A visit may end in the meantime, so the last hours are left out.
    bounds = (min(times), max(times) - timedelta(hours=1))
    counted = await figures(gateway, *bounds)

    again = await load_demo(replace(settings, domains="analytics"))

    after = await stored(gateway)
    assert f"{len(before):,} unchanged" in again
    assert [event for event in after if event in before] == before
    assert len(after) - len(before) < 10
    assert await figures(gateway, *bounds) == counted
    await assert_invariants(gateway)


async def test_the_demo_respects_how_long_log_events_are_kept(settings: Settings) -> None:
    chosen = with_settings(replace(settings, domains="analytics"), AnalyticsSettings, log_days=3.0)

    printed = await load_demo(chosen)

    assert "created" in printed
    assert "failed" not in printed
