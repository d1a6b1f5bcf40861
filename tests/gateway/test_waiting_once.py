"""A write of two steps may wait for a majority once: what the first step wrote is never lost without the second."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import bson
import pytest
from bson import Int64
from pymongo import ReturnDocument
from pymongo.errors import AutoReconnect, DuplicateKeyError, PyMongoError
from pymongo.read_concern import ReadConcern
from pymongo.write_concern import WriteConcern

from portico.gateway.mongo.messages import HEAD, message
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database
from portico.resolvers.writes.waiting_once import Notes
from tests.gateway.support.direct import another_connection, opened, plain, warmed_to_write
from tests.gateway.support.fixtures import nodes_with
from tests.support.harness import Commands
from tests.support.processes import eventually
from tests.support.replica_sets import START_SECONDS, TEST_COMMANDS, ReplicaSet

MAJORITY, PRIMARY_ALONE = {"w": "majority"}, {"w": 1}
three = nodes_with(*TEST_COMMANDS)


@pytest.fixture
async def db(settings: Settings, commands: Commands) -> AsyncIterator[Database]:
    async with opened(settings, commands) as database:
        await warmed_to_write(database, 2)
        commands.clear()
        yield database
        await plain(database)["written"].drop()


def concerns(commands: Commands) -> list[Any]:
    return [command["writeConcern"] for command in commands.sent if "writeConcern" in command]


async def insert(db: Database, key: str) -> None:
    await db["written"].insert_one({"_id": key})


async def keys(db: Database) -> list[str]:
    return sorted([row["_id"] async for row in plain(db)["written"].find({"_id": {"$ne": "none"}})])


async def test_a_note_waits_for_the_primary_alone_if_the_decision_follows_on_an_older_connection(
    db: Database, commands: Commands
) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        await notes.deciding(insert(db, "decision"))

    assert concerns(commands) == [PRIMARY_ALONE, MAJORITY]
    assert await keys(db) == ["decision", "note"]


async def test_a_decision_on_a_newer_connection_confirms_the_note_first(db: Database, commands: Commands) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        # As if the connection had been opened after the note.
        notes.waiting[0]._sent_at = 0.0  # type: ignore[attr-defined]
        await notes.deciding(insert(db, "decision"))

    assert concerns(commands) == [PRIMARY_ALONE, MAJORITY, MAJORITY]
    noted, confirmed, _ = [command for command in commands.sent if "writeConcern" in command]
    assert (noted["lsid"], noted["txnNumber"]) == (confirmed["lsid"], confirmed["txnNumber"])
    assert await keys(db) == ["decision", "note"]


async def test_a_connection_that_opens_between_a_note_and_its_decision_is_not_used_for_the_decision(
    db: Database, commands: Commands
) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        await another_connection(db)
        await notes.deciding(insert(db, "decision"))

    assert concerns(commands) == [PRIMARY_ALONE, MAJORITY]


async def test_a_decision_that_the_driver_sends_confirms_the_note_first(db: Database, commands: Commands) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        await notes.deciding(db["written"].insert_one({"_id": "decision", "text": "x" * 1_100_000}))

    assert concerns(commands)[:2] == [PRIMARY_ALONE, MAJORITY]
    assert await keys(db) == ["decision", "note"]


async def test_a_note_is_confirmed_once_for_all_attempts_to_decide(db: Database, commands: Commands) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        notes.waiting[0]._sent_at = 0.0  # type: ignore[attr-defined]
        missed = db["written"].update_one({"_id": "missing"}, {"$set": {"n": 1}})
        assert not (await Notes([notes]).deciding(missed)).matched_count
        await Notes([notes]).deciding(insert(db, "decision"))

    assert concerns(commands) == [PRIMARY_ALONE, MAJORITY, MAJORITY, MAJORITY]


@pytest.mark.parametrize("projection", [None, {"n": 1}])
async def test_a_note_that_returns_its_document_is_confirmed_with_the_same_document(
    db: Database, projection: dict[str, int] | None
) -> None:
    await plain(db)["written"].insert_one({"_id": "open", "n": 1})
    noted = db["written"].find_one_and_update(
        {"_id": "open"}, {"$inc": {"held": 1}}, projection, return_document=ReturnDocument.AFTER
    )
    with Notes() as notes:
        assert (await notes.noting(noted) or {})["n"] == 1
        notes.waiting[0]._sent_at = 0.0  # type: ignore[attr-defined]
        await plain(db)["written"].update_one({"_id": "open"}, {"$set": {"n": 2}})
        await notes.deciding(insert(db, "decision"))

    assert await keys(db) == ["decision", "open"]


async def test_nothing_is_decided_if_a_note_returns_another_document_now(db: Database) -> None:
    await plain(db)["written"].insert_one({"_id": "open", "n": 1})
    noted = db["written"].find_one_and_update(
        {"_id": "open"}, {"$inc": {"held": 1}}, return_document=ReturnDocument.AFTER
    )
    with Notes() as notes:
        assert await notes.noting(noted) == {"_id": "open", "n": 1, "held": 1}
        # As if the server had rolled it back, together with what another writer had written before.
        note: Any = notes.waiting[0]
        note._command["txnNumber"] = Int64(note._command["txnNumber"] + 1)
        note._sent_at = 0.0
        await plain(db)["written"].replace_one({"_id": "open"}, {"n": 2})
        with pytest.raises(AutoReconnect):
            await notes.deciding(insert(db, "decision"))

    assert await keys(db) == ["open"]


async def test_a_write_that_has_matched_nothing_is_no_note_and_is_not_sent_again(db: Database) -> None:
    """Its second attempt is the note. Repeated before the decision, the first one would match, too."""
    await plain(db)["written"].insert_one({"_id": "moved", "n": 1})
    adding = {"$push": {"held": "one"}}
    with Notes() as notes:
        assert await notes.noting(db["written"].find_one_and_update({"_id": "moved", "n": 2}, adding)) is None
        assert not (await notes.noting(db["written"].update_one({"_id": "moved", "n": 2}, adding))).matched_count
        await plain(db)["written"].update_one({"_id": "moved"}, {"$set": {"n": 2}})
        assert await notes.noting(db["written"].find_one_and_update({"_id": "moved", "n": 2}, adding)) is not None
        for note in notes.waiting:
            note._sent_at = 0.0  # type: ignore[attr-defined]
        await notes.deciding(insert(db, "decision"))

    assert await keys(db) == ["decision", "moved"]
    assert (await plain(db)["written"].find_one({"_id": "moved"}) or {})["held"] == ["one"]


async def test_writes_after_a_decision_wait_for_a_majority_again(db: Database, commands: Commands) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        await insert(db, "other")
        await notes.deciding(insert(db, "decision"))
    await insert(db, "later")

    assert concerns(commands) == [PRIMARY_ALONE, MAJORITY, MAJORITY, MAJORITY]


async def test_a_note_that_is_forgotten_cannot_be_relied_on(db: Database) -> None:
    notes = Notes()
    with notes:
        await notes.noting(insert(db, "note"))
        [note] = notes.waiting
    with pytest.raises(AutoReconnect):
        await note.confirm()


@pytest.mark.parametrize("is_forgotten", [True, False])
async def test_the_session_of_a_note_is_used_again_when_nothing_relies_on_it(
    db: Database, commands: Commands, is_forgotten: bool
) -> None:
    with Notes() as notes:
        await notes.noting(insert(db, "note"))
        if not is_forgotten:
            await insert(db, "other")
    if is_forgotten:
        await insert(db, "other")

    noted, other = [command["lsid"] for command in commands.sent if "writeConcern" in command]
    assert (noted == other) is is_forgotten


class Wire:
    """A connection to a node, without a driver that would open it again."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=START_SECONDS)
        # Without it, the server does not know yet what it is connected with.
        self.ask({"hello": 1})

    def ask(self, command: dict[str, Any]) -> dict[str, Any]:
        self._socket.sendall(message({**command, "$db": "wire"}))
        size = HEAD.unpack(head := self._read(HEAD.size))[0]
        return bson.decode(self._read(size - len(head)))

    def _read(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            if not (part := self._socket.recv(size - len(found))):
                raise ConnectionResetError
            found += part
        return found

    def close(self) -> None:
        self._socket.close()


@pytest.mark.timeout(180)
def test_a_server_that_rolls_back_a_write_closes_its_connections_first(three: ReplicaSet) -> None:
    """The fact about MongoDB that `waiting_once` rests on."""
    with contextlib.ExitStack() as stack:
        with three.unreplicated() as former:
            wire = stack.enter_context(contextlib.closing(Wire(former)))
            before = three.rollbacks(former)
            answer = wire.ask({"insert": "notes", "documents": [{"_id": 1}], "writeConcern": PRIMARY_ALONE})
            assert answer["n"] == 1
            three.stall(former)
        roll_back(three, former, before)

        with pytest.raises(ConnectionError):
            wire.ask({"hello": 1})
        client = stack.enter_context(three.client(former))
        assert client["wire"]["notes"].find_one({"_id": 1}) is None


@pytest.mark.timeout(180)
def test_a_server_that_loses_its_role_without_a_rollback_keeps_its_connections(three: ReplicaSet) -> None:
    former = eventually(three.primary, START_SECONDS)
    with contextlib.closing(Wire(former)) as wire:
        before = three.rollbacks(former)
        answer = wire.ask({"insert": "notes", "documents": [{"_id": 2}], "writeConcern": MAJORITY})
        assert answer["n"] == 1
        three.step_down()

        assert wire.ask({"hello": 1})["ok"]
        assert three.rollbacks(former) == before


def roll_back(three: ReplicaSet, former: int, before: int) -> None:
    """Elects another primary than the one that is stalled, and lets that one roll back what only it has."""
    try:
        three.wait_for_new_primary(former)
    finally:
        three.resume(former)

    def has_rolled_back() -> bool:
        with contextlib.suppress(PyMongoError):
            return three.rollbacks(former) > before
        return False

    eventually(has_rolled_back, START_SECONDS)
    three.wait_until_secondary(former)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("still_matches", [True, False])
async def test_nothing_is_decided_without_a_note_that_is_rolled_back(
    settings: Settings, three: ReplicaSet, *, still_matches: bool
) -> None:
    own = replace(settings, mongodb_uri=Secret(three.uri), database=f"waiting_once_{still_matches}")
    async with opened(own) as db:
        await warmed_to_write(db, 2)
        await db["written"].insert_one({"_id": "open"})
        with Notes() as notes:
            with three.unreplicated() as former:
                before = three.rollbacks(former)
                noted = db["written"].update_one({"_id": "open"}, {"$push": {"entries": 1}})
                assert (await notes.noting(noted)).matched_count
                three.stall(former)
            await asyncio.to_thread(roll_back, three, former, before)
            if not still_matches:
                await plain(db)["written"].delete_one({"_id": "open"})
            deciding = notes.deciding(insert(db, "decision"))
            if still_matches:
                await deciding
            else:
                with pytest.raises(AutoReconnect):
                    await deciding

        found = {row["_id"]: row async for row in plain(db)["written"].find({"_id": {"$in": ["open", "decision"]}})}
        assert ("decision" in found) is still_matches
        assert not still_matches or found["open"]["entries"] == [1]


# Writes that are no notes


async def test_a_write_waits_for_the_primary_alone_only_where_that_is_asked_for(
    settings: Settings, commands: Commands
) -> None:
    async with opened(settings, commands) as db:
        await warmed_to_write(db)
        commands.clear()
        alone = db["written"].with_options(write_concern=WriteConcern(w=1))

        await alone.update_one({"_id": 1}, {"$inc": {"n": 1}}, upsert=True)
        with pytest.raises(DuplicateKeyError):
            await alone.insert_one({"_id": 1})
        await alone.with_options(read_concern=ReadConcern("majority")).update_one({"_id": 1}, {"$inc": {"n": 1}})
        await db["written"].update_one({"_id": 1}, {"$inc": {"n": 1}})
        sent = list(commands.sent)
        found = await plain(db)["written"].find_one({})
        await plain(db)["written"].drop()

    assert [command["writeConcern"] for command in sent] == [{"w": 1}, {"w": 1}, {"w": 1}, {"w": "majority"}]
    # Only the driver sends the times of the cluster.
    assert not any("$clusterTime" in command for command in sent)
    assert found == {"_id": 1, "n": 3}
