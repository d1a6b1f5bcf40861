"""A run that compares dates of documents with the time knows when the next one comes."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import INSERT, Change
from portico.gateway.reads.parts import Checks
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.recorded import recorded
from portico.resolvers.documents import Database

NOW = datetime(2026, 3, 9, 12, tzinfo=UTC)
NEXT = NOW + timedelta(hours=1)


async def run(db: Database, reads: ReadSet, *, is_part: bool) -> list[Any]:
    """Reads the documents whose time has come, as a run or a part of it does."""

    async def read(own: ReadSet) -> list[Any]:
        return await recorded(db, own)["dated"].find({"at": {"$lte": NOW}}, {"at": 1}).to_list()

    reads.compare(NOW)
    found = await (reads.part(read) if is_part else read(reads))
    await reads.look_ahead(db)
    reads.finish()
    return found


@pytest.mark.parametrize("is_part", [False, True])
async def test_a_run_knows_the_next_date(db: Database, *, is_part: bool) -> None:
    await db["dated"].create_index("at")
    await db["dated"].insert_many([{"_id": 1, "at": NOW - timedelta(hours=1)}, {"_id": 2, "at": NEXT}])
    index, affected = Index(), list[bool]()
    reads = ReadSet(index, lambda: affected.append(True), Checks())

    assert len(await run(db, reads, is_part=is_part)) == 1

    assert not reads.reads_clock
    assert reads.changes_at is not None
    assert reads.changes_at.replace(tzinfo=UTC) == NEXT
    # A document whose time comes sooner affects it.
    sooner = {"_id": 3, "at": (NOW + timedelta(minutes=1)).replace(tzinfo=None)}
    index.dispatch(Change("dated", INSERT, 3, sooner, number=9))
    assert affected


@pytest.mark.parametrize("is_part", [False, True])
async def test_a_run_without_an_index_by_the_date_depends_on_the_clock(db: Database, *, is_part: bool) -> None:
    await db["dated"].insert_one({"_id": 1, "at": NOW - timedelta(hours=1)})
    reads = ReadSet(Index(), lambda: None, Checks())

    await run(db, reads, is_part=is_part)

    assert reads.reads_clock
