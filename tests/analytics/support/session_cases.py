"""Sessions for tests, through the public schema, and a model that keeps them in a list."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import UTC, date, datetime, timedelta
from typing import Any

import bson

from portico.resolvers.documents import Database
from portico.schema.analytics.analysts import ANALYST
from tests.support.harness import GatewayClient

Given = dict[str, Any]
# Of a user and a granularity: by the start of each period, how many sessions, and their microseconds.
Figures = Mapping[datetime, tuple[int, int]]

COLLECTIONS = ("analytics.sessions", "analytics.session_roll_ups")
JOB = "roll-up-sessions"
LEVELS = ("HOUR", "DAY", "WEEK", "MONTH", "YEAR")
RECORD = """
mutation ($input: [SessionInput!]!) {
  recordSessions(input: $input) {
    __typename
    ... on RecordedPayload { recorded invalid { path message } }
    ... on InvalidInput { path message }
  }
}
"""
STATS = """
query ($user: String!, $granularity: Granularity!, $from: DateTime!, $to: DateTime!) {
  sessionStats(userId: $user, granularity: $granularity, from: $from, to: $to) {
    asOf stats { userId start sessions total mean }
  }
}
"""
_ids = itertools.count(1)


def at(text: str) -> datetime:
    """Returns a naive time in UTC, e.g. of `2026-01-31`."""
    return datetime.fromisoformat(text)


def shown(time: datetime) -> str:
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def session(time: str = "2026-01-31T10:30:00.000Z", length: float = 60, user: str = "ann", **fields: Any) -> Given:
    """A `SessionInput`. Without an `eventId` it gets a new one; None means none."""
    given = {"eventId": f"session-{next(_ids)}", "userId": user, "at": time, "length": length, **fields}
    return {name: value for name, value in given.items() if value is not None}


def analyst(gateway: GatewayClient) -> GatewayClient:
    return gateway.as_caller("analyst", ANALYST)


async def record(gateway: GatewayClient, *sessions: Given) -> Any:
    """Records sessions. Returns the union member."""
    return (await gateway.data(RECORD, {"input": list(sessions)}))["recordSessions"]


async def recorded(gateway: GatewayClient, *sessions: Given) -> int:
    """Records sessions that are all valid. Returns how many are recorded."""
    answer = await record(gateway, *sessions)
    assert (answer["__typename"], answer["invalid"]) == ("RecordedPayload", [])
    return int(answer["recorded"])


async def roll_up(gateway: GatewayClient) -> int:
    """Runs the job once. Returns how many sessions it rolled up."""
    return await gateway.run_jobs(JOB)


async def report(gateway: GatewayClient, granularity: str = "DAY", *bounds: str, user: str = "ann") -> Any:
    """Returns the `sessionStats` of a user. Without bounds, the range has almost 10,000 periods, or 180 years."""
    begin, end = bounds or _around(granularity)
    variables = {"user": user, "granularity": granularity, "from": begin, "to": end}
    return (await analyst(gateway).data(STATS, variables))["sessionStats"]


async def stats(gateway: GatewayClient, granularity: str = "DAY", *bounds: str, user: str = "ann") -> list[Any]:
    """Returns (start, sessions, total in seconds) of each period."""
    found = (await report(gateway, granularity, *bounds, user=user))["stats"]
    assert all(one["userId"] == user and one["mean"] == one["total"] / one["sessions"] for one in found)
    return [(one["start"].removesuffix(":00:00.000Z"), one["sessions"], one["total"]) for one in found]


def _around(granularity: str) -> tuple[str, str]:
    if granularity == "HOUR":
        return "2025-12-01T00:00:00Z", "2027-01-15T00:00:00Z"
    if granularity == "DAY":
        return "2010-01-01T00:00:00Z", "2037-01-01T00:00:00Z"
    return "1970-01-01T00:00:00Z", "2150-01-01T00:00:00Z"


async def stored_roll_ups(db: Database) -> list[bytes]:
    """Returns all roll-ups as bytes, without their revisions."""
    found = await db["analytics.session_roll_ups"].find({}, {"revision": 0}, sort=[("_id", 1)]).to_list()
    return [bson.encode(one) for one in found]


async def pending(db: Database) -> int:
    return await db["analytics.sessions"].count_documents({"pending_since": {"$exists": True}})


def start_of(granularity: str, time: datetime) -> datetime:
    """Returns the start of a period, by the calendar of the standard library."""
    year, week, _ = time.isocalendar()
    starts = {
        "HOUR": datetime(time.year, time.month, time.day, time.hour, tzinfo=UTC),
        "DAY": datetime(time.year, time.month, time.day, tzinfo=UTC),
        "WEEK": datetime.combine(date.fromisocalendar(year, week, 1), datetime.min.time(), UTC),
        "MONTH": datetime(time.year, time.month, 1, tzinfo=UTC),
        "YEAR": datetime(time.year, 1, 1, tzinfo=UTC),
    }
    return starts[granularity].replace(tzinfo=None)


class Model:
    """Keeps all sessions in a list, and computes everything from it."""

    def __init__(self) -> None:
        self.sessions: list[Given] = []
        self._ids: set[str] = set()

    def record(self, sessions: Iterable[Given]) -> list[Given]:
        """Returns those that are new. The first session with an `eventId` counts."""
        new = []
        for one in sessions:
            if one.get("eventId") not in self._ids:
                new.append(one)
                self._ids |= {one["eventId"]} if "eventId" in one else set()
        self.sessions += new
        return new

    def users(self) -> set[str]:
        return {one["userId"] for one in self.sessions}

    def figures(self, user: str, granularity: str) -> Figures:
        found: dict[datetime, tuple[int, int]] = defaultdict(lambda: (0, 0))
        for one in self.sessions:
            if one["userId"] == user:
                start = start_of(granularity, datetime.fromisoformat(one["at"]).replace(tzinfo=None))
                count, total = found[start]
                found[start] = count + 1, total + round(one["length"] * 1_000_000)
        return dict(found)


async def assert_matches(gateway: GatewayClient, model: Model) -> None:
    """Asserts that the roll-ups are those of the model, no more and no less."""
    found: dict[tuple[str, str], dict[datetime, tuple[int, int]]] = defaultdict(dict)
    async for one in gateway.db["analytics.session_roll_ups"].find({}):
        found[one["user_id"], one["level"]][one["start"]] = one["sessions"], one["total"]
    wanted = {(user, level): model.figures(user, level) for user in model.users() for level in LEVELS}
    assert dict(found) == wanted


def later(time: datetime, **duration: float) -> str:
    return shown(time + timedelta(**duration))
