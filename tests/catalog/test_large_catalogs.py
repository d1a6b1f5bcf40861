"""Lists, searches, counts and facets of a catalog with more products than one read considers, which is 60 here."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.catalog.product_bounds import SearchText
from portico.resolvers.catalog.settings import CatalogSettings
from tests.catalog.support.catalog import (
    add_categories,
    add_products,
    album,
    film,
    mark_in_stock,
    pricing,
    product,
    shared_gateway,
)
from tests.support.explaining import explain
from tests.support.harness import Commands, GatewayClient, running, with_settings
from tests.support.paging import all_pages, joined

MOST = 60
COUNT = 400
SORTS = ("NEWEST", "DISCOUNT_DESC", "PRICE_ASC", "PRICE_DESC", "TITLE_ASC")
LIST = """
query ($filter: ProductFilter, $sort: ProductSort, $first: Int = 20, $after: String) {
  products(filter: $filter, sort: $sort, first: $first, after: $after) {
    nodes { sku }
    pageInfo { hasNextPage hasPreviousPage endCursor startCursor }
  }
}
"""
COUNTS = """
query ($filter: ProductFilter, $sort: ProductSort) {
  products(filter: $filter, sort: $sort, first: 1) {
    totalCount totalCountIsExact
    facets { counted types { value count } genres { value count } prices { min count } }
  }
}
"""
# Filters of which each condition has many products. The last three have no product.
SPARSE: dict[str, dict[str, Any]] = {
    "a type and a genre": {"type": "FILM", "genres": ["drama"]},
    "a type, genres and a price": {"type": "AUDIO_ALBUM", "genres": ["jazz", "drama"], "minPrice": 1000},
    "a discount and prices": {"minPctSavings": 20, "maxPrice": 800},
    "words of the title": {"titleWord": "night train"},
    "a word and a type": {"titleWord": "night", "type": "FILM"},
    "names of types and a genre": {"typeNames": ["Film", "Book"], "genres": ["jazz"]},
    "a type and a genre that exclude each other": {"type": "GENERAL", "genres": ["jazz", "drama"]},
    "a prefix and a word that exclude each other": {"titlePrefix": "A", "titleWord": "night"},
    "a price and a discount that exclude each other": {"minPrice": 1000, "minPctSavings": 60},
}


def _made() -> list[dict[str, Any]]:
    rng = random.Random(3)
    return [_product(rng, number) for number in range(COUNT)]


def _product(rng: random.Random, number: int) -> dict[str, Any]:
    price = rng.randrange(100, 2000)
    words = rng.sample(["Night", "Train", "Road", "Blue"], 2)
    fields: dict[str, Any] = {
        "sku": f"s{number:03}",
        "title": " ".join(["A" if number % 3 == 0 else "", *(word for word in words if number % 3)]).strip(),
        "description": " ".join(rng.sample(["love", "time", "gold", "héart"], 2))
        + (" needle" if number % 50 == 0 else ""),
        "pricing": pricing(price, price - price * rng.randrange(40 if price > 900 else 90) // 100),
        "issueDate": None if number % 10 == 0 else f"19{rng.randrange(50, 99)}-0{rng.randrange(1, 9)}-01T00:00:00Z",
    }
    genres = rng.sample(["Jazz", "Drama", "Pop"], 1)
    if number % 3 == 2:
        return product(**fields)
    return album(genres=genres, **fields) if number % 3 else film(genres=genres, **fields)


MADE = _made()


async def _shop(uri: str, folder: Path, config: pytest.Config, most: int) -> AsyncIterator[GatewayClient]:
    change = partial(with_settings, kind=CatalogSettings, max_counted=most)
    async with shared_gateway(uri, folder, config, change) as gateway:
        await add_categories(gateway.db, [{"slug": "all", "name": "All"}])
        await add_products(gateway.db, MADE)
        await mark_in_stock(gateway.db, {"pricing.pct_savings": {"$gt": 30}})
        yield gateway


@pytest.fixture(scope="module")
async def shop(
    mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> AsyncIterator[GatewayClient]:
    """A gateway that considers at most 60 of 400 products for one read."""
    async for gateway in _shop(mongodb_uri, tmp_path_factory.mktemp("shop"), pytestconfig, MOST):
        yield gateway


@pytest.fixture(scope="module")
async def whole(
    mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory, pytestconfig: pytest.Config
) -> AsyncIterator[GatewayClient]:
    """A gateway that considers all 400 products."""
    async for gateway in _shop(mongodb_uri, tmp_path_factory.mktemp("whole"), pytestconfig, 10_000):
        yield gateway


async def pages(gateway: GatewayClient, conditions: dict[str, Any], sort: str, first: int = 20) -> list[list[str]]:
    """Returns the SKUs of all pages of a list."""

    async def read(after: str | None) -> Any:
        variables = {"filter": conditions, "sort": sort, "first": first, "after": after}
        page = (await gateway.data(LIST, variables))["products"]
        assert (page["pageInfo"]["startCursor"] is None) is (not page["nodes"])
        return page

    return [[node["sku"] for node in page] for page in await all_pages(read)]


async def examined(gateway: GatewayClient, text: str, variables: dict[str, Any]) -> int:
    """Returns the most documents that MongoDB examines for one command of an operation. Each command uses an index."""
    gateway.commands.clear()
    await gateway.data(text, variables)
    sent = [command for command in gateway.commands.sent if "count" not in command]
    plans = [plan for command in sent for plan in await explain(gateway.db, command)]
    assert not any(plan.scans_collection for plan in plans)
    return max(plan.documents_examined for plan in plans)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", SPARSE)
async def test_all_pages_together_have_every_match_once_and_in_order(
    shop: GatewayClient, whole: GatewayClient, name: str
) -> None:
    for sort in SORTS:
        expected = joined(await pages(whole, SPARSE[name], sort, 100))

        found = joined(await pages(shop, SPARSE[name], sort))

        # Products of equal sort values are in the order of their ids, which differ between the two databases.
        assert Counter(found) == Counter(expected), sort
        assert _keys(found, sort) == _keys(expected, sort), sort


def _keys(found: list[str], sort: str) -> list[Any]:
    made = {one["sku"]: one for one in MADE}
    key = {
        "NEWEST": lambda one: one["issueDate"],
        "TITLE_ASC": lambda one: one["title"],
        "DISCOUNT_DESC": _percent,
    }.get(sort, lambda one: one["pricing"]["retail"]["amount"])
    return [key(made[sku]) for sku in found]


def _percent(one: dict[str, Any]) -> int:
    price: int = one["pricing"]["list"]["amount"]
    return int((price - one["pricing"]["retail"]["amount"]) * 100 // price)


@pytest.mark.parametrize("name", SPARSE)
async def test_a_page_examines_a_bounded_number_of_products(shop: GatewayClient, name: str) -> None:
    for sort in SORTS:
        assert await examined(shop, LIST, {"filter": SPARSE[name], "sort": sort}) <= MOST + 1, sort


async def test_a_page_can_be_short_or_empty_and_the_list_continues(shop: GatewayClient) -> None:
    found = await pages(shop, SPARSE["a type and a genre that exclude each other"], "NEWEST")

    assert joined(found) == []
    assert 3 <= len(found) <= 1 + COUNT // (MOST // 2)


async def test_a_condition_that_few_products_match_finds_them_on_the_first_page(shop: GatewayClient) -> None:
    rare = {"minPrice": 1, "maxPrice": 80, "type": "FILM"}
    expected = {one["sku"] for one in MADE if one["type"] == "Film" and 1 <= one["pricing"]["retail"]["amount"] <= 80}

    (page,) = await pages(shop, rare, "TITLE_ASC", 100)

    assert set(page) == expected
    assert 0 < len(expected) < MOST


async def test_lists_of_one_condition_have_full_pages(shop: GatewayClient) -> None:
    for conditions in ({}, {"type": "FILM"}, {"genres": ["jazz", "drama"]}, {"inStock": True}):
        found = await pages(shop, conditions, "PRICE_ASC")

        assert {len(page) for page in found[:-1]} == {20}


async def test_a_count_ends_at_its_bound_and_says_so(shop: GatewayClient) -> None:
    found = {
        str(conditions): (await shop.data(COUNTS, {"filter": conditions}))["products"]
        for conditions in ({}, {"type": "FILM"}, {"titlePrefix": "A", "type": "FILM"}, {"search": "needle"})
    }

    counts = {name: (one["totalCount"], one["totalCountIsExact"]) for name, one in found.items()}
    assert counts["{}"] == (MOST, False)
    assert counts["{'type': 'FILM'}"] == (MOST, False)
    assert counts["{'search': 'needle'}"] == (8, True)


async def test_a_count_of_exactly_the_bound_is_exact(settings: Settings) -> None:
    async with running(with_settings(settings, CatalogSettings, max_counted=3)) as gateway:
        await add_products(gateway.db, [album() for _ in range(3)])
        three = (await gateway.data(COUNTS))["products"]
        await add_products(gateway.db, [album()])
        four = (await gateway.data(COUNTS))["products"]

    assert (three["totalCount"], three["totalCountIsExact"]) == (3, True)
    assert (four["totalCount"], four["totalCountIsExact"]) == (3, False)


async def test_the_filters_of_one_operation_are_counted_together(settings: Settings, commands: Commands) -> None:
    filters = [
        f"a{least}: products(first: 1, filter: {{ type: FILM, minPrice: {least} }}) {{ nodes {{ sku }} }}"
        for least in range(90)
    ]
    async with running(with_settings(settings, CatalogSettings, max_counted=MOST), commands=commands) as gateway:
        await add_products(gateway.db, MADE)
        commands.clear()

        await gateway.data(f"{{ {' '.join(filters)} }}", token=None)

    # The counts of two conditions of each filter, in commands of a hundred, and one command for the pages.
    assert commands.names().count("aggregate products") == 3


@pytest.mark.parametrize("sort", SORTS)
async def test_facets_count_the_first_products_of_the_list(shop: GatewayClient, sort: str) -> None:
    first = (await pages(shop, {}, sort, MOST))[0]
    made = {one["sku"]: one for one in MADE}

    facets = (await shop.data(COUNTS, {"sort": sort}))["products"]["facets"]

    assert facets["counted"] == MOST
    assert {row["value"]: row["count"] for row in facets["types"]} == Counter(made[sku]["type"] for sku in first)


async def test_facets_of_a_short_list_count_all_of_it(shop: GatewayClient, whole: GatewayClient) -> None:
    for conditions in ({"search": "needle"}, {"maxPrice": 80, "type": "FILM"}):
        expected, found = [(await one.data(COUNTS, {"filter": conditions}))["products"] for one in (whole, shop)]
        for one in (expected, found):
            if "maxPrice" in conditions:
                # The prices ignore their own filter, so they count a longer list.
                one["facets"].pop("prices")

        assert found == expected
        assert expected["facets"]["counted"] == expected["totalCount"] > 0


async def test_counts_and_facets_examine_a_bounded_number_of_products(shop: GatewayClient) -> None:
    for conditions in ({}, {"type": "FILM"}, {"search": "love"}, {"search": "love time gold"}, *SPARSE.values()):
        assert await examined(shop, COUNTS, {"filter": conditions}) <= MOST + 1, conditions


def having(*words: str) -> set[str]:
    """Returns the SKUs of the products that have one of the words."""
    return {one["sku"] for one in MADE if set(words) & set(f"{one['title']} {one['description']}".casefold().split())}


@pytest.mark.parametrize("sort", [*SORTS, "RELEVANCE"])
async def test_a_search_for_rare_words_is_complete(shop: GatewayClient, sort: str) -> None:
    assert set(joined(await pages(shop, {"search": "needle"}, sort))) == having("needle")


@pytest.mark.parametrize("sort", [*SORTS, "RELEVANCE"])
async def test_words_that_many_products_have_are_ignored_beside_rarer_words(shop: GatewayClient, sort: str) -> None:
    assert set(joined(await pages(shop, {"search": "love needle time"}, sort))) == having("needle")


@pytest.mark.parametrize("sort", [*SORTS, "RELEVANCE"])
@pytest.mark.parametrize("text", ["love", "love time", "night love gold train"])
async def test_a_search_for_common_words_has_matches_of_each_word_up_to_the_bound(
    shop: GatewayClient, sort: str, text: str
) -> None:
    found = joined(await pages(shop, {"search": text}, sort, 7))

    assert len(found) == len(set(found)) <= MOST
    assert set(found) <= having(*text.split())
    share = MOST // 2 // len(text.split())
    for word in text.split():
        assert len(set(found) & having(word)) >= share


@pytest.mark.sample(3)
@pytest.mark.parametrize("sort", SORTS)
async def test_a_search_for_common_words_is_sorted(shop: GatewayClient, sort: str) -> None:
    found = joined(await pages(shop, {"search": "love time"}, sort, 7))

    keys = _keys(found, sort)
    present = [key for key in keys if key is not None]
    assert present == sorted(present, reverse=sort in {"NEWEST", "DISCOUNT_DESC", "PRICE_DESC"})
    assert keys == present + [None] * (len(keys) - len(present))


async def test_a_search_for_a_common_word_has_its_best_matches(settings: Settings) -> None:
    async with running(with_settings(settings, CatalogSettings, max_counted=20)) as gateway:
        described = [album(sku=f"described-{number}", description="a blue record") for number in range(30)]
        titled = [album(sku=f"titled-{number}", title=f"Blue {number}") for number in range(10)]
        await add_products(gateway.db, described[:15] + titled + described[15:])

        found = joined(await pages(gateway, {"search": "blue"}, "TITLE_ASC", 4))

    assert found == [f"titled-{number}" for number in range(10)]


async def test_relevance_ranks_titles_with_more_of_the_common_words_first(shop: GatewayClient) -> None:
    made = {one["sku"]: one for one in MADE}

    found = joined(await pages(shop, {"search": "night train love"}, "RELEVANCE", 7))

    ranks = [len({"night", "train"} & set(made[sku]["title"].casefold().split())) for sku in found]
    assert ranks == sorted(ranks, reverse=True)
    assert ranks[0] == 2


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"search": 'love needle "love time"'}, lambda text: "needle" in text and "love time" in text),
        ({"search": "needle -love"}, lambda text: "needle" in text and "love" not in text),
        ({"search": 'needle -"love time"'}, lambda text: "needle" in text and "love time" not in text),
        ({"search": "needle heart", "type": "FILM"}, lambda text: "needle" in text),
    ],
)
async def test_phrases_exclusions_and_filters_hold_beside_ignored_words(
    shop: GatewayClient, conditions: dict[str, Any], expected: Any
) -> None:
    films = {one["sku"] for one in MADE if one["type"] == "Film" or "type" not in conditions}

    found = set(joined(await pages(shop, conditions, "NEWEST")))

    assert found == {one["sku"] for one in MADE if expected(one["description"])} & films


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ({"search": '"love time"'}, lambda text: "love time" in text),
        ({"search": "love -time"}, lambda text: "love" in text and "time" not in text),
        ({"search": 'love -"love time"'}, lambda text: "love" in text and "love time" not in text),
    ],
)
async def test_phrases_and_exclusions_hold_for_common_words(
    shop: GatewayClient, conditions: dict[str, Any], holds: Any
) -> None:
    made = {one["sku"]: one["description"] for one in MADE}

    found = joined(await pages(shop, conditions, "NEWEST"))

    assert found
    assert all(holds(made[sku]) for sku in found)


@pytest.mark.parametrize("sort", [*SORTS, "RELEVANCE"])
@pytest.mark.parametrize("text", ["love", "love time gold night train road blue", "love needle", '"love time" -gold'])
async def test_a_search_examines_a_bounded_number_of_products(shop: GatewayClient, text: str, sort: str) -> None:
    assert await examined(shop, LIST, {"filter": {"search": text}, "sort": sort}) <= MOST


def test_a_search_is_split_into_words_phrases_and_exclusions() -> None:
    parsed = SearchText.parse('Blue "kind of" -red -"so what" ocean\'s BLUE well-known')

    assert parsed.words == ("Blue", "kind", "of", "ocean", "s", "well", "known")
    assert (parsed.phrases, parsed.excluded, parsed.excluded_phrases) == (("kind of",), ("red",), ("so what",))
