"""Each test finds its database empty, and with the indexes of the domains, whatever an earlier test did."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.database import Database

from portico.gateway.settings import Settings
from tests.support.databases import LISTS, empty, has_indexes, lists_in_indexes
from tests.support.domains import COLLECTIONS
from tests.support.harness import running

Documents = Database[dict[str, Any]]
INDEXES = {
    spec.name: {"_id_", *(index.document["name"] for index in spec.indexes)} for spec in COLLECTIONS if spec.indexes
}


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Documents]:
    """A database that has been emptied before, as for the second test."""
    async with running(settings):
        pass
    with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
        empty(client[settings.database])
        yield client[settings.database]


def store(db: Documents) -> None:
    db["categories"].insert_one({"slug": "A"})


def store_and_delete_a_list(db: Documents) -> None:
    db["categories"].insert_one({"slug": ["A", "B"]})
    db["categories"].delete_many({})


def store_and_delete_a_list_in_a_transaction(db: Documents) -> None:
    with db.client.start_session() as session, session.start_transaction():
        db["categories"].insert_one({"slug": ["A", "B"]}, session=session)
        db["categories"].delete_many({}, session=session)


def drop_an_index(db: Documents) -> None:
    db["categories"].drop_index("slug_1")


def create_an_index(db: Documents) -> None:
    db["categories"].create_index("nonsense")


def drop_a_collection(db: Documents) -> None:
    db.drop_collection("categories")


def replace_a_collection(db: Documents) -> None:
    db["other"].insert_one({})
    db["other"].rename("categories", dropTarget=True)


def drop_everything(db: Documents) -> None:
    db.client.drop_database(db.name)


@pytest.mark.parametrize(
    "change",
    [
        store,
        store_and_delete_a_list,
        store_and_delete_a_list_in_a_transaction,
        drop_an_index,
        create_an_index,
        drop_a_collection,
        replace_a_collection,
        drop_everything,
    ],
)
async def test_the_next_test_finds_no_documents_and_the_indexes_of_the_domains(
    settings: Settings, database: Documents, change: Callable[[Documents], None]
) -> None:
    for _ in range(2):
        change(database)
        empty(database)

        names = database.list_collection_names()
        assert [name for name in names if database[name].find_one() is not None] == []
        found = {name: set(database[name].index_information()) for name in INDEXES}
        assert found == INDEXES
        assert lists_in_indexes(str(settings.mongodb_uri), database.name) <= LISTS


async def test_a_database_that_no_gateway_has_used_has_no_indexes(settings: Settings) -> None:
    with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
        unused = client[f"{settings.database}_unused"]
        for _ in range(3):
            empty(unused)
            assert not has_indexes(unused.name)
