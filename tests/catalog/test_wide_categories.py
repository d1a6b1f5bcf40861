"""Products of categories that have many categories below them."""

from __future__ import annotations

from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.catalog.settings import CatalogSettings
from tests.catalog.support.catalog import add_categories, add_products, pricing, product
from tests.support.explaining import explain
from tests.support.harness import GatewayClient, running, with_settings
from tests.support.paging import all_pages, joined

# One walk along an index for each category takes at most 200 categories.
BELOW = 210
MOST = 300
SORTS = ("NEWEST", "PRICE_ASC", "TITLE_ASC")
LIST = """
query ($slug: String!, $sort: ProductSort, $filter: ProductFilter, $after: String) {
  category(slug: $slug) { products(first: 100, sort: $sort, filter: $filter, after: $after) {
    nodes { sku } pageInfo { hasNextPage endCursor } } }
}
"""
SHELVES = """
query ($slug: String!, $deep: Boolean!) {
  category(slug: $slug) { products(first: 1, includeDescendants: $deep) { nodes { sku } } }
}
"""


async def _fill(gateway: GatewayClient, inside: int, outside: int) -> None:
    """Stores products in the categories below `wide`, and others in `other`."""
    shelves = [{"slug": f"shelf-{number}", "name": f"Shelf {number}", "parent": "wide"} for number in range(BELOW)]
    await add_categories(gateway.db, [{"slug": "wide", "name": "Wide"}, {"slug": "other", "name": "Other"}, *shelves])
    made = [_product(f"in-{number:04}", number, f"shelf-{number % BELOW}") for number in range(inside)]
    await add_products(gateway.db, made + [_product(f"out-{number:04}", number, "other") for number in range(outside)])


def _product(sku: str, number: int, category: str) -> dict[str, Any]:
    # The products inside are dearer, so that the index of all products by price begins with the others.
    cents = number + (1_000 if category == "other" else 5_000)
    price = pricing(cents, cents)
    return product(sku=sku, title=f"Drive {number:04}", pricing=price, categories=[category])


async def _examined(gateway: GatewayClient, variables: dict[str, Any]) -> int:
    """Returns the most products that MongoDB examines for one command."""
    gateway.commands.clear()
    await gateway.data(LIST, variables)
    sent = [command for command in gateway.commands.sent if "products" in command.values() and "count" not in command]
    return max([plan.documents_examined for command in sent for plan in await explain(gateway.db, command)])


async def _pages(gateway: GatewayClient, sort: str, conditions: dict[str, Any] | None = None) -> list[str]:
    async def read(after: str | None) -> Any:
        variables = {"slug": "wide", "sort": sort, "filter": conditions, "after": after}
        return (await gateway.data(LIST, variables))["category"]["products"]

    return [node["sku"] for node in joined(await all_pages(read))]


@pytest.mark.parametrize("inside", [0, 20, 600])
async def test_a_page_of_a_wide_category_examines_a_bounded_number_of_products(settings: Settings, inside: int) -> None:
    async with running(with_settings(settings, CatalogSettings, max_counted=MOST)) as gateway:
        await _fill(gateway, inside, outside=900)

        for sort in SORTS:
            assert await _examined(gateway, {"slug": "wide", "sort": sort}) <= MOST + 101, sort
            assert sorted(await _pages(gateway, sort)) == [f"in-{number:04}" for number in range(inside)], sort
        found = await _pages(gateway, "PRICE_ASC", {"minPrice": 5_010})
        assert found == [f"in-{number:04}" for number in range(10, inside)]


async def test_the_lists_of_an_operation_cover_a_bounded_number_of_categories(settings: Settings) -> None:
    async with running(with_settings(settings, CatalogSettings, max_counted=10)) as gateway:
        below = [{"slug": f"{root}-{n}", "name": f"{n}", "parent": root} for root in ("five", "ten") for n in range(10)]
        await add_categories(gateway.db, [{"slug": "five", "name": "Five"}, {"slug": "ten", "name": "Ten"}])
        await add_categories(gateway.db, [one for one in below if one["parent"] == "ten" or int(one["name"]) < 4])
        await add_products(gateway.db, [product(sku="a", categories=["five-1"]), product(sku="b", categories=["ten"])])
        parts = 'a: category(slug: "five") { products { nodes { sku } } }'

        small = await gateway.data(SHELVES, {"slug": "five", "deep": True})
        large = await gateway.ask(SHELVES, {"slug": "ten", "deep": True})
        flat = await gateway.data(SHELVES, {"slug": "ten", "deep": False})
        twice = await gateway.data(f"{{ {parts} {parts.replace('a:', 'b:')} }}")
        thrice = await gateway.ask(f"{{ {parts} {parts.replace('a:', 'b:')} {parts.replace('a:', 'c:')} }}")
        together = await gateway.ask("{ categories(first: 2) { nodes { products(first: 1) { nodes { sku } } } } }")

    assert small["category"]["products"]["nodes"] == [{"sku": "a"}]
    assert flat["category"]["products"]["nodes"] == [{"sku": "b"}]
    assert twice["a"] == twice["b"] == {"products": {"nodes": [{"sku": "a"}]}}
    assert (large.codes, thrice.codes) == (["BAD_USER_INPUT"], ["BAD_USER_INPUT"])
    assert set(together.codes) == {"BAD_USER_INPUT"}
    assert large.body["errors"][0]["extensions"]["argument"] == ["includeDescendants"]
    assert "more than 10 categories" in large.body["errors"][0]["message"]
