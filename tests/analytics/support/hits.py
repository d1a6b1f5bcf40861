"""Hits of pages for tests, through the public schema."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from portico.resolvers.analytics.periods import Granularity, next_start, start_of
from portico.schema.scalars import format_instant, parse_instant
from tests.analytics.support.log_events import NOON, Given, analyst, service
from tests.support.harness import GatewayClient

SITE = "shop.example"
RECORD = """
mutation ($input: [HitInput!]!) {
  recordHits(input: $input) {
    __typename
    ... on UserError { message }
    ... on RecordedPayload { recorded invalid { path message } }
    ... on InvalidInput { path }
  }
}
"""
HITS = """
query ($site: String!, $page: String!, $granularity: Granularity!, $from: DateTime!, $to: DateTime!) {
  hits(site: $site, page: $page, granularity: $granularity, from: $from, to: $to) { site page points { at hits } }
}
"""
COLLECTIONS = ("analytics.hit_days", "analytics.hit_months", "analytics.hit_slots", "analytics.hit_ids")


def hit(page: str = "/", at: datetime | None = NOON, **fields: Any) -> Given:
    """A `HitInput`."""
    time = {} if at is None else {"at": format_instant(at)}
    return {"site": SITE, "page": page, **time, **fields}


async def record_hits(gateway: GatewayClient, *hits: Given) -> Given:
    """Calls `recordHits`. Returns its union member."""
    found: Given = (await service(gateway).data(RECORD, {"input": hits}))["recordHits"]
    return found


def asked(granularity: str, begin: datetime, end: datetime, page: str = "/", site: str = SITE) -> Given:
    """The variables of `HITS`."""
    bounds = {"from": format_instant(begin), "to": format_instant(end)}
    return {"site": site, "page": page, "granularity": granularity, **bounds}


async def points(
    gateway: GatewayClient, granularity: str, begin: datetime, end: datetime, page: str = "/", site: str = SITE
) -> Sequence[tuple[str, int]]:
    """Returns the points of a series."""
    data = await analyst(gateway).data(HITS, asked(granularity, begin, end, page, site))
    return [(one["at"], one["hits"]) for one in data["hits"]["points"]]


async def total(gateway: GatewayClient, page: str = "/", day: datetime = NOON) -> int:
    """Returns the hits of a day. They must be the same by all granularities that show a day."""
    begin = start_of("DAY", day)
    end = begin + timedelta(days=1)
    sums = {
        sum(hits for _, hits in await points(gateway, granularity, begin, end, page))
        for granularity in ("MINUTE", "HOUR", "DAY")
    }
    assert len(sums) == 1, sums
    return sums.pop()


def expected(
    hits: Iterable[Given], granularity: Granularity, begin: datetime, end: datetime, page: str = "/"
) -> Sequence[tuple[str, int]]:
    """The points of a series, by nothing but a `Counter`. Each `eventId` counts once."""
    once = {one.get("eventId", f"number {number}"): one for number, one in reversed(list(enumerate(hits)))}
    counts = Counter(start_of(granularity, parse_instant(one["at"])) for one in once.values() if one["page"] == page)
    found, start = [], start_of(granularity, begin)
    while start < end:
        found.append((format_instant(start), counts[start]))
        start = next_start(granularity, start)
    return found
