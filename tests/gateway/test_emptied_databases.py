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


def store_and_delete_a_list(db: Documents, **options: Any) -> None:
    db["categories"].insert_one({"slug": ["A", "B"]}, **options)
    db["categories"].delete_many({}, **options)


def store_and_delete_a_list_in_a_transaction(db: Documents) -> None:
    with db.client.start_session() as session, session.start_transaction():
        store_and_delete_a_list(db, session=session)


def replace_a_collection(db: Documents) -> None:
    db["other"].insert_one({})
    db["other"].rename("categories", dropTarget=True)


CHANGES: dict[str, Callable[[Documents], Any]] = {
    "store": lambda db: db["categories"].insert_one({"slug": "A"}),
    "store and delete a list": store_and_delete_a_list,
    "store and delete a list in a transaction": store_and_delete_a_list_in_a_transaction,
    "drop an index": lambda db: db["categories"].drop_index("slug_1"),
    "create an index": lambda db: db["categories"].create_index("nonsense"),
    "drop a collection": lambda db: db.drop_collection("categories"),
    "replace a collection": replace_a_collection,
    "drop everything": lambda db: db.client.drop_database(db.name),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
async def test_the_next_test_finds_no_documents_and_the_indexes_of_the_domains(
    settings: Settings, database: Documents, change: Callable[[Documents], Any]
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
