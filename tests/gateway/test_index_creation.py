"""A start creates the missing indexes, and `rebuild` replaces outdated ones."""

from __future__ import annotations

import pytest
from pymongo import IndexModel

from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Database
from tests.support.domains import create_indexes

pytestmark = pytest.mark.both_drivers


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
