"""Log events for tests, through the public schema."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from portico.schema.analytics.analysts import ANALYST
from portico.schema.roles import Role
from portico.schema.scalars import format_instant
from tests.support.harness import GatewayClient

Given = dict[str, Any]
NOON = datetime(2026, 3, 9, 12)  # noqa: DTZ001 - stored times are naive UTC
FIELDS = "host user time method path status responseSize referrer userAgent"
LOG = """
mutation ($input: [LogEventInput!]!, $durability: Durability! = ACKNOWLEDGED) {
  logEvents(input: $input, durability: $durability) {
    __typename
    ... on UserError { message }
    ... on RecordedPayload { recorded invalid { path message } }
    ... on InvalidInput { path }
  }
}
"""
EVENTS = f"""
query ($filter: LogFilter!, $first: Int, $after: String) {{
  logEvents(filter: $filter, first: $first, after: $after) {{
    nodes {{ id {FIELDS} }} edges {{ cursor }} pageInfo {{ hasNextPage endCursor }}
  }}
}}
"""
COUNTS = """
query ($from: DateTime!, $to: DateTime!, $limit: Int! = 100) {
  pageCounts(from: $from, to: $to, limit: $limit) { path day hits visitors }
}
"""


def event(path: str = "/", seconds: float = 0, **fields: Any) -> Given:
    """A `LogEventInput`, so many seconds after noon."""
    time = format_instant(NOON + timedelta(seconds=seconds))
    return {"host": "192.0.2.1", "time": time, "path": path, **fields}


def service(gateway: GatewayClient) -> GatewayClient:
    return gateway.as_caller("a web server", Role.SERVICE)


def analyst(gateway: GatewayClient) -> GatewayClient:
    return gateway.as_caller("an analyst", ANALYST)


async def log(gateway: GatewayClient, *events: Given, **variables: Any) -> Given:
    """Calls `logEvents`. Returns its union member."""
    found: Given = (await service(gateway).data(LOG, {"input": events, **variables}))["logEvents"]
    return found


async def logged(gateway: GatewayClient, first: int = 100, after: str | None = None, **conditions: Any) -> Given:
    """Returns a page of log events."""
    variables = {"filter": conditions, "first": first, "after": after}
    found: Given = (await analyst(gateway).data(EVENTS, variables))["logEvents"]
    return found


async def paths(gateway: GatewayClient, **conditions: Any) -> Sequence[str]:
    return [one["path"] for one in (await logged(gateway, **conditions))["nodes"]]


async def page_counts(
    gateway: GatewayClient, begin: datetime = NOON, end: datetime | None = None, **variables: Any
) -> Sequence[Given]:
    """Returns the pages of a range, by default of the hour after noon."""
    bounds = {"from": format_instant(begin), "to": format_instant(end or begin + timedelta(hours=1))}
    found: Sequence[Given] = (await analyst(gateway).data(COUNTS, {**bounds, **variables}))["pageCounts"]
    return found
