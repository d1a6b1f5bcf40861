"""Connections that are opened without the driver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.gateway.mongo.direct import DirectDatabase, Reader
from portico.gateway.mongo.direct_writes import Writer
from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database
from tests.support.harness import Commands

ROWS = 300


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
        await connection.database["rows"].drop()
    finally:
        await connection.close()


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
