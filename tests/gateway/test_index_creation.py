"""A start creates the missing indexes, and `rebuild` replaces outdated ones."""

from __future__ import annotations

from typing import Any

import pytest
from pymongo import IndexModel
from pymongo.monitoring import CommandFailedEvent, CommandListener, CommandStartedEvent, CommandSucceededEvent

from portico.gateway.mongo.driver import connect
from portico.gateway.settings import Settings
from portico.resolvers import indexes
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Database
from tests.support.domains import create_indexes

pytestmark = pytest.mark.both_drivers


class Builds(CommandListener):
    """Notes the time limit of each command that builds indexes."""

    def __init__(self) -> None:
        self.limits: list[Any] = []

    def started(self, event: CommandStartedEvent) -> None:
        if event.command_name == "createIndexes":
            self.limits.append(event.command.get("maxTimeMS"))

    def succeeded(self, event: CommandSucceededEvent) -> None: ...

    def failed(self, event: CommandFailedEvent) -> None: ...


async def test_rebuild_replaces_an_index_that_another_version_defined_differently(db: Database) -> None:
    products = db[PRODUCTS.name]
    await products.drop_index("search")
    await products.create_indexes([IndexModel([("title", "text")], name="search", default_language="english")])
    await products.drop_index("sku_1")
    await products.create_indexes([IndexModel([("sku", 1)], name="by_sku")])

    made = {collection: names async for collection, names in create_indexes(db, rebuild=True)}

    found = {index["name"]: index async for index in await products.list_indexes()}
    assert set(made[PRODUCTS.name]) | {"_id_"} <= set(found)
    assert found["search"]["default_language"] == "none"
    assert found["sku_1"]["unique"] is True


async def test_a_start_keeps_an_index_that_another_version_defined_differently(db: Database) -> None:
    products = db[PRODUCTS.name]
    await products.drop_index("search")
    await products.drop_index("schema_version_1")
    await products.create_indexes([IndexModel([("title", "text")], name="other_search", default_language="english")])

    async for _ in create_indexes(db):
        pass

    found = await products.index_information()
    assert found["other_search"]["default_language"] == "english"
    assert "search" not in found
    assert "schema_version_1" in found


async def test_creating_the_indexes_again_changes_nothing(db: Database) -> None:
    before = await db[PRODUCTS.name].index_information()

    async for _ in create_indexes(db):
        pass

    assert await db[PRODUCTS.name].index_information() == before


async def test_the_build_of_an_index_has_no_time_limit(db: Database, settings: Settings) -> None:
    builds = Builds()
    connection = connect(settings, str(settings.mongodb_uri), [builds])
    await db[PRODUCTS.name].drop_index("search")
    await db[PRODUCTS.name].create_indexes([IndexModel([("title", "text")], name="search")])

    async for _ in indexes.create_indexes(connection.database, [PRODUCTS], rebuild=True):
        pass

    await connection.close()
    # All indexes together, then each by itself, and the outdated one again.
    assert builds.limits == [None] * (len(PRODUCTS.indexes) + 2)
