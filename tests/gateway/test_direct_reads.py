"""Reads that bypass the driver find the same documents as the driver, and survive the loss of their connection."""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import bson
import pytest
from bson import ObjectId, Regex
from pymongo.errors import ExecutionTimeout, OperationFailure, PyMongoError
from pymongo.read_concern import ReadConcern

from portico.gateway.mongo import links
from portico.gateway.mongo.direct import DirectDatabase
from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database
from tests.gateway.support.direct import (
    ROWS,
    VALUES,
    opened,
    opened_through_wire,
    own_mongodb,
    plain,
    reader_of,
    step_down,
    warmed,
)
from tests.support.harness import Commands
from tests.support.secure_mongodb import secure_mongodb


@pytest.fixture
async def db(settings: Settings, commands: Commands) -> AsyncIterator[Database]:
    async with opened(settings, commands) as database:
        yield database


async def test_every_type_of_value_equals_the_value_from_the_driver(db: Database) -> None:
    values = {"_id": ObjectId(), **VALUES, "below": {"deep": [{"er": Regex("^x")}]}}
    await db["rows"].insert_one(dict(values))

    found = await db["rows"].find_one({"_id": values["_id"]})

    assert found == await plain(db)["rows"].find_one({"_id": values["_id"]})
    assert found is not None
    assert found["numbers"] == values["numbers"]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"sort": [("_id", -1)]},
        {"limit": 7, "sort": [("parity", 1), ("_id", -1)]},
        {"limit": 1000, "batch_size": 2},
        {"batch_size": 10},
        {"hint": "_id_"},
        {"hint": [("_id", 1)]},
        {"skip": 290},
    ],
    ids=str,
)
@pytest.mark.parametrize("projection", [None, {"parity": 1, "_id": 0}, {"_id": 1}], ids=str)
async def test_a_find_returns_what_the_driver_returns(
    db: Database, options: dict[str, Any], projection: dict[str, int] | None
) -> None:
    found = await db["rows"].find({"_id": {"$gte": 3}}, projection, **options).to_list()

    assert found == await plain(db)["rows"].find({"_id": {"$gte": 3}}, projection, **options).to_list()
    assert found


async def test_a_find_uses_the_index_that_the_caller_names(db: Database, commands: Commands) -> None:
    commands.clear()

    assert len(await db["rows"].find({"parity": 1}, hint="_id_").to_list()) == ROWS // 2

    assert [command["hint"] for command in commands.sent] == ["_id_"]
    assert "lsid" not in commands.sent[0]
    with pytest.raises(OperationFailure, match="hint"):
        await db["rows"].find({"parity": 1}, hint="no_such_index").to_list()


async def test_find_one_returns_one_document_or_none(db: Database) -> None:
    assert await db["rows"].find_one({"_id": 5}) == {"_id": 5, "parity": 1}
    assert await db["rows"].find_one({"parity": 1}, {"_id": 1}, sort=[("_id", -1)]) == {"_id": ROWS - 1}
    assert await db["rows"].find_one({"_id": ROWS}) is None


async def test_a_majority_read_of_a_collection_is_direct(db: Database, commands: Commands) -> None:
    at_majority = db["rows"].with_options(read_concern=ReadConcern("majority"))
    commands.clear()

    assert await at_majority.find_one({"_id": 5}) == {"_id": 5, "parity": 1}
    assert len(await (await at_majority.aggregate([{"$match": {"parity": 1}}])).to_list()) == ROWS // 2
    assert len(await db["rows"].find({"parity": 1}).to_list()) == ROWS // 2

    assert [one["readConcern"]["level"] for one in commands.sent] == ["majority", "majority", "local"]
    assert [one for one in commands.sent if "lsid" in one] == []


async def test_other_options_of_a_collection_are_those_of_the_driver(db: Database, commands: Commands) -> None:
    commands.clear()

    found = await db["rows"].with_options(read_concern=ReadConcern("snapshot")).find({"_id": 5}).to_list()

    assert found == [{"_id": 5, "parity": 1}]
    assert "lsid" in commands.sent[0]


