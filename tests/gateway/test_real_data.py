"""Real catalogs, imported completely: the API returns what the files contain."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

from bench import sources
from portico.gateway.clock import SystemClock
from portico.gateway.imports.runs import BadRecord, Import
from portico.resolvers.catalog.product_facets import PRICE_BANDS
from portico.resolvers.texts import fold
from tests.support import real_data
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.paging import rows_of
from tests.support.real_data import Catalog, Line

BELOW = """
query ($slug: String!, $after: String) {
  category(slug: $slug) {
    descendants(first: 100, after: $after) {
      nodes { slug name breadcrumbs { slug name } parent { slug } }
      pageInfo { hasNextPage endCursor }
    }
  }
}
"""
CHILDREN = "query ($slug: String!) { category(slug: $slug) { children(first: 100) { nodes { slug } } } }"
PAGE = """
query ($filter: ProductFilter, $after: String) {
  products(filter: $filter, first: 100, after: $after) {
    nodes { sku issueDate ... on Film { genres } }
    pageInfo { hasNextPage endCursor }
  }
}
"""
TOTAL = "query ($filter: ProductFilter) { products(filter: $filter, first: 1) { totalCount } }"
BRANCH = "query ($slug: String!) { category(slug: $slug) { products(first: 1) { totalCount } } }"
FACETS = """
query ($filter: ProductFilter) {
  products(filter: $filter, first: 1) {
    totalCount
    facets { types { value count } genres { value count } categories { value count } prices { min max count } }
  }
}
"""
SHOWN = """
query ($sku: String!) {
  product(sku: $sku) {
    title description categories { slug } properties { name value } pricing { list { amount } retail { amount } }
    ... on Film { actors genres directors writers aspectRatio }
    ... on AudioAlbum { artist genres tracks }
    ... on GeneralProduct { type details }
  }
}
"""


async def run(gateway: GatewayClient, subject: str, file: Path) -> dict[str, int]:
    bad: list[BadRecord] = []
    done = await Import(
        gateway.db, IMPORTERS[subject], SystemClock(), bad.append, lambda _: None, gateway.state.resources
    ).run([file])
    assert bad == []
    return dict(done.counts)


async def total(gateway: GatewayClient, **conditions: Any) -> int:
    found: int = (await gateway.data(TOTAL, {"filter": conditions}))["products"]["totalCount"]
    return found


async def test_an_electronics_catalog_of_categories_is_imported(gateway: GatewayClient, tmp_path: Path) -> None:
    """It has 4,208 categories, up to six levels deep, and some come before their parents."""
    lines = real_data.electronics_categories()
    names = {line["slug"]: line["name"].strip() for line in lines}
    paths = {row["id"]: [step["id"] for step in row["path"][:-1]] for row in real_data.rows("bestbuy_categories")}
    file = real_data.write(tmp_path / "categories.jsonl", lines)

    assert await run(gateway, "categories", file) == {"created": 4208}
    assert await run(gateway, "categories", file) == {"unchanged": 4208}
    roots = (await gateway.data("{ categories(first: 100) { nodes { slug name breadcrumbs { slug } } } }"))[
        "categories"
    ]
    seen: dict[str, Line] = {root["slug"]: root for root in roots["nodes"]}
    assert set(seen) == {line["slug"] for line in lines if line["parent"] is None}
    for root in list(seen):
        for category in await rows_of(gateway, BELOW, "category", "descendants", slug=root):
            assert category["slug"] not in seen
            assert category["parent"]["slug"] == paths[category["slug"]][-1]
            seen[category["slug"]] = category

    assert {slug: one["name"] for slug, one in seen.items()} == names
    assert {slug: [crumb["slug"] for crumb in one["breadcrumbs"]] for slug, one in seen.items()} == paths
    for one in seen.values():
        assert all(crumb["name"] == names[crumb["slug"]] for crumb in one["breadcrumbs"] if "name" in crumb)
    children: dict[str, list[str]] = {}
    for line in lines:
        children.setdefault(line["parent"], []).append(line["slug"])
    for slug in random.Random(2).sample(sorted(names), 40):
        found = [
            node["slug"] for node in (await gateway.data(CHILDREN, {"slug": slug}))["category"]["children"]["nodes"]
        ]
        assert sorted(found) == sorted(children.get(slug, []))[:100]
        assert [names[one].encode() for one in found] == sorted(names[one].encode() for one in found)
    await assert_invariants(gateway)


async def test_films_albums_and_groceries_are_imported(gateway: GatewayClient, tmp_path: Path) -> None:
    """A run imports a quarter of the products, and a soak imports all of them."""
    whole = real_data.catalog()
    catalog = whole.some(4)
    categories = real_data.write(tmp_path / "categories.jsonl", catalog.categories)
    products = real_data.write(tmp_path / "products.jsonl", catalog.products)

    assert await run(gateway, "categories", categories) == {"created": len(catalog.categories)}
    assert len(whole.products) == 4057 + 347 + 5228
    assert await run(gateway, "products", products) == {"created": len(catalog.products)}
    assert await total(gateway) == len(catalog.products)
    await _films_are_found_by_genre_and_actor(gateway, catalog.films)
    await _every_film_is_on_one_page(gateway, catalog.films)
    await _albums_are_found_by_genre_and_artist(gateway, catalog.albums)
    await _departments_hold_their_groceries(gateway, whole, catalog)
    await _products_show_what_was_imported(gateway, catalog.products)
    await _facets_count_what_was_imported(gateway, catalog.products)


async def _films_are_found_by_genre_and_actor(gateway: GatewayClient, films: dict[str, Line]) -> None:
    genres = Counter(genre for film in films.values() for genre in film["genres"])
    actors = Counter(actor for film in films.values() for actor in {fold(name) for name in film["cast"]})
    for genre, count in genres.items():
        assert await total(gateway, type="FILM", genres=[genre.upper()]) == count
    for actor, count in [*actors.most_common(20), *random.Random(3).sample(sorted(actors.items()), 40)]:
        assert await total(gateway, actor=actor) == count


async def _every_film_is_on_one_page(gateway: GatewayClient, films: dict[str, Line]) -> None:
    found = await rows_of(gateway, PAGE, "products", filter={"type": "FILM"})

    assert len(found) == len(films)
    assert {one["sku"] for one in found} == set(films)
    assert [one["issueDate"] for one in found] == sorted(map(real_data.issued, films.values()), reverse=True)
    assert all(one["genres"] == films[one["sku"]]["genres"] for one in found)


async def _albums_are_found_by_genre_and_artist(gateway: GatewayClient, albums: dict[str, Line]) -> None:
    genres = Counter(genre for album in albums.values() for genre in album["Genres"])
    artists = Counter(fold(album["Artist"]) for album in albums.values())
    for genre, count in genres.items():
        assert await total(gateway, type="AUDIO_ALBUM", genres=[genre]) == count
    for artist, count in artists.most_common(40):
        assert await total(gateway, artist=artist) == count


async def _departments_hold_their_groceries(gateway: GatewayClient, whole: Catalog, catalog: Catalog) -> None:
    every, below = whole.below(whole.products), catalog.below(catalog.products)
    for row in real_data.rows("grocery_categories"):
        if row["level"] < 3:
            slug = sources.slug(row["id"])
            data = await gateway.data(BRANCH, {"slug": slug})
            assert every[slug] == row["productCount"], row["id"]
            assert data["category"]["products"]["totalCount"] == below[slug], row["id"]
    brands = Counter(row["brand"] for row in catalog.groceries.values())
    for brand, count in brands.items():
        assert await total(gateway, properties=[{"name": "Brand", "value": brand}]) == count


async def _products_show_what_was_imported(gateway: GatewayClient, products: list[Line]) -> None:
    for given in random.Random(4).sample(products, 60):
        shown = (await gateway.data(SHOWN, {"sku": given["sku"]}))["product"]

        assert shown["title"] == given["title"].strip()
        assert shown["description"] == given.get("description")
        assert [one["slug"] for one in shown["categories"]] == list(dict.fromkeys(given["categories"]))
        assert shown["properties"] == given["properties"]
        assert shown["pricing"] == {name: {"amount": given["pricing"][name]["amount"]} for name in ("list", "retail")}
        details = shown.get("details", shown)
        assert {name: details[name] for name in given["details"]} == given["details"]


async def _facets_count_what_was_imported(gateway: GatewayClient, products: list[Line]) -> None:
    found = (await gateway.data(FACETS, {"filter": {}}))["products"]
    facets = {
        name: {one["value"]: one["count"] for one in found["facets"][name]}
        for name in ("types", "genres", "categories")
    }
    expected = {
        "types": Counter(one["type"] for one in products),
        "genres": Counter(genre for one in products for genre in one["details"].get("genres", ())),
        "categories": Counter(slug for one in products for slug in one["categories"]),
    }
    prices = [one["pricing"]["retail"]["amount"] for one in products]

    assert found["totalCount"] == len(products)
    for name, counts in facets.items():
        assert list(counts.values()) == sorted(expected[name].values(), reverse=True)[:100], name
        assert all(expected[name][value] == count for value, count in counts.items()), name
    assert [(one["min"], one["count"]) for one in found["facets"]["prices"]] == sorted(
        Counter(max(band for band in PRICE_BANDS if band <= price) for price in prices).items()
    )
