"""The commands of log events and hits: their number, their shards and their indexes."""

from __future__ import annotations

from typing import Any

from tests.analytics.kit import KIT
from tests.analytics.support.hits import HITS, RECORD, asked, hit, record_hits
from tests.analytics.support.log_events import COUNTS, EVENTS, LOG, NOON, analyst, event, log, service
from tests.analytics.support.page_roll_ups import roll_up
from tests.support.harness import GatewayClient
from tests.support.sending import assert_sends

BUDGETS = KIT.budgets
MONTH_LATER = NOON.replace(month=4)
RANGE = {"from": "2026-03-09T00:00:00.000Z", "to": "2026-03-10T00:00:00.000Z"}
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "log events": (EVENTS, {"filter": {}}),
    "log events of a path in a range": (EVENTS, {"filter": {"path": "/1", **RANGE}}),
    "log events of a host and a path": (EVENTS, {"filter": {"path": "/1", "host": "192.0.2.1"}}),
    "pages of a part of a day": (COUNTS, {**RANGE, "from": "2026-03-09T10:00:00.000Z"}),
    "pages by day": (COUNTS, RANGE),
    "hits by minute": (HITS, asked("MINUTE", NOON, NOON.replace(hour=13))),
    "hits by day": (HITS, asked("DAY", NOON, MONTH_LATER)),
}
WRITES: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "log 50 events": (LOG, [event(f"/{number}", eventId=f"{number}") for number in range(50)]),
    "count 50 hits of a page": (RECORD, [hit()] * 50),
    "count 50 hits with ids": (RECORD, [hit(eventId=f"{number}") for number in range(50)]),
    "count the first hit of a page": (RECORD, [hit("/new")]),
}
# An `eventId` is unique over all shards, so the events of a page are on all of them.
ASTRAY = {
    "log events": ["find analytics.log_events "],
    "log events of a path in a range": ["find analytics.log_events path time"],
    "log events of a host and a path": ["find analytics.log_events host path"],
    "pages of a part of a day": ["aggregate analytics.log_events time"],
    "pages by day": ["aggregate analytics.log_events uncounted", "aggregate analytics.log_events time"],
    "pages by day, rolled up": ["aggregate analytics.log_events uncounted"],
    "pages by day, with late events": [
        "aggregate analytics.log_events uncounted",
        "aggregate analytics.log_events time",
    ],
}


async def test_every_read_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient) -> None:
    await log(gateway, *(event(f"/{number % 3}", number) for number in range(300)))
    await record_hits(gateway, hit(), hit(at=MONTH_LATER))
    for name, (text, variables) in READS.items():
        call = analyst(gateway).data(text, variables)

        assert await assert_sends(gateway, call, BUDGETS[name], name) == ASTRAY.get(name, []), name


async def test_pages_of_days_that_are_over_are_read_by_the_indexed_commands_of_their_budget(
    gateway: GatewayClient,
) -> None:
    await log(gateway, *(event(f"/{number % 3}", 4_000 * number) for number in range(60)))
    await roll_up(gateway)
    days = {"from": "2026-03-09T00:00:00.000Z", "to": "2026-03-12T00:00:00.000Z"}
    for name in ("pages by day, rolled up", "pages by day, with late events"):
        call = analyst(gateway).data(COUNTS, days)

        assert await assert_sends(gateway, call, BUDGETS[name], name) == ASTRAY[name], name
        await log(gateway, event("/late"))


async def test_a_roll_up_of_a_day_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient) -> None:
    await log(gateway, *(event(f"/{number % 3}", number) for number in range(300)))
    tomorrow = NOON.replace(day=10)
    gateway.clock.advance(seconds=(tomorrow - gateway.clock.now()).total_seconds())
    for name in ("roll up a day", "roll up nothing"):
        astray = await assert_sends(gateway, roll_up(gateway), BUDGETS[name], name)

        # A run looks on all shards for marks and counts. So does a roll-up for the events of its day.
        assert set(astray) <= {
            "aggregate analytics.log_events time",
            "aggregate analytics.log_events uncounted",
            "aggregate analytics.page_days ",
            "find analytics.log_events time",
            "find analytics.log_events uncounted",
        }


async def test_every_write_sends_the_indexed_commands_of_its_budget_each_to_one_shard(gateway: GatewayClient) -> None:
    await record_hits(gateway, hit())
    for name, (text, given) in WRITES.items():
        call = service(gateway).data(text, {"input": given})

        assert await assert_sends(gateway, call, BUDGETS[name], name) == [], name
