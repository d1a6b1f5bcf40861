"""Two ways to record events, hits and sessions, for `bench.analytics`: GraphQL operations, and PyMongo by hand."""

import random
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Protocol

import orjson
from bson import Int64, ObjectId
from pymongo import UpdateOne, WriteConcern
from pymongo.errors import BulkWriteError

from portico.gateway.clock import SystemClock
from portico.gateway.live import Counts, Hub
from portico.gateway.operations.execution import Executor
from portico.gateway.operations.json_text import encode
from portico.gateway.operations.responses import Response
from portico.resolvers.analytics.log_recording import WRITE_CONCERNS, Durability
from portico.resolvers.analytics.periods import start_of
from portico.resolvers.documents import Collection, CollectionSpec, Database, Document
from portico.resolvers.indexes import create_indexes
from portico.resolvers.served import Served
from portico.schema.context import Caller, Context
from portico.schema.roles import Role
from portico.schema.scalars import format_instant, parse_instant

Entry = dict[str, Any]

SITE = "bench"
DAY = datetime(2026, 3, 9)  # noqa: DTZ001 - stored times are naive UTC
PAGES, USERS = 20, 1_000
_HAND = "hand."
_COLLECTIONS = {"events": "log_events", "sessions": "sessions"}
_PAYLOAD = "{ __typename ... on UserError { message } ... on RecordedPayload { recorded } }"
_TEXTS = {
    "events": (
        "mutation ($input: [LogEventInput!]!, $durability: Durability!) "
        f"{{ logEvents(input: $input, durability: $durability) {_PAYLOAD} }}"
    ),
    "hits": f"mutation ($input: [HitInput!]!) {{ recordHits(input: $input) {_PAYLOAD} }}",
    "sessions": f"mutation ($input: [SessionInput!]!) {{ recordSessions(input: $input) {_PAYLOAD} }}",
}


def entry_of(kind: str, rng: random.Random) -> Entry:
    """Return a new entry, with an `eventId`, on one day: an input of `logEvents`, `recordHits` or `recordSessions`."""
    at = format_instant(DAY + timedelta(seconds=rng.randrange(86_400)))
    made: dict[str, Entry] = {
        "events": {
            "host": f"198.51.100.{rng.randrange(250)}",
            "time": at,
            "path": f"/page-{rng.randrange(1_000)}",
            "responseSize": rng.randrange(100_000),
            "referrer": "https://shop.example/",
            "userAgent": "Mozilla/5.0 (X11; Linux x86_64; rv:133.0) Gecko/20100101 Firefox/133.0",
        },
        "hits": {"site": SITE, "page": f"/page-{rng.randrange(PAGES)}", "at": at},
        "sessions": {"userId": f"user {rng.randrange(USERS)}", "at": at, "length": rng.randrange(3_600)},
    }
    return {"eventId": f"{rng.getrandbits(96):024x}", **made[kind]}


class Way(Protocol):
    """A way to record entries of one kind in one call."""

    name: str

    async def record(self, kind: str, entries: Sequence[Entry], durability: Durability) -> None: ...

    async def recorded(self, kind: str) -> int:
        """Return how many entries of the kind the database has."""

    async def empty(self, kind: str) -> None:
        """Delete all entries of the kind, events or sessions."""


class Portico:
    """The operations of the gateway, from their text to the bytes of the answer, without HTTP."""

    name = "portico"

    def __init__(self, db: Database, executor: Executor, served: Served, specs: Sequence[CollectionSpec]) -> None:
        self._db = db
        self._specs = specs
        self._executor = executor
        self._served = served

    async def record(self, kind: str, entries: Sequence[Entry], durability: Durability) -> None:
        given: Entry = {"input": list(entries), **({"durability": durability} if kind == "events" else {})}
        ((_, result),) = (await self.ask(_TEXTS[kind], given)).items()
        if result.get("recorded") != len(entries):
            raise RuntimeError(str(result))

    async def ask(self, text: str, given: Mapping[str, Any]) -> Any:
        """Run an operation as a caller who may do everything. Return its data."""
        clock = SystemClock()
        context = Context(
            db=self._db,
            reading=self._db,
            caller=Caller("bench", frozenset({Role.ADMIN}), ""),
            started=clock.now(),
            clock=clock.now,
            request_id="bench",
            selections={},
            served=self._served,
            live=Hub(self._db, (), Counts(), max_waiting=1),
            keys_kept=timedelta(days=1),
        )
        response = await self._executor.execute(text, variables=dict(given), name=None, context=context)
        assert isinstance(response, Response), text
        answer = orjson.loads(encode(response.payload))
        if "errors" in answer:
            raise RuntimeError(str(answer["errors"]))
        return answer["data"]

    async def recorded(self, kind: str) -> int:
        if kind == "hits":
            return await _sum_of_hours(self._db["analytics.hit_days"])
        return await self._db[f"analytics.{_COLLECTIONS[kind]}"].count_documents({})

    async def empty(self, kind: str) -> None:
        for spec in self._specs:
            if spec.name == f"analytics.{_COLLECTIONS[kind]}":
                await self._db[spec.name].drop()
                async for _ in create_indexes(self._db, [spec]):
                    pass


