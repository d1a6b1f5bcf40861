"""Requests by page and day, counted from the log."""

from __future__ import annotations

import random
from datetime import datetime, timedelta
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.analytics.log_events import LOG_EVENTS
from portico.resolvers.analytics.settings import AnalyticsSettings
from portico.schema.scalars import format_instant
from tests.analytics.support.log_events import COUNTS, NOON, Given, analyst, event, log, page_counts
from tests.analytics.support.page_roll_ups import DAY, counted
from tests.support.harness import IS_SOAK, GatewayClient, running, with_settings

MIDNIGHT = NOON.replace(hour=0)


async def test_pages_are_counted_by_day_with_distinct_visitors(gateway: GatewayClient) -> None:
    await log(
        gateway,
        event("/a", 0),
        event("/a", 1),
        event("/a", 2, host="::1"),
        event("/a", 3, host="::1", user="robin"),
        event("/a", 4, host="::2", user="robin"),
        event("/b", 5),
        event("/a", DAY.total_seconds()),
    )

    assert await page_counts(gateway, MIDNIGHT, MIDNIGHT + 2 * DAY) == [
        {"path": "/a", "day": "2026-03-09T00:00:00.000Z", "hits": 5, "visitors": 3},
        {"path": "/a", "day": "2026-03-10T00:00:00.000Z", "hits": 1, "visitors": 1},
        {"path": "/b", "day": "2026-03-09T00:00:00.000Z", "hits": 1, "visitors": 1},
    ]


async def test_a_user_with_the_name_of_a_host_is_another_visitor(gateway: GatewayClient) -> None:
    await log(gateway, event(host="::1"), event(host="::2", user="::1"))

    assert [one["visitors"] for one in await page_counts(gateway)] == [2]


async def test_only_requests_in_the_range_count(gateway: GatewayClient) -> None:
    await log(gateway, *(event("/a", seconds) for seconds in (-0.001, 0, 59.999, 60)))

    assert [one["hits"] for one in await page_counts(gateway, NOON, NOON + timedelta(minutes=1))] == [2]
    assert await page_counts(gateway, NOON + DAY, NOON + 2 * DAY) == []


async def test_random_requests_are_counted_as_a_counter_counts_them(gateway: GatewayClient) -> None:
    random_ = random.Random(15)
    pages = ["/", "a.b", "$x", "/" + "long/" * 1_000, "/é", "/A", "/a"]
    begins = [datetime(year, 2, 28) for year in (1970, 2000, 2024, 2100)]  # noqa: DTZ001 - naive UTC
    for begin in begins:
        events = []
        for _ in range(400):
            fields: Any = {"host": f"::{random_.randrange(4)}", "user": random_.choice([None, None, "robin", "::1"])}
            time = format_instant(begin + timedelta(milliseconds=random_.randrange(3 * 86_400_000)))
            events.append(event(random_.choice(pages), time=time, **fields))
        await log(gateway, *events)

        found = await page_counts(gateway, begin, begin + 3 * DAY, limit=1_000)

        assert found == counted(events)
        assert await page_counts(gateway, begin, begin + 3 * DAY, limit=3) == found[:3]


async def test_a_page_count_reads_one_key_of_an_index_for_each_event(gateway: GatewayClient) -> None:
    await log(gateway, *(event(f"/{number % 7}", number) for number in range(200)))
    gateway.commands.clear()
    await page_counts(gateway, NOON, NOON + timedelta(seconds=50))

    (command,) = [one for one in gateway.commands.sent if "aggregate" in one]
    given = {name: command[name] for name in ("aggregate", "pipeline", "hint", "cursor")}
    explained: Any = await gateway.db.command("explain", given, verbosity="executionStats")
    stats = explained.get("executionStats") or explained["stages"][0]["$cursor"]["executionStats"]
    assert (stats["totalDocsExamined"], stats["totalKeysExamined"] <= 51) == (0, True)


async def test_a_range_with_too_many_events_is_refused(settings: Settings) -> None:
    async with running(with_settings(settings, AnalyticsSettings, max_page_count_events=10)) as gateway:
        await log(gateway, *(event("/a", number) for number in range(11)))

        assert [one["hits"] for one in await page_counts(gateway, NOON, NOON + timedelta(seconds=10))] == [10]
        answer = await analyst(gateway).ask(COUNTS, bounds(NOON, NOON + timedelta(seconds=11)))

    assert (answer.codes, answer.body["errors"][0]["message"]) == (
        ["BAD_USER_INPUT"],
        "The range has more than 10 log events that are not rolled up. Choose a shorter one.",
    )


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"limit": 0}, "`limit` must be between 1 and 1,000; got 0."),
        ({"limit": 1001}, "`limit` must be between 1 and 1,000; got 1001."),
        ({"to": "2026-03-09T11:59:59.000Z"}, "`to` must be later than `from`."),
        ({"to": "2200-01-01T00:00:00.001Z"}, "The time must be in the years 1970 to 2199."),
        ({"from": "1969-12-31T23:59:59.000Z"}, "The time must be in the years 1970 to 2199."),
    ],
)
async def test_invalid_arguments_are_refused(gateway: GatewayClient, variables: Given, message: str) -> None:
    answer = await analyst(gateway).ask(COUNTS, {**bounds(NOON, NOON + DAY), **variables})

    assert (answer.codes, answer.body["errors"][0]["message"]) == (["BAD_USER_INPUT"], message)


async def test_many_events_of_one_page_in_one_day_are_counted_exactly(gateway: GatewayClient) -> None:
    count, hosts = (1_000_000, 300_000) if IS_SOAK else (10_000, 3_000)
    for start in range(0, count, 10_000):
        await gateway.db[LOG_EVENTS.name].insert_many(
            [
                {"time": MIDNIGHT + timedelta(milliseconds=80 * number), "path": "/", "visitor": f"h:{number % hosts}"}
                for number in range(start, start + 10_000)
            ]
        )

    (found,) = await page_counts(gateway, MIDNIGHT, MIDNIGHT + DAY)

    assert (found["hits"], found["visitors"]) == (count, hosts)


async def test_only_analysts_count_pages(gateway: GatewayClient) -> None:
    assert (await gateway.ask(COUNTS, bounds(NOON, NOON + DAY))).codes == ["FORBIDDEN"]


def bounds(begin: datetime, end: datetime) -> Given:
    return {"from": format_instant(begin), "to": format_instant(end)}
