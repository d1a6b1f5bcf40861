"""Writes that bypass the driver have the effects and the errors of the driver, once, also if their reply is lost."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from bson import ObjectId
from bson.errors import InvalidDocument
from pymongo import AsyncMongoClient, ReturnDocument
from pymongo.errors import (
    BulkWriteError,
    DuplicateKeyError,
    OperationFailure,
    PyMongoError,
    WriteConcernError,
    WriteError,
)

from portico.gateway.mongo import embedded, links
from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database, Update
from tests.gateway.support.direct import (
    VALUES,
    opened,
    opened_through_wire,
    own_mongodb,
    plain,
    step_down,
    warmed_to_write,
    writer_of,
)
from tests.support.harness import Commands

WRITES = 8


@pytest.fixture
async def db(settings: Settings, commands: Commands) -> AsyncIterator[Database]:
    async with opened(settings, commands) as database:
        await warmed_to_write(database)
        commands.clear()
        yield database


Call = Callable[[Any], Awaitable[Any]]


async def results_by_both(db: Database, commands: Commands, stored: dict[str, Any], call: Call) -> Any:
    """Calls by the driver and directly, each time with this document alone. Asserts that both have the same effect.

    Returns:  the results of both.
    """
    results, effects = [], []
    for one in (plain(db), db):
        await plain(db)["written"].delete_many({})
        await plain(db)["written"].insert_one(dict(stored))
        commands.clear()
        results.append(await call(one["written"]))
        effects.append(await plain(db)["written"].find({}).to_list())
    assert effects[0] == effects[1]
    return results


def adding(db: Database, keys: Iterable[int]) -> list[asyncio.Future[Any]]:
    """Begins to add one to the number of each of these documents."""
    added = {"$inc": {"n": 1}}
    return [asyncio.ensure_future(db["written"].update_one({"_id": key}, added, upsert=True)) for key in keys]


def direct(commands: Commands) -> list[str]:
    """The commands that did not go by the driver: only the driver sends the times of the cluster."""
    return [next(iter(command)) for command in commands.sent if "$clusterTime" not in command]


async def test_an_inserted_document_is_the_one_that_the_driver_would_insert(db: Database, commands: Commands) -> None:
    await plain(db)["written"].insert_one({"_id": 1, **VALUES})

    given = {**VALUES}
    result = await db["written"].insert_one(given)

    assert direct(commands) == ["insert"]
    assert result.inserted_id == given["_id"]
    assert isinstance(given["_id"], ObjectId)
    [one, other] = await plain(db)["written"].find({}).to_list()
    assert list(one) == list(other) == ["_id", *VALUES]
    assert {**one, "_id": None} == {**other, "_id": None}


@pytest.mark.parametrize(
    ("query", "change", "options"),
    [
        ({"_id": 1}, {"$inc": {"n": 1}}, {}),
        ({"_id": 1}, {"$set": {"n": 0}}, {}),
        ({"_id": 1}, [{"$set": {"n": {"$add": ["$n", 5]}}}], {}),
        ({"_id": 2}, {"$inc": {"n": 1}}, {}),
        ({"_id": 2}, {"$inc": {"n": 1}}, {"upsert": True}),
        ({"_id": 1}, {"$inc": {"n": 1}}, {"upsert": True}),
        ({"_id": 1}, {"$inc": {"list.$[one].n": 1}}, {"array_filters": [{"one.n": 2}]}),
    ],
    ids=str,
)
async def test_an_update_has_the_result_of_the_driver(
    db: Database, commands: Commands, query: Any, change: Any, options: dict[str, Any]
) -> None:
    async def update(written: Any) -> Any:
        result = await written.update_one(query, change, **options)
        return result.matched_count, result.modified_count, result.upserted_id, result.did_upsert

    stored = {"_id": 1, "n": 0, "list": [{"n": 1}, {"n": 2}]}
    by_driver, directly = await results_by_both(db, commands, stored, update)

    assert direct(commands)[0] == "update"
    assert by_driver == directly


@pytest.mark.parametrize(
    "options",
    [{}, {"return_document": ReturnDocument.AFTER}, {"upsert": True}, {"projection": {"_id": 1}}, {"projection": None}],
    ids=str,
)
@pytest.mark.parametrize("key", [1, 2])
async def test_a_find_and_update_returns_the_document_that_the_driver_returns(
    db: Database, commands: Commands, key: int, options: dict[str, Any]
) -> None:
    async def update(written: Any) -> Any:
        given = {"_id": key}, {"$inc": {"n": 1}}
        first = await written.find_one_and_update(*given, **options)
        return first, await written.find_one_and_update(*given, {"n": 1})

    by_driver, directly = await results_by_both(db, commands, {"_id": 1, "n": 0}, update)

    assert direct(commands)[:2] == ["findAndModify"] * 2
    assert by_driver == directly


async def test_a_deletion_has_the_result_of_the_driver(db: Database, commands: Commands) -> None:
    await plain(db)["written"].insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 1}])
    commands.clear()

    deleted = await db["written"].delete_one({"n": 1})
    missing = await db["written"].delete_one({"n": 2})

    assert direct(commands) == ["delete", "delete"]
    assert (deleted.deleted_count, missing.deleted_count) == (1, 0)
    assert await plain(db)["written"].count_documents({}) == 1


async def test_a_bulk_has_the_result_of_the_driver(db: Database, commands: Commands) -> None:
    updates = [
        Update({"_id": 1}, {"$inc": {"n": 1}}),
        Update({"_id": 1, "n": 7}, {"$inc": {"n": 1}}),
        Update({"_id": 2}, {"$setOnInsert": {"n": 1}}, upsert=True),
        Update({"_id": 1}, {"$set": {"n": 1}}),
    ]

    async def write(written: Any) -> Any:
        return (await written.bulk_write(updates, ordered=True)).bulk_api_result

    by_driver, directly = await results_by_both(db, commands, {"_id": 1, "n": 0}, write)

    assert direct(commands) == ["update"]
    assert by_driver == directly


async def test_the_errors_are_those_of_the_driver(db: Database, commands: Commands) -> None:
    written = db["written"]
    await written.insert_one({"_id": 1, "n": "text"})
    commands.clear()
    failing = Update({"_id": 1}, {"$inc": {"n": 1}})
    with pytest.raises(DuplicateKeyError):
        await written.insert_one({"_id": 1})
    with pytest.raises(WriteError, match="non-numeric") as refused:
        await written.update_one({"_id": 1}, {"$inc": {"n": 1}})
    with pytest.raises(OperationFailure, match="non-numeric"):
        await written.find_one_and_update({"_id": 1}, {"$inc": {"n": 1}})
    with pytest.raises(BulkWriteError) as partly:
        await written.bulk_write([failing, Update({"_id": 2}, {"$set": {"n": 1}}, upsert=True)], ordered=False)

    assert refused.value.code == 14
    assert [(error["index"], error["code"]) for error in partly.value.details["writeErrors"]] == [(0, 14)]
    assert partly.value.details["nUpserted"] == 1
    assert direct(commands) == ["insert", "update", "findAndModify", "update"]
    with pytest.raises(InvalidDocument):
        await written.insert_one({"_id": object()})
    with pytest.raises(ValueError, match=r"\$"):
        await written.update_one({"_id": 1}, {"n": 1})
    assert await plain(db)["written"].count_documents({}) == 2


async def test_a_large_write_and_one_with_other_options_go_by_the_driver(db: Database, commands: Commands) -> None:
    await db["written"].insert_one({"_id": 1, "text": "x" * 1_000_000})
    await db["written"].update_one({"_id": 2}, {"$set": {"a": 1}}, hint="_id_")
    await db["written"].find_one_and_update({"_id": 1}, {"$set": {"n": 1}}, ["n"])

    assert direct(commands) == []
    assert await plain(db)["written"].count_documents({"n": 1}) == 1


async def test_concurrent_writes_have_their_effects_once_each(db: Database, commands: Commands) -> None:
    await asyncio.gather(*adding(db, [1] * 400))

    assert await plain(db)["written"].find_one({"_id": 1}) == {"_id": 1, "n": 400}
    assert 1 <= writer_of(db).connections <= links.CONNECTIONS
    assert direct(commands)


@pytest.fixture(scope="module")
def failing_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A MongoDB that fails when a test asks for it."""
    folder = tmp_path_factory.mktemp("failing")
    program = folder / "mongod"
    program.write_text(f'#!/bin/sh\nexec {embedded.find_mongod(Settings())} "$@" --setParameter enableTestCommands=1\n')
    program.chmod(0o700)
    hold = embedded.attach(Settings(data_dir=folder, mongod=str(program)))
    yield hold.uri
    hold.close()


