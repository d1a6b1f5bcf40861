"""Facets lead to filters: each value has the filter that chooses it, and several values of a facet can be chosen."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.catalog.products import PRODUCTS, upgrade_product
from portico.resolvers.documents import upgrade_batch
from tests.catalog.support.catalog import add_categories, add_products, album, film, pricing, product
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.both_drivers

VALUE = "value name count filter isSelected"
FACETS = f"""
query ($filter: ProductFilter, $sort: ProductSort) {{
  products(filter: $filter, sort: $sort, first: 1) {{
    totalCount
    facets {{
      counted
      types {{ {VALUE} }} genres {{ {VALUE} }} categories {{ {VALUE} }} prices {{ min max count filter isSelected }}
    }}
  }}
}}
"""
GROUPS = ("types", "genres", "categories", "prices")


async def facets(gateway: GatewayClient, chosen: dict[str, Any] | None = None, **variables: Any) -> dict[str, Any]:
    data = await gateway.data(FACETS, {"filter": chosen, **variables})
    found: dict[str, Any] = {**data["products"]["facets"], "total": data["products"]["totalCount"]}
    return found


def counts(rows: list[dict[str, Any]]) -> dict[str, int]:
    return {row["name"]: row["count"] for row in rows}


async def add_shop(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz & Blues"}, {"slug": "gear", "name": "Gear"}])
    await add_products(
        gateway.db,
        [
            album(genres=["Jazz"], categories=["jazz"], pricing=pricing(2000, 499)),
            album(genres=["Jazz", "Bop"], categories=["jazz"], pricing=pricing(2000, 500)),
            film(genres=["Drama"], pricing=pricing(2000, 999)),
            product(type="Turntable", categories=["gear"], pricing=pricing(200_000, 30_000)),
            product(type="Turntable", categories=["gear"], pricing=pricing(200_000, 100_000)),
            product(type="Hi-Fi Rack", categories=["gear"], pricing=pricing(200_000, 1000)),
        ],
    )


@pytest.mark.parametrize("group", GROUPS)
async def test_the_filter_of_each_value_finds_as_many_products_as_it_counts(gateway: GatewayClient, group: str) -> None:
    await add_shop(gateway)

    for row in (await facets(gateway))[group]:
        chosen = await facets(gateway, row["filter"])

        assert chosen["total"] == row["count"]
        assert not row["isSelected"]
        assert [one["filter"] for one in chosen[group] if one["isSelected"]] == [row["filter"]]


async def test_the_counts_of_a_facet_ignore_its_own_filter_only(gateway: GatewayClient) -> None:
    await add_shop(gateway)

    found = await facets(gateway, {"typeNames": ["Turntable", " Hi-Fi Rack "]})

    assert found["total"] == found["counted"] == 3
    assert counts(found["types"]) == {"Audio Album": 2, "Film": 1, "Turntable": 2, "Hi-Fi Rack": 1}
    assert [row["name"] for row in found["types"] if row["isSelected"]] == ["Turntable", "Hi-Fi Rack"]
    assert counts(found["categories"]) == {"Gear": 3}
    assert found["genres"] == []
    assert [row["min"] for row in found["prices"]] == [1000, 20_000, 100_000]


async def test_facets_with_filters_of_their_own_restrict_each_other(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    jazz = next(row for row in (await facets(gateway))["categories"] if row["name"] == "Jazz & Blues")

    found = await facets(gateway, {**jazz["filter"], "minPrice": 500, "maxPrice": 999, "genres": ["bop"]})

    assert found["total"] == 1
    assert counts(found["categories"]) == {"Jazz & Blues": 1}
    assert counts(found["genres"]) == {"Jazz": 1, "Bop": 1}
    assert [(row["min"], row["max"]) for row in found["prices"]] == [(500, 999)]
    assert (await facets(gateway, {**jazz["filter"], "typeNames": ["Film"]}))["total"] == 0


async def test_each_list_is_counted_by_one_command(gateway: GatewayClient) -> None:
    await add_shop(gateway)
    own: tuple[dict[str, Any], ...] = ({}, {"typeNames": ["Film"]}, {"genres": ["Drama"]}, {"minPrice": 1})
    chosen: dict[str, Any] = {}
    for number, one in enumerate(own):
        chosen |= one
        gateway.commands.clear()

        await facets(gateway, chosen, sort="PRICE_ASC")

        counting = [sent for sent in gateway.commands.sent if "$facet" in str(sent.get("pipeline"))]
        assert len(counting) == 1 + number


async def test_a_type_is_its_exact_name(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [product(type="Book"), product(type="book"), album(), product(type="audio album")])

    for name in ("Book", "book", "Audio Album", "audio album"):
        assert (await facets(gateway, {"typeNames": [name]}))["total"] == 1
    assert (await facets(gateway, {"typeNames": ["GENERAL"]}))["total"] == 0


async def test_products_of_the_former_version_get_the_terms_of_their_types(gateway: GatewayClient) -> None:
    details = {"director": "kept as the merchant wrote it"}
    await add_products(gateway.db, [product(sku="P-1", type="Turntable", details=details)])
    whole = await PRODUCTS.of(gateway.db).find_one({})
    assert whole is not None
    old = {**whole, "schema_version": 2, "terms": [one for one in whole["terms"] if "Turntable" not in one]}
    await gateway.db["products"].replace_one({}, old)

    assert (await facets(gateway, {"typeNames": ["Turntable"]}))["total"] == 0
    assert await upgrade_batch(gateway.db, PRODUCTS) == 1

    assert (await facets(gateway, {"typeNames": ["Turntable"]}))["total"] == 1
    assert await PRODUCTS.of(gateway.db).find_one({}) == whole
    assert upgrade_product(old)["details"] == details
