"""The commands of log events and hits: their number, their shards and their indexes."""

from __future__ import annotations

from functools import partial
from typing import Any

from tests.analytics.kit import KIT
from tests.analytics.support.hits import HITS, RECORD, asked, hit, record_hits
from tests.analytics.support.log_events import COUNTS, EVENTS, LOG, NOON, analyst, event, log, service
from tests.support.harness import GatewayClient
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed, names, sent

BUDGETS = KIT.budgets
MONTH_LATER = NOON.replace(month=4)
RANGE = {"from": "2026-03-09T00:00:00.000Z", "to": "2026-03-10T00:00:00.000Z"}
READS: dict[str, tuple[str, dict[str, Any]]] = {
    "log events": (EVENTS, {"filter": {}}),
    "log events of a path in a range": (EVENTS, {"filter": {"path": "/1", **RANGE}}),
    "log events of a host and a path": (EVENTS, {"filter": {"path": "/1", "host": "192.0.2.1"}}),
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
    "pages by day": ["aggregate analytics.log_events time"],
}


async def test_every_read_sends_the_indexed_commands_of_its_budget(gateway: GatewayClient) -> None:
    await log(gateway, *(event(f"/{number % 3}", number) for number in range(300)))
    await record_hits(gateway, hit(), hit(at=MONTH_LATER))
    for name, (text, variables) in READS.items():
        commands = await sent(gateway, partial(analyst(gateway).data, text, variables))

        assert names(commands) == BUDGETS[name], name
        assert unroutable(commands) == ASTRAY.get(name, []), name
        await assert_indexed(gateway, commands)


async def test_every_write_sends_the_indexed_commands_of_its_budget_each_to_one_shard(gateway: GatewayClient) -> None:
    await record_hits(gateway, hit())
    for name, (text, given) in WRITES.items():
        commands = await sent(gateway, partial(service(gateway).data, text, {"input": given}))

        assert names(commands) == BUDGETS[name], name
        assert unroutable(commands) == [], name
        await assert_indexed(gateway, commands)
