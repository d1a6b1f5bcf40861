"""The change stream of answers, and the reads that depend on it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from functools import partial
from typing import Any

import pytest
from bson.errors import InvalidBSON

from portico.gateway.reads import feed as feeds
from portico.gateway.reads.deriving import of_collection
from portico.gateway.reads.feed import Feed
from portico.gateway.reads.index import Index
from portico.gateway.reads.read_sets import ReadSet
from portico.resolvers.changes import Event, follow
from portico.resolvers.documents import Database
from tests.support.sockets import until


@contextlib.asynccontextmanager
async def opened(db: Database, *collections: str) -> AsyncIterator[Feed]:
    feed = Feed(db, collections)
    await feed.open()
    async with contextlib.aclosing(feed):
        yield feed


async def test_a_change_that_cannot_be_decoded_does_not_end_the_stream(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = 0

    async def damaged(*arguments: Any, **options: Any) -> AsyncGenerator[Sequence[Event], None]:
        nonlocal streams
        streams += 1
        if streams == 1:
            yield ()
            raise InvalidBSON("not valid")
        async for events in follow(*arguments, **options):
            yield events

    monkeypatch.setattr(feeds, "follow", damaged)
    async with opened(db, "things") as feed:
        await until(lambda: feed.counts.streams == 2)
        affected: list[int] = []
        reads = ReadSet(feed.index, lambda: affected.append(1))
        reads.end(reads.begin(of_collection("things")), None)
        await db["things"].insert_one({"_id": 1})
        await until(lambda: affected == [1])
        reads.release()
        assert feed.counts.streams == 2


@pytest.mark.parametrize("drops", [False, True])
async def test_a_collection_that_is_renamed_affects_what_was_read_of_both_names(db: Database, *, drops: bool) -> None:
    for name in ("others", "things", "more"):
        await db[name].drop()
    await db["others"].insert_one({"_id": 1})
    if drops:
        await db["things"].insert_one({"_id": 2})
    async with opened(db, "things", "more") as feed:
        affected: list[str] = []
        for name in ("things", "more"):
            reads = ReadSet(feed.index, partial(affected.append, name))
            reads.end(reads.begin(of_collection(name)), None)
        await db["others"].rename("things", dropTarget=drops)
        await until(lambda: affected == ["things"])
        await db["things"].rename("more")
        await until(lambda: len(affected) > 1)
        assert affected == ["things", "more"]


def test_a_read_that_begins_after_the_end_of_its_run_leaves_nothing() -> None:
    index = Index()
    reads = ReadSet(index, lambda: None)
    reads.release()

    reads.begin(of_collection("things"))

    assert not index.collections