class ByHand:
    """What a careful program without Portico does, on collections with the same indexes.

    Events and sessions are one `insert_many`. For hits, it inserts the ids, and adds those that are new to the days and
    the months by `bulk_write`, with one update for each page in both. If such a program crashes between the two steps,
    the hits are lost.
    """

    name = "by hand"

    def __init__(self, db: Database, specs: Sequence[CollectionSpec]) -> None:
        self._db = db
        self._indexes = {spec.name: list(spec.indexes) for spec in specs}

    async def prepare(self) -> None:
        """Create the indexes that Portico's collections have."""
        for name, indexes in self._indexes.items():
            if indexes:
                await self._db[f"{_HAND}{name}"].create_indexes(indexes)

    def _collection(self, name: str, durability: Durability = "MAJORITY") -> Collection:
        concern: WriteConcern = WRITE_CONCERNS[durability]
        return self._db[f"{_HAND}analytics.{name}"].with_options(write_concern=concern)

    async def record(self, kind: str, entries: Sequence[Entry], durability: Durability) -> None:
        if kind == "hits":
            await self._count(entries)
        elif kind == "events":
            await _insert_new(self._collection("log_events", durability), [_event(entry) for entry in entries])
        else:
            await _insert_new(self._collection("sessions"), [_session(entry) for entry in entries])

    async def _count(self, entries: Sequence[Entry]) -> None:
        new = await _insert_new(self._collection("hit_ids"), [{"_id": ObjectId(one["eventId"])} for one in entries])
        days: dict[str, Counter[str]] = {}
        months: dict[str, Counter[str]] = {}
        for entry in entries:
            if ObjectId(entry["eventId"]) in new:
                at = parse_instant(entry["at"])
                day = days.setdefault(f"{entry['page']} {at:%Y-%m-%d}", Counter())
                day[f"hours.{at.hour}"] += 1
                day[f"minutes.{at.hour}.{at.minute}"] += 1
                months.setdefault(f"{entry['page']} {at:%Y-%m}", Counter())[f"days.{at.day - 1}"] += 1
        for name, found in (("hit_days", days), ("hit_months", months)):
            updates = [UpdateOne({"_id": key}, {"$inc": dict(counts)}, upsert=True) for key, counts in found.items()]
            await self._collection(name).bulk_write(updates, ordered=False)

    async def recorded(self, kind: str) -> int:
        if kind == "hits":
            return await _sum_of_hours(self._collection("hit_days"))
        return await self._collection(_COLLECTIONS[kind]).count_documents({})

    async def empty(self, kind: str) -> None:
        await self._collection(_COLLECTIONS[kind]).drop()
        await self.prepare()


def _event(entry: Entry) -> Document:
    return {
        "_id": ObjectId(entry["eventId"]),
        "host": entry["host"],
        "visitor": f"h:{entry['host']}",
        "time": parse_instant(entry["time"]),
        "method": "GET",
        "path": entry["path"],
        "status": 200,
        "response_size": entry["responseSize"],
        "referrer": entry["referrer"],
        "user_agent": entry["userAgent"],
        "uncounted": DAY,
    }


def _session(entry: Entry) -> Document:
    at = parse_instant(entry["at"])
    length = Int64(entry["length"] * 1_000_000)
    hour = f"{entry['userId']} {start_of('HOUR', at)}"
    return {
        "_id": ObjectId(entry["eventId"]),
        "user_id": entry["userId"],
        "at": at,
        "hour": hour,
        "length": length,
        "pending_since": SystemClock().now(),
    }


async def _insert_new(collection: Collection, documents: Sequence[Document]) -> set[ObjectId]:
    """Insert the documents. Return the ids of those that were not there."""
    found = {document["_id"] for document in documents}
    try:
        await collection.insert_many(documents, ordered=False)
    except BulkWriteError as error:
        return found - {row["op"]["_id"] for row in error.details["writeErrors"]}
    return found


async def _sum_of_hours(collection: Collection) -> int:
    """Return the sum of all hours of all documents, whether they are lists or objects."""
    total = 0
    async for document in collection.find({}, {"hours": 1}):
        hours = document["hours"]
        total += sum(hours.values() if isinstance(hours, dict) else hours)
    return total
