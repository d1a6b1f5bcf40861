"""Connections that are opened without the driver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from bson import Decimal128, Int64
from pymongo.errors import PyMongoError

from portico.gateway.mongo import embedded
from portico.gateway.mongo.direct import DirectDatabase, Reader
from portico.gateway.mongo.direct_writes import Writer
from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from tests.support.harness import Commands
from tests.support.wire import Wire, through_wire

ROWS = 300
# Values of many types.
VALUES: dict[str, Any] = {
    "text": "Ärger 🎷",
    "numbers": [1, Int64(2**40), 1.5, Decimal128("1.10"), True, None],
    "at": datetime(2026, 1, 1, tzinfo=UTC),
    "bytes": b"\x00\x01",
}


@contextlib.asynccontextmanager
async def opened(settings: Settings, *listeners: Commands) -> AsyncIterator[Database]:
    """A database with rows that is read over at least one direct connection."""
    if settings.driver == "motor":
        pytest.skip("Motor does not read directly")
    connection = connect(settings, str(settings.mongodb_uri), listeners)
    try:
        await connection.database["rows"].insert_many([{"_id": n, "parity": n % 2} for n in range(ROWS)])
        await warmed(connection.database)
        yield connection.database
        for name in ("rows", "written"):
            await plain(connection.database)[name].drop()
    finally:
        await connection.close()


@contextlib.asynccontextmanager
async def opened_through_wire(settings: Settings) -> AsyncIterator[tuple[Wire, Database]]:
    """The same, over a wire that can be cut."""
    with through_wire(settings) as (wire, over_wire):
        async with opened(over_wire) as db:
            yield wire, db


@contextlib.contextmanager
def own_mongodb(folder: Path) -> Iterator[Settings]:
    """Starts a MongoDB whose primary may step down."""
    hold = embedded.attach(Settings(data_dir=folder))
    try:
        yield Settings(data_dir=folder, database="stepping", mongodb_uri=Secret(hold.uri))
    finally:
        hold.close()


async def step_down(db: Database) -> None:
    """Makes the primary step down. It is elected again."""
    with contextlib.suppress(PyMongoError):
        await db.client["admin"].command("replSetStepDown", 1, secondaryCatchUpPeriodSecs=0, force=True)


def reader_of(db: Database) -> Reader:
    assert isinstance(db, DirectDatabase)
    return db.reader


def writer_of(db: Database) -> Writer:
    assert isinstance(db, DirectDatabase)
    return db.writer


async def warmed(db: Database) -> None:
    """Return when a direct connection is open."""
    for _ in range(500):
        if reader_of(db).connections:
            return
        await db["rows"].find_one({"_id": 0})
        await asyncio.sleep(0.01)
    raise AssertionError("no direct connection")


def plain(db: Database) -> Any:
    """The same database, read by the driver."""
    return db.client[db.name]


async def warmed_to_write(db: Database, count: int = 1) -> None:
    """Return when so many connections for writes are open. With fewer, some of as many writes go by the driver."""
    for _ in range(500):
        # Connections that have been cut leave when they are to be used. The driver gives up if two of its own are cut.
        touching = (db["written"].update_one({"_id": "none"}, {"$set": {"n": 1}}) for _ in range(count))
        await asyncio.gather(*touching, return_exceptions=True)
        if writer_of(db).connections >= count:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no direct connection")


async def another_connection(db: Database) -> None:
    """Return when one more connection for writes is open, the latest to be idle."""
    links = writer_of(db)._links
    before = links.connections
    links.open_another()
    for _ in range(500):
        if links.connections > before:
            return
        await asyncio.sleep(0.01)
    raise AssertionError("no further connection")
