"""Services that record requests, hits and sessions at random while gateways are killed."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from portico.resolvers.analytics.hit_counters import Series
from portico.resolvers.analytics.hit_reads import read_hits
from portico.resolvers.analytics.periods import start_of
from portico.resolvers.documents import Database
from portico.schema.scalars import format_instant, parse_instant
from tests.analytics.support import hits, session_cases
from tests.analytics.support.hits import hit
from tests.analytics.support.log_events import LOG, NOON, event
from tests.analytics.support.session_cases import session
from tests.support.harness import GatewayClient
from tests.support.kills import Client, Clients, turns

PAGES, USERS = ("/", "/a", "/b"), ("ann", "bob")
_numbers = itertools.count(1)


@dataclass
class Traffic:
    """What all services were told: the ids of log events, hits by page and minute, and sessions by user and hour."""

    events: set[str] = field(default_factory=set)
    hits: Counter[tuple[str, datetime]] = field(default_factory=Counter)
    sessions: Counter[tuple[str, datetime]] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)


class Recorder:
    """Records one batch after the other. Each entry has an id, so that a batch can be sent again."""

    def __init__(self, client: Client, traffic: Traffic, rng: random.Random) -> None:
        self._client = client
        self._traffic = traffic
        self._rng = rng

    async def run(self, seconds: float) -> None:
        records: list[Callable[[], Awaitable[None]]] = [self.log, self.hit, self.record_sessions]
        for _ in turns(seconds, self._traffic.operations):
            await self._rng.choice(records)()

    async def log(self) -> None:
        # What is only acknowledged may be lost with its primary.
        given = [event(id_, eventId=id_) for id_ in self._ids()]
        await self._call("logEvents", LOG, given, durability="MAJORITY")
        self._traffic.events |= {one["eventId"] for one in given}

    async def hit(self) -> None:
        given = [hit(self._rng.choice(PAGES), self._time(), eventId=id_) for id_ in self._ids()]
        await self._call("recordHits", hits.RECORD, given)
        self._traffic.hits.update((one["page"], start_of("MINUTE", parse_instant(one["at"]))) for one in given)

    async def record_sessions(self) -> None:
        times = [(format_instant(self._time()), id_) for id_ in self._ids()]
        given = [session(time, 1.5, self._rng.choice(USERS), eventId=id_) for time, id_ in times]
        await self._call("recordSessions", session_cases.RECORD, given)
        self._traffic.sessions.update((one["userId"], start_of("HOUR", parse_instant(one["at"]))) for one in given)

    def _ids(self) -> list[str]:
        return [f"kills-{next(_numbers)}" for _ in range(self._rng.randint(1, 20))]

    def _time(self) -> datetime:
        return NOON + timedelta(minutes=self._rng.randrange(3 * 24 * 60))

    async def _call(self, mutation: str, text: str, given: list[dict[str, Any]], **variables: Any) -> None:
        answered = await self._client.ask(text, {"input": given, **variables})
        assert answered[mutation]["recorded"] == len(given), answered
        self._traffic.operations[mutation] += 1


async def assert_traffic_is_as_told(db: Database, traffic: Traffic) -> None:
    """Asserts that everything is recorded once. The doctor checks that roll-ups and months add up."""
    found = [one["path"] async for one in db["analytics.log_events"].find({}, {"path": 1})]
    assert (sorted(found), len(found)) == (sorted(traffic.events), len(traffic.events))
    begin, end = start_of("DAY", NOON), start_of("DAY", NOON) + timedelta(days=5)
    counted: Counter[tuple[str, datetime]] = Counter()
    for page in PAGES:
        points = await read_hits(db, Series(hits.SITE, page), granularity="MINUTE", begin=begin, end=end)
        counted.update({(page, point["at"]): point["hits"] for point in points if point["hits"]})
    assert counted == traffic.hits
    assert await db["analytics.sessions"].count_documents({"pending_since": {"$exists": True}}) == 0
    hours = db["analytics.session_roll_ups"].find({"level": "HOUR"})
    assert {(one["user_id"], one["start"]): one["sessions"] async for one in hours} == traffic.sessions


class Analytics:
    """Services that record traffic."""

    def __init__(self, recorders: int) -> None:
        self._traffic = Traffic()
        self.operations = self._traffic.operations
        self._recorders = recorders

    async def prepare(self, gateway: GatewayClient) -> None:
        """Needs nothing."""

    def actors(self, clients: Clients) -> list[Recorder]:
        return [Recorder(clients.connect(), self._traffic, random.Random(number)) for number in range(self._recorders)]

    async def check(self, gateway: GatewayClient) -> None:
        await assert_traffic_is_as_told(gateway.db, self._traffic)