@pytest.fixture
async def faulty(settings: Settings, failing_uri: str, commands: Commands) -> AsyncIterator[Database]:
    async with opened(replace(settings, mongodb_uri=Secret(failing_uri)), commands) as database:
        await warmed_to_write(database)
        commands.clear()
        yield database


@contextlib.asynccontextmanager
async def failing(db: Database, mode: Any, **facts: Any) -> AsyncIterator[None]:
    """Makes inserts and updates fail."""
    data = {"failCommands": ["insert", "update", "findAndModify"], **facts}
    await db.client["admin"].command("configureFailPoint", "failCommand", mode=mode, data=data)
    try:
        yield
    finally:
        await db.client["admin"].command("configureFailPoint", "failCommand", mode="off")


LOSSES = [
    pytest.param({"errorCode": 10107, "errorLabels": ["RetryableWriteError"]}, id="no longer primary"),
    pytest.param({"closeConnection": True}, id="closed before the write"),
    pytest.param(
        {"writeConcernError": {"code": 91, "errmsg": "stopping"}, "errorLabels": ["RetryableWriteError"]},
        id="not yet on a majority",
    ),
]


@pytest.mark.sample(3)
@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("facts", LOSSES)
async def test_a_write_that_fails_for_the_moment_is_repeated(
    faulty: Database, commands: Commands, facts: dict[str, Any], times: int
) -> None:
    counted = {"$inc": {"n": 1}}
    async with failing(faulty, {"times": times}, **facts):
        await faulty["written"].update_one({"_id": 1}, counted, upsert=True)

    updates = [command for command in commands.sent if "update" in command]
    assert len(updates) == times + 1
    assert len({(str(command["lsid"]), command["txnNumber"]) for command in updates}) == 1
    assert await plain(faulty)["written"].find_one({"_id": 1}) == {"_id": 1, "n": 1}
    await faulty["written"].update_one({"_id": 1}, counted)
    assert await plain(faulty)["written"].find_one({"_id": 1}) == {"_id": 1, "n": 2}


