"""Which changes the gateway requests from the server, and what a source that fails costs the others."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any

import pytest
import structlog

from portico.gateway.live import Counts, Hub, Listener
from portico.resolvers import changes
from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Database, Document
from tests.support.sockets import SECONDS


def test_the_change_stream_requests_only_what_the_sources_need() -> None:
    sources = (
        ChangeSource(frozenset({"b", "a"}), {"operationType": "insert"}, ("fullDocument._id",), lambda _: ()),
        ChangeSource(frozenset({"c"}), {}, ("documentKey",), lambda _: ()),
    )

    assert changes.pipeline(sources) == [
        {"$match": {"$or": [{"ns.coll": {"$in": ["a", "b"]}, "operationType": "insert"}, {"ns.coll": {"$in": ["c"]}}]}},
        {"$project": {"clusterTime": 1, "documentKey": 1, "fullDocument._id": 1, "ns": 1, "operationType": 1}},
    ]


@pytest.mark.parametrize("path", ["", ".", "fullDocument.", ".sku", "a..b", "$where", "fullDocument.$sku"])
def test_a_path_that_is_none_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="not the path of a field"):
        ChangeSource(frozenset({"a"}), {}, ("documentKey", path), lambda _: ())


def test_a_text_in_place_of_paths_is_refused() -> None:
    with pytest.raises(TypeError, match="a sequence of paths; got 'fullDocument'"):
        ChangeSource(frozenset({"a"}), {}, "fullDocument", lambda _: ())


def source(name: str, *paths: str, events: Any = None) -> ChangeSource:
    """Makes an event of each inserted document, of the topic `name`, with the change as its key's text."""

    def show(change: Document) -> Iterable[Event]:
        return (Event(name, change["documentKey"]["_id"]),)

    return ChangeSource(frozenset({"things"}), {"operationType": "insert"}, paths, events or show)


PLAIN = source("plain", "documentKey._id")


@pytest.fixture
async def hubs() -> AsyncIterator[list[Hub]]:
    """Hubs to close."""
    opened: list[Hub] = []
    yield opened
    for hub in opened:
        await hub.aclose()


async def take(listener: Listener) -> Any:
    async with asyncio.timeout(SECONDS):
        return (await anext(listener)).key


@pytest.mark.parametrize(
    "paths",
    [
        ("fullDocument", "fullDocument._id"),
        ("documentKey", "documentKey._id"),
        ("fullDocument", "fullDocument.deep.er", "fullDocument.deep"),
        ("ns.coll", "ns.db", "_id._data", "operationType"),
    ],
)
async def test_sources_with_paths_below_each_other_all_get_their_events(
    db: Database, hubs: list[Hub], paths: tuple[str, ...]
) -> None:
    other = source("other", *paths, "documentKey._id")
    hub = Hub(db, (PLAIN, other), Counts(), max_waiting=5)
    hubs.append(hub)
    listeners = [await hub.listen(topic) for topic in ("plain", "other")]

    for number in range(2):
        await db["things"].insert_one({"_id": number, "deep": {"er": 1}})

    for listener in listeners:
        assert [await take(listener), await take(listener)] == [0, 1]


async def test_a_source_that_raises_loses_its_own_events_and_is_logged_and_counted(
    db: Database, hubs: list[Hub]
) -> None:
    def fail(change: Document) -> Iterable[Event]:
        yield Event("other", change["documentKey"]["_id"])
        if change["documentKey"]["_id"] < 3:
            raise RuntimeError("a mistake")

    hub = Hub(db, (source("other", "documentKey", events=fail), PLAIN), Counts(), max_waiting=5)
    hubs.append(hub)
    plain, other = [await hub.listen(topic) for topic in ("plain", "other")]

    with structlog.testing.capture_logs() as logged:
        for number in range(4):
            await db["things"].insert_one({"_id": number})
        assert [await take(plain) for _ in range(4)] == [0, 1, 2, 3]

    assert await take(other) == 3
    assert hub.counts.failures == {"things": 3}
    failures = [one for one in logged if one["event"] == "change source failed"]
    # One line in a minute.
    assert [(one["collections"], str(one["exc_info"])) for one in failures] == [("things", "a mistake")]


async def test_a_source_whose_conditions_the_server_refuses_loses_its_own_events_and_is_logged_and_counted(
    db: Database, hubs: list[Hub]
) -> None:
    wrong = ChangeSource(frozenset({"others"}), {"operationType": {"$is": "insert"}}, ("documentKey",), lambda _: ())
    hub = Hub(db, (wrong, PLAIN), Counts(), max_waiting=5)
    hubs.append(hub)

    with structlog.testing.capture_logs() as logged:
        plain = await hub.listen("plain")
    await db["things"].insert_one({"_id": 0})

    assert await take(plain) == 0
    assert hub.counts.failures == {"others": 1}
    assert [one["collections"] for one in logged if one["event"] == "change source failed"] == ["others"]


async def test_a_stream_knows_its_place_from_the_beginning_while_others_write(db: Database) -> None:
    async def write() -> None:
        while True:
            await db["things"].insert_one({})

    writers = [asyncio.create_task(write()) for _ in range(2)]
    try:
        places = []
        for _ in range(200):
            async with await changes.open_stream(db, [PLAIN], None, 1) as stream:
                places.append(stream.resume_token)
    finally:
        for writer in writers:
            writer.cancel()
        await asyncio.wait(writers)

    assert None not in places
