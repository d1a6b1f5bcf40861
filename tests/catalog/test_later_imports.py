"""A later import of products writes only what has changed, so that MongoDB keeps the index entries of the rest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from portico.resolvers.catalog.products import set_in_stock
from tests.catalog.support.catalog import Given, add_products, pricing, skus
from tests.catalog.support.catalog import product as numbered
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.importing import put

pytestmark = pytest.mark.both_drivers


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "products.jsonl"


def product(sku: str, **fields: Any) -> Given:
    return numbered(sku=sku, **{"title": f"Title {sku}", **fields})


def changes(gateway: GatewayClient) -> list[set[str]]:
    """Return the paths that each update of a product has set."""
    sent: list[Mapping[str, Any]] = [one for one in gateway.commands.sent if one.get("update") == "products"]
    return [set(update["u"]["$set"]) for command in sent for update in command["updates"]]


async def test_an_import_of_other_prices_sets_only_these(gateway: GatewayClient, file: Path) -> None:
    await add_products(gateway.db, [product(sku, pricing=pricing(1000, 500)) for sku in "abc"])
    given = [
        product("a", pricing=pricing(1000, 500)),
        product("b", pricing=pricing(2000, 500)),
        product("c", pricing=pricing(1000, 500), title="Other"),
    ]
    gateway.commands.sent.clear()

    imported = await put(gateway.db, "products", file, given)

    assert imported.counts == {"unchanged": 1, "changed": 2}
    assert changes(gateway) == [
        {"nonce", "pricing.list", "pricing.savings", "pricing.pct_savings"},
        {"nonce", "title", "keywords"},
    ]
    found = await gateway.stored("products", {"sku": "b"})
    assert found["pricing"] == {"currency": "USD", "list": 2000, "retail": 500, "savings": 1500, "pct_savings": 75}
    assert await skus(gateway, titleWord="other") == ["c"]
    await assert_invariants(gateway)


async def test_an_import_keeps_whether_a_product_is_in_stock(gateway: GatewayClient, file: Path) -> None:
    await add_products(gateway.db, [product("in"), product("out")])
    await set_in_stock(gateway.db, "in", in_stock=True, version=1)
    same = await put(gateway.db, "products", file, [product("in"), product("out")])

    changed = await put(gateway.db, "products", file, [product(sku, type="Vase") for sku in ("in", "out")])

    assert (same.counts, changed.counts) == ({"unchanged": 2}, {"changed": 2})
    assert await skus(gateway, inStock=True, typeNames=["Vase"]) == ["in"]
    assert await skus(gateway, inStock=False, typeNames=["Vase"]) == ["out"]


@pytest.mark.parametrize("stored", [{"currency": "USD", "list": 7, "more": 1}, "damaged"])
async def test_an_import_replaces_pricing_of_another_form(gateway: GatewayClient, file: Path, stored: object) -> None:
    await add_products(gateway.db, [product("a", pricing=pricing(1000, 500))])
    before = await gateway.db["products"].find_one({"sku": "a"})
    await gateway.db["products"].update_one({"sku": "a"}, {"$set": {"pricing": stored}})

    imported = await put(gateway.db, "products", file, [product("a", pricing=pricing(1000, 500))])

    found = await gateway.db["products"].find_one({"sku": "a"})
    assert imported.counts == {"changed": 1}
    assert before is not None
    assert found is not None
    assert found["pricing"] == before["pricing"]
