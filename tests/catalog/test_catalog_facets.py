"""The facets of a list of products, and the products of a category."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from tests.catalog.support.catalog import add_categories, add_products, album, film, pricing, product, skus
from tests.support.harness import GatewayClient
from tests.support.paging import all_pages, joined

pytestmark = pytest.mark.both_drivers

FACETS = """
query ($filter: ProductFilter) {
  products(filter: $filter, first: 1) {
    totalCount
    facets {
      types { value count } genres { value count } categories { value count } prices { min max count }
    }
  }
}
"""
BRANCH = """
query ($slug: String!, $deep: Boolean!, $filter: ProductFilter, $sort: ProductSort, $first: Int = 100, $after: String) {
  category(slug: $slug) {
    products(includeDescendants: $deep, filter: $filter, sort: $sort, first: $first, after: $after) {
      totalCount
      nodes { sku }
      pageInfo { hasNextPage endCursor }
    }
  }
}
"""
CATEGORIES = [
    {"slug": "music", "name": "Music"},
    {"slug": "jazz", "name": "Jazz", "parent": "music"},
    {"slug": "bop", "name": "Bop", "parent": "jazz"},
    {"slug": "rock", "name": "Rock", "parent": "music"},
    {"slug": "films", "name": "Films"},
]


async def facets(gateway: GatewayClient, **conditions: Any) -> dict[str, Any]:
    """Return the counts as pairs, and `total`."""
    found = (await gateway.data(FACETS, {"filter": conditions}))["products"]
    counts = {
        name: [tuple(row.values()) for row in found["facets"][name]]
        for name in ("types", "genres", "categories", "prices")
    }
    return {"total": found["totalCount"], **counts}


async def branch(gateway: GatewayClient, slug: str, *, deep: bool = True, **variables: Any) -> dict[str, Any]:
    data = await gateway.data(BRANCH, {"slug": slug, "deep": deep, **variables})
    found: dict[str, Any] = data["category"]["products"]
    return {**found, "skus": [node["sku"] for node in found["nodes"]]}


async def test_facets_count_all_products_that_match_the_filter(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, CATEGORIES)
    await add_products(
        gateway.db,
        [
            album(genres=["Jazz", "Bop"], categories=["bop", "jazz"], pricing=pricing(2000, 499)),
            album(genres=["Jazz"], categories=["jazz"], pricing=pricing(2000, 500)),
            film(genres=["Drama"], categories=["films"], pricing=pricing(200_000, 99_999)),
            product(type="Book", pricing=pricing(200_000, 100_000), details={"genres": ["Jazz"]}),
        ],
    )

    everything = await facets(gateway)
    jazz = await facets(gateway, genres=["jazz"])

    assert everything == {
        "total": 4,
        "types": [("Audio Album", 2), ("Book", 1), ("Film", 1)],
        "genres": [("Jazz", 2), ("Bop", 1), ("Drama", 1)],
        "categories": [("jazz", 2), *_by_count(everything, "categories", {"bop", "films"})],
        "prices": [(0, 499, 1), (500, 999, 1), (50_000, 99_999, 1), (100_000, None, 1)],
    }
    assert jazz == {
        "total": 2,
        "types": [("Audio Album", 2)],
        "genres": [("Jazz", 2), ("Bop", 1), ("Drama", 1)],
        "categories": [("jazz", 2), ("bop", 1)],
        "prices": [(0, 499, 1), (500, 999, 1)],
    }


def _by_count(found: dict[str, Any], name: str, ones: set[str]) -> list[tuple[str, int]]:
    """Return the pairs of values with one product in the order of the answer, which does not define an order among
    them.
    """
    return [(value, 1) for value, _ in found[name] if value in ones]


async def test_an_empty_result_has_empty_facets(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album()])

    assert await facets(gateway, titleWord="nowhere") == {
        "total": 0,
        "types": [],
        "genres": [],
        "categories": [],
        "prices": [],
    }


async def test_a_genre_counts_each_product_once_in_any_spelling(gateway: GatewayClient) -> None:
    await add_products(
        gateway.db,
        [
            album(genres=["Jazz", "jazz ", "JAZZ"]),
            album(genres=["JAZZ"]),
            album(genres=["Straße"]),
            album(genres=["STRASSE"]),
        ],
    )

    found = await facets(gateway)

    assert [count for _, count in found["genres"]] == [2, 2]
    for value, count in found["genres"]:
        assert len(await skus(gateway, genres=[value])) == count


async def test_at_most_a_hundred_values_are_counted(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album(genres=[f"Genre {number:03}"]) for number in range(101)])

    genres = (await facets(gateway))["genres"]

    assert genres == [(f"Genre {number:03}", 1) for number in range(100)]


async def test_facets_count_the_results_of_a_search(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album(title="Blue", genres=["Jazz"]), album(title="Red", genres=["Pop"])])

    found = await facets(gateway, search="blue")

    assert (found["total"], found["genres"]) == (1, [("Jazz", 1)])


async def test_only_selected_facets_are_counted(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album(genres=["Jazz"])])
    sent: dict[str, list[str]] = {}
    for selection in ("nodes { sku }", "totalCount", "facets { __typename }", "facets { genres { count } }"):
        gateway.commands.clear()
        await gateway.data(f"{{ products {{ {selection} }} }}")
        sent[selection] = gateway.commands.names()
        counted = gateway.commands.sent[-1].get("pipeline", [{}])[-1].get("$facet", {})
        assert list(counted) == (["genres"] if "genres" in selection else [])

    assert sent == {
        "nodes { sku }": ["find products"],
        "totalCount": ["find products", "aggregate products"],
        "facets { __typename }": ["find products"],
        "facets { genres { count } }": ["find products", "aggregate products"],
    }


async def test_a_category_includes_the_products_of_its_descendants_by_default(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, CATEGORIES)
    await add_products(
        gateway.db,
        [
            album(sku="a", categories=["bop"], issueDate="2001-01-01T00:00:00Z"),
            album(sku="b", categories=["jazz", "bop"], issueDate="2002-01-01T00:00:00Z"),
            album(sku="c", categories=["rock"], issueDate="2003-01-01T00:00:00Z", genres=["Rock"]),
            album(sku="d", categories=["music"], issueDate="2004-01-01T00:00:00Z"),
            film(sku="e", categories=["films"]),
        ],
    )

    found = {
        (slug, deep): (await branch(gateway, slug, deep=deep))["skus"]
        for slug in ("music", "jazz", "rock")
        for deep in (True, False)
    }

    assert found == {
        ("music", True): ["d", "c", "b", "a"],
        ("music", False): ["d"],
        ("jazz", True): ["b", "a"],
        ("jazz", False): ["b"],
        ("rock", True): ["c"],
        ("rock", False): ["c"],
    }
    assert (await branch(gateway, "music", filter={"genres": ["rock"]}))["skus"] == ["c"]
    assert (await branch(gateway, "music", filter={"search": "album"}))["skus"] == []
    assert (await branch(gateway, "music", sort="TITLE_ASC"))["totalCount"] == 4


async def test_the_products_of_hundreds_of_categories_are_sorted(gateway: GatewayClient) -> None:
    """There are more categories than one index scan merges."""
    shelves = [{"slug": f"shelf-{number}", "name": "Shelf", "parent": "shop"} for number in range(250)]
    await add_categories(gateway.db, [{"slug": "shop", "name": "Shop"}, *shelves])
    await add_products(
        gateway.db,
        [
            album(sku=f"{number:03}", title=f"Title {number:03}", categories=[f"shelf-{number * 7 % 250}"])
            for number in range(250)
        ],
    )
    expected = [f"{number:03}" for number in range(250)]

    async def read(after: str | None) -> Any:
        page = await branch(gateway, "shop", sort="TITLE_ASC", first=50, after=after)
        assert page["totalCount"] == 250
        return page

    assert [node["sku"] for node in joined(await all_pages(read))] == expected
    assert (await branch(gateway, "shop", sort="TITLE_ASC", filter={"type": "AUDIO_ALBUM"}))["skus"] == expected[:100]


async def test_each_facet_counts_the_products_of_its_filter(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, CATEGORIES)
    genres = ["Jazz", "Pop", "jazz", "Rock"]
    given = [
        (album, film)[number % 2](
            genres=[genres[number % 4], genres[number % 3]],
            categories=[("jazz", "bop", "rock")[number % 3]],
            pricing=pricing(5000, number * 37 % 4000),
        )
        for number in range(60)
    ]
    await add_products(gateway.db, given)

    found = await facets(gateway)

    for value, count in found["genres"]:
        assert (await facets(gateway, genres=[value]))["total"] == count
    for value, count in found["categories"]:
        assert (await branch(gateway, value, deep=False))["totalCount"] == count
    for lowest, highest, count in found["prices"]:
        assert (await facets(gateway, minPrice=lowest, maxPrice=highest))["total"] == count
    assert dict(found["types"]) == Counter(one["type"] for one in given)
