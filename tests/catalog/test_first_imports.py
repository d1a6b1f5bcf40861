"""The first import of products builds the indexes that only reads need at its end, also after it was killed."""

from __future__ import annotations

import io
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from pymongo.errors import AutoReconnect
from rich.console import Console

from portico.gateway.cli import data
from portico.gateway.mongo.faults import Crash
from portico.gateway.settings import Settings
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.documents import Database
from portico.resolvers.indexes import filling
from tests.catalog.support.catalog import add_products, product, skus
from tests.support.harness import GatewayClient, assert_invariants, running
from tests.support.importing import lines, write
from tests.support.interruptions import interrupted

NEEDED = {"_id_", "deleting.at_1", "incoming.at_1", "incoming.ids_1", "schema_version_1", "sku_1"}
ALL = NEEDED | {index.document["name"] for index in PRODUCTS.indexes}


@pytest.fixture
async def empty(settings: Settings) -> AsyncIterator[GatewayClient]:
    """Yield a gateway on a database of its own, which has all indexes and no products."""
    async with running(replace(settings, database=f"{settings.database}_first")) as gateway:
        try:
            yield gateway
        finally:
            await gateway.db.client.drop_database(gateway.db.name)


async def names(db: Database) -> set[str]:
    return set(await db[PRODUCTS.name].index_information())


async def test_an_import_into_an_empty_collection_builds_the_indexes_of_reads_at_its_end(empty: GatewayClient) -> None:
    assert await names(empty.db) == ALL

    async with filling(empty.db, PRODUCTS):
        assert await names(empty.db) == NEEDED
        await add_products(empty.db, [product(sku="a", title="So What")])

    assert await names(empty.db) == ALL
    assert await skus(empty, titleWord="what") == ["a"]


async def test_a_later_import_keeps_the_indexes(empty: GatewayClient) -> None:
    await add_products(empty.db, [product(sku="a")])

    async with filling(empty.db, PRODUCTS):
        assert await names(empty.db) == ALL


async def test_the_next_import_builds_the_indexes_that_a_killed_one_has_left(
    empty: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    async def kill() -> None:
        raise Crash

    # A block that a test leaves open would go on when the collector finds it, in the middle of another test.
    with pytest.raises(Crash):
        async with filling(interrupted(empty.db, PRODUCTS.name, "create_indexes", kill, skip=1), PRODUCTS):
            await add_products(empty.db, [product(sku="a", title="So What")])
    assert await names(empty.db) == NEEDED
    listed = await skus(empty, titleWord="what")
    searched = await empty.ask('{ products(filter: { search: "what" }) { nodes { sku } } }')
    file = write(tmp_path / "products.jsonl", lines([product(sku="a", title="So What"), product(sku="b")]))
    console = Console(file=io.StringIO())

    is_valid = await data.import_files(replace(settings, database=empty.db.name), "products", [file], console, console)

    assert (is_valid, listed, searched.codes) == (True, ["a"], ["UNAVAILABLE"])
    assert await names(empty.db) == ALL
    assert await skus(empty, search="what") == ["a"]
    await assert_invariants(empty)


async def test_an_import_that_fails_builds_the_indexes(empty: GatewayClient) -> None:
    with pytest.raises(OSError, match="cannot be read"):
        async with filling(empty.db, PRODUCTS):
            raise OSError("a file that cannot be read")

    assert await names(empty.db) == ALL


async def test_two_first_imports_at_the_same_time_build_the_indexes(empty: GatewayClient) -> None:
    async def drop() -> None:
        await empty.db[PRODUCTS.name].drop_index("search")

    # The other one drops an index that this one is about to drop.
    async with filling(interrupted(empty.db, PRODUCTS.name, "drop_index", drop), PRODUCTS):
        assert await names(empty.db) == NEEDED

    assert await names(empty.db) == ALL


async def test_an_import_that_loses_its_database_leaves_the_indexes_to_the_next_one(empty: GatewayClient) -> None:
    with pytest.raises(AutoReconnect):
        async with filling(empty.db, PRODUCTS):
            raise AutoReconnect("connection closed")

    assert await names(empty.db) == NEEDED
    async with filling(empty.db, PRODUCTS):
        pass
    assert await names(empty.db) == ALL