async def test_a_write_that_is_not_on_a_majority_raises_the_error_of_the_driver(faulty: Database) -> None:
    async with failing(faulty, "alwaysOn", writeConcernError={"code": 100, "errmsg": "too few members"}):
        with pytest.raises(WriteConcernError, match="too few members"):
            await faulty["written"].insert_one({"_id": 1})
        with pytest.raises(BulkWriteError) as unconfirmed:
            await faulty["written"].bulk_write([Update({"_id": 1}, {"$set": {"n": 1}})])

    assert [error["code"] for error in unconfirmed.value.details["writeConcernErrors"]] == [100]


async def test_writes_whose_replies_are_lost_have_one_effect_each(settings: Settings) -> None:
    observer = AsyncMongoClient[Any](str(settings.mongodb_uri))
    async with opened_through_wire(settings) as (wire, cut_off):
        await warmed_to_write(cut_off, WRITES)
        wire.mute()
        writes = adding(cut_off, range(WRITES))
        async with asyncio.timeout(10):
            while await observer[cut_off.name]["written"].count_documents({}) < WRITES:  # noqa: ASYNC110 - MongoDB signals nothing
                await asyncio.sleep(0.01)
        wire.cut_once()
        results = await asyncio.gather(*writes)
        found = await plain(cut_off)["written"].find({}).to_list()
    await observer.close()

    assert sorted(one["_id"] for one in found) == list(range(WRITES))
    assert {one["n"] for one in found} == {1}
    assert [result.upserted_id for result in results] == list(range(WRITES))