async def test_an_aggregation_can_be_read_whole_or_row_by_row(db: Database) -> None:
    stages: list[dict[str, Any]] = [{"$group": {"_id": "$parity", "n": {"$sum": 1}}}, {"$sort": {"_id": 1}}]
    wanted = [{"_id": 0, "n": ROWS // 2}, {"_id": 1, "n": ROWS // 2}]

    assert await (await db["rows"].aggregate(stages)).to_list() == wanted
    assert [row async for row in await db["rows"].aggregate(stages, batchSize=1)] == wanted
    assert [row["_id"] async for row in db["rows"].find({}, sort=[("_id", 1)], limit=3)] == [0, 1, 2]


@pytest.mark.parametrize(
    ("options", "rows", "by_driver"),
    [
        ({}, 100, []),
        ({}, 101, ["find", "getMore"]),
        ({"batch_size": 200}, 199, []),
        ({"batch_size": 50}, 60, ["find", "getMore"]),
    ],
)
async def test_an_iteration_needs_the_driver_only_for_more_than_one_batch(
    db: Database, commands: Commands, options: dict[str, int], rows: int, by_driver: list[str]
) -> None:
    commands.clear()

    found = [row["_id"] async for row in db["rows"].find({"_id": {"$lt": rows}}, sort=[("_id", 1)], **options)]

    assert found == list(range(rows))
    # Only the driver's commands belong to a session.
    assert "lsid" not in commands.sent[0]
    assert [next(iter(command)) for command in commands.sent if "lsid" in command] == by_driver
    assert len(commands.sent) == 1 + len(by_driver)


async def test_an_aggregation_that_writes_runs_without_being_read(db: Database) -> None:
    await db["rows"].aggregate([{"$match": {"_id": 1}}, {"$merge": {"into": "copies"}}])

    assert await db["copies"].find({}).to_list() == [{"_id": 1, "parity": 1}]


async def test_a_result_larger_than_a_batch_is_read_to_the_end(db: Database, commands: Commands) -> None:
    await db["large"].insert_many([{"_id": n, "text": "x" * 1_000_000} for n in range(20)])
    commands.clear()

    found = await db["large"].find({}, sort=[("_id", 1)]).to_list()

    assert [row["_id"] for row in found] == list(range(20))
    stages: list[dict[str, Any]] = [{"$currentOp": {"idleCursors": True}}, {"$match": {"ns": f"{db.name}.large"}}]
    assert await (await db.client["admin"].aggregate(stages)).to_list() == []
    assert any(name.startswith("getMore") for name in commands.names())
    await db["large"].drop()


async def test_each_of_many_concurrent_reads_gets_its_own_answer(db: Database) -> None:
    async def one(number: int) -> None:
        assert await db["rows"].find_one({"_id": number}) == {"_id": number, "parity": number % 2}

    await asyncio.gather(*(one(number % ROWS) for number in range(1_000)))

    assert 1 <= reader_of(db).connections <= links.CONNECTIONS


# PyMongo leaves the socket open if it is cancelled while it connects.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_cancelled_read_leaves_nothing_for_the_next(db: Database) -> None:
    rng = random.Random(7)

    async def one(number: int) -> None:
        task = asyncio.ensure_future(db["rows"].find_one({"_id": number}))
        if rng.random() < 0.3:
            await asyncio.sleep(rng.uniform(0, 0.002))
            task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            assert await task == {"_id": number, "parity": number % 2}

    for _ in range(20):
        await asyncio.gather(*(one(rng.randrange(ROWS)) for _ in range(20)))

    assert await db["rows"].find_one({"_id": 1}) == {"_id": 1, "parity": 1}


async def test_a_read_times_out(settings: Settings) -> None:
    async with opened(replace(settings, database_seconds=1)) as db:
        slow = {"$where": "sleep(20) || true"}

        with pytest.raises((ExecutionTimeout, PyMongoError)) as raised:
            await db["rows"].find(slow).to_list()

        assert isinstance(raised.value, PyMongoError)
        assert raised.value.timeout
        assert await db["rows"].find_one({"_id": 1}) is not None


async def test_a_refused_read_raises_the_error_of_the_driver(db: Database) -> None:
    with pytest.raises(OperationFailure, match="unknown operator") as raised:
        await db["rows"].find({"_id": {"$never": 1}}).to_list()

    assert raised.value.code == 2
    with pytest.raises(bson.errors.InvalidDocument):
        await db["rows"].find({"_id": object()}).to_list()
    assert reader_of(db).connections


async def test_command_listeners_see_the_start_and_the_end_of_each_read(db: Database, commands: Commands) -> None:
    commands.clear()

    await db["rows"].find({"_id": 3}, {"parity": 1}, sort=[("_id", 1)], limit=2).to_list()
    await (await db["rows"].aggregate([{"$match": {"_id": 3}}])).to_list()

    assert commands.names() == ["find rows", "aggregate rows"]
    assert commands.sent[0]["filter"] == {"_id": 3}
    assert (commands.sent[0]["limit"], commands.sent[0]["sort"]) == (2, {"_id": 1})


async def test_no_answer_is_lost_if_a_connection_is_cut(settings: Settings) -> None:
    async with opened_through_wire(settings) as (wire, db):
        for _ in range(5):
            reads = [asyncio.ensure_future(db["rows"].find({}).to_list()) for _ in range(8)]
            await asyncio.sleep(0)
            wire.cut_once()
            assert [len(found) for found in await asyncio.gather(*reads)] == [ROWS] * 8
            await warmed(db)
        # The driver notices that its own connections are cut when it next reads.
        assert len([row async for row in db["rows"].find({})]) == ROWS


async def test_a_closed_connection_refuses_the_next_command_at_once(db: Database) -> None:
    own = links.Links(db.client)
    deadline = time.monotonic() + 30.0
    try:
        async with asyncio.timeout(5):
            while (link := await own.take(deadline)) is None:  # noqa: ASYNC110 - the pool signals nothing
                await asyncio.sleep(0.01)
        link.close()
        await asyncio.sleep(0.1)

        with pytest.raises(links.Lost):
            async with asyncio.timeout(2):
                await link.ask(b"a command", deadline)
    finally:
        await own.close()


async def test_reads_find_the_primary_after_a_step_down(tmp_path: Path) -> None:
    with own_mongodb(tmp_path) as settings:
        async with opened(settings) as db:
            await step_down(db)

            assert await db["rows"].find_one({"_id": 7}) == {"_id": 7, "parity": 1}
            await warmed(db)
            assert await db["rows"].find_one({"_id": 8}) == {"_id": 8, "parity": 0}


async def test_a_server_with_passwords_and_tls_is_read_directly(tmp_path: Path) -> None:
    with secure_mongodb(tmp_path) as uri:
        async with opened(Settings(mongodb_uri=uri, database="secure")) as db:  # type: ignore[arg-type]
            assert await db["rows"].find_one({"_id": 9}) == {"_id": 9, "parity": 1}
            assert len(await db["rows"].find({}).to_list()) == ROWS


async def test_reads_fall_back_to_the_driver_if_its_internals_differ(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(settings) as db:
        monkeypatch.setattr(links.Link, "__init__", lambda *_: {}.missing)  # type: ignore[attr-defined]
        await asyncio.gather(*(db["rows"].find({}).to_list() for _ in range(50)))

        assert await db["rows"].find_one({"_id": 9}) == {"_id": 9, "parity": 1}


async def test_a_setting_sends_all_reads_to_the_driver(settings: Settings) -> None:
    connection = connect(replace(settings, direct_reads=False), str(settings.mongodb_uri))
    try:
        assert not isinstance(connection.database, DirectDatabase)
        assert await connection.database["rows"].find_one({}) is None
    finally:
        await connection.close()


async def test_reads_from_a_secondary_go_through_the_driver(settings: Settings) -> None:
    if settings.driver == "motor":
        pytest.skip("Motor does not read directly")
    connection = connect(replace(settings, read_preference="secondaryPreferred"), str(settings.mongodb_uri))
    try:
        assert isinstance(connection.database, DirectDatabase)
        assert not isinstance(connection.reading, DirectDatabase)
    finally:
        await connection.close()
