"""Catalogs for tests to read: products and categories as import records, and a gateway that several tests share."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Any, cast

import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.domains.catalog.records import category_record, product_record
from portico.gateway.settings import Driver, ExecutorName, Settings
from portico.resolvers.catalog.category_imports import import_categories
from portico.resolvers.catalog.product_edits import new_document
from portico.resolvers.catalog.product_imports import import_products
from portico.resolvers.catalog.product_jobs import find_wrong_products
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Database, Document
from tests.support.databases import database
from tests.support.harness import SECRET, GatewayClient, running

Given = dict[str, Any]
_BATCH = 500
_numbers = itertools.count(1)

SKUS = """
query ($filter: ProductFilter, $sort: ProductSort, $first: Int = 100, $after: String) {
  products(filter: $filter, sort: $sort, first: $first, after: $after) { nodes { sku } }
}
"""


def product(**fields: Any) -> Given:
    """A valid product as an import record."""
    number = next(_numbers)
    return {
        "sku": f"sku-{number}",
        "type": "Disk Drive",
        "title": f"Drive {number}",
        "pricing": pricing(1000, 1000),
        **fields,
    }


def pricing(list_price: int, retail: int) -> Given:
    return {"list": {"amount": list_price}, "retail": {"amount": retail}}


def album(**fields: Any) -> Given:
    details = {name: fields.pop(name) for name in ("artist", "genres", "tracks") if name in fields}
    return product(type="Audio Album", details=details, **fields)


def film(**fields: Any) -> Given:
    details = {name: fields.pop(name) for name in ("actors", "directors", "writers", "genres") if name in fields}
    return product(type="Film", details=details, **fields)


def document(**fields: Any) -> Document:
    """The document of a product without categories, ready to insert."""
    given = product(**fields)
    return dict(new_document(product_record(given).fields, f"test-{given['sku']}"))


async def add_products(db: Database, given: Iterable[Given]) -> None:
    records = [product_record(one) for one in given]
    for start in range(0, len(records), _BATCH):
        outcomes = await import_products(db, records[start : start + _BATCH], now=SystemClock().now())
        assert set(outcomes) == {"created"}, outcomes


async def add_categories(db: Database, given: Iterable[Given]) -> None:
    outcomes = await import_categories(db, [category_record(one) for one in given], now=SystemClock().now())
    assert set(outcomes) == {"created"}, outcomes


async def mark_in_stock(db: Database, which: Document) -> None:
    """Marks the products that match the filter document as in stock."""
    await db["products"].update_many(which, {"$set": {"in_stock": True}})
    for wrong in [wrong async for wrong in find_wrong_products(db)]:
        assert await wrong.mend()


async def skus(gateway: GatewayClient, sort: str = "NEWEST", **conditions: Any) -> list[str]:
    """Returns the SKUs of the products that match the filter, in the order of the answer."""
    data = await gateway.data(SKUS, {"filter": conditions, "sort": sort})
    return [node["sku"] for node in data["products"]["nodes"]]


@contextlib.asynccontextmanager
async def shared_gateway(
    uri: str, folder: Path, config: pytest.Config, change: Callable[[Settings], Settings] = lambda settings: settings
) -> AsyncIterator[GatewayClient]:
    """Runs a gateway with a separate database and changed settings, for the read-only tests of a module."""
    with database(uri) as name:
        settings = Settings(
            mongodb_uri=Secret(uri),
            database=name,
            data_dir=folder,
            driver=cast("Driver", config.getoption("driver")),
            executor=cast("ExecutorName", config.getoption("executor")),
            jwt_secret=SECRET,
            jobs=False,
            log_level="error",
        )
        async with running(change(settings)) as gateway:
            yield gateway