async def test_a_write_is_sent_again_to_a_node_that_knew_no_sessions_when_it_was_connected(settings: Settings) -> None:
    """A node that has just been started says for a moment that it knows none. The driver keeps such a connection."""
    async with opened_through_wire(settings) as (wire, db):
        await warmed_to_write(db)
        wire.mute()
        [writing] = adding(db, [1])
        await asyncio.sleep(0.2)
        wire.hides_sessions = True
        wire.cut_once()
        await asyncio.sleep(1)
        wire.hides_sessions = False
        result = await writing
        found = await plain(db)["written"].find({}).to_list()

    assert found == [{"_id": 1, "n": 1}]
    assert result.upserted_id == 1


async def test_writes_have_one_effect_each_while_connections_are_cut(settings: Settings) -> None:
    async with opened_through_wire(settings) as (wire, db):
        for number in range(5):
            await warmed_to_write(db, WRITES)
            writes = adding(db, range(number * WRITES, (number + 1) * WRITES))
            await asyncio.sleep(0.002 * number)
            wire.cut_once()
            await asyncio.gather(*writes)
        found = await plain(db)["written"].find({}).to_list()

    assert len(found) == 5 * WRITES
    assert {one["n"] for one in found} == {1}


async def test_a_cancelled_write_leaves_nothing_for_the_next(db: Database) -> None:
    for number in range(100):
        task = asyncio.ensure_future(db["written"].insert_one({"_id": number}))
        await asyncio.sleep(0.0001 * (number % 10))
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            assert (await task).inserted_id == number
        await db["written"].update_one({"_id": "next"}, {"$inc": {"n": 1}}, upsert=True)

    assert await plain(db)["written"].find_one({"_id": "next"}) == {"_id": "next", "n": 100}


async def test_a_write_times_out_while_the_server_does_not_reply(settings: Settings) -> None:
    async with opened_through_wire(replace(settings, database_seconds=1)) as (wire, db):
        await warmed_to_write(db)
        wire.block()
        try:
            async with asyncio.timeout(10):
                with pytest.raises(PyMongoError) as raised:
                    await db["written"].update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)
        finally:
            wire.unblock()
        assert raised.value.timeout


async def test_writes_find_the_primary_after_a_step_down(tmp_path: Path) -> None:
    with own_mongodb(tmp_path) as settings:
        async with opened(settings) as db:
            await warmed_to_write(db, WRITES)
            writes = adding(db, [1] * WRITES)
            await step_down(db)
            await asyncio.gather(*writes)
            await db["written"].update_one({"_id": 1}, {"$inc": {"n": 1}})

            assert await plain(db)["written"].find_one({"_id": 1}) == {"_id": 1, "n": WRITES + 1}


async def test_sessions_are_shared_with_the_driver_only_when_all_is_closed(settings: Settings) -> None:
    connection = connect(settings, str(settings.mongodb_uri))
    try:
        if not hasattr(connection.database, "writer"):
            pytest.skip("Motor does not write directly")
        await warmed_to_write(connection.database)
        for number in range(20):
            await connection.database["written"].insert_one({"_id": number})
            await plain(connection.database)["written"].update_one({"_id": number}, {"$set": {"n": 1}})
        assert await plain(connection.database)["written"].count_documents({"n": 1}) == 20
        await plain(connection.database)["written"].drop()
    finally:
        await connection.close()
