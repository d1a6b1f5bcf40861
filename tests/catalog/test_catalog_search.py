"""Finding products: each filter, each order, and combinations of them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.catalog.support.catalog import SKUS, add_categories, add_products, mark_in_stock, skus
from tests.catalog.support.record_shop import ALL, CATEGORIES, DATED, IN_STOCK, PRODUCTS
from tests.support.harness import GatewayClient

pytestmark = pytest.mark.both_drivers


@pytest.fixture(scope="module")
async def shop(shared: GatewayClient) -> GatewayClient:
    """Return a gateway with the products of the shop. Three of them are in stock."""
    await add_categories(shared.db, CATEGORIES)
    await add_products(shared.db, PRODUCTS)
    await mark_in_stock(shared.db, {"sku": {"$in": list(IN_STOCK)}})
    return shared


async def refused(shop: GatewayClient, conditions: dict[str, Any], sort: str = "NEWEST") -> tuple[str, list[str]]:
    """Return the code of the only error, and the path of the argument that it names."""
    answer = await shop.ask(SKUS, {"filter": conditions, "sort": sort})
    (error,) = answer.body["errors"]
    assert error["message"]
    # A name in the source.
    assert not re.search("[a-z]_[a-z]", error["message"])
    return error["extensions"]["code"], error["extensions"].get("argument", [])


async def test_without_a_filter_products_are_listed_newest_first_and_undated_ones_last(shop: GatewayClient) -> None:
    found = await skus(shop)

    assert found[:6] == DATED
    assert set(found) == ALL
    assert len(found) == len(ALL)


async def test_a_filter_of_nulls_is_no_filter(shop: GatewayClient) -> None:
    names = ("type", "genres", "actor", "titlePrefix", "search", "minPrice", "properties", "inStock")
    nothing: dict[str, Any] = dict.fromkeys(names)

    assert await skus(shop, **nothing) == await skus(shop)


@pytest.mark.parametrize(
    ("sort", "expected"),
    [
        ("NEWEST", ["supreme", "blue", "train", "abba"]),
        ("DISCOUNT_DESC", ["abba", "blue", "supreme", "train"]),
        ("PRICE_ASC", ["abba", "blue", "supreme", "train"]),
        ("PRICE_DESC", ["train", "supreme", "blue", "abba"]),
        ("TITLE_ASC", ["supreme", "train", "blue", "abba"]),
    ],
)
async def test_a_list_can_be_sorted(shop: GatewayClient, sort: str, expected: list[str]) -> None:
    assert await skus(shop, sort, type="AUDIO_ALBUM") == expected


async def test_titles_are_sorted_by_code_points(shop: GatewayClient) -> None:
    assert await skus(shop, "TITLE_ASC", type="GENERAL") == ["drive", "zz", "zzz", "last", "edge", "private"]


@pytest.mark.parametrize(
    ("product_type", "expected"),
    [
        ("AUDIO_ALBUM", {"supreme", "blue", "train", "abba"}),
        ("FILM", {"matrix", "wick", "mash", "days", "dots", "rock"}),
        ("GENERAL", {"last", "zz", "zzz", "edge", "private", "drive"}),
    ],
)
async def test_products_are_found_by_type(shop: GatewayClient, product_type: str, expected: set[str]) -> None:
    assert set(await skus(shop, type=product_type)) == expected


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        # Albums and films, by any of several genres in any case.
        ("genres", ["Jazz"], ["supreme", "blue"]),
        ("genres", ["jAZZ"], ["supreme", "blue"]),
        ("genres", ["  jazz "], ["supreme", "blue"]),
        ("genres", ["spiritual\tJAZZ"], ["supreme"]),
        ("genres", ["pop", "hard bop", "POP"], ["train", "abba"]),
        ("genres", ["Jaz"], []),
        ("genres", ["Polka"], []),
        # Films, by the full name of an actor.
        ("actor", "Keanu Reeves", ["wick", "matrix"]),
        ("actor", "keanu reeves", ["wick", "matrix"]),
        ("actor", "Keanu", []),
        ("actor", "Keanu Reeves, Jazz", []),
        ("actor", "Élodie Müller", ["mash"]),
        ("actor", "E\N{COMBINING ACUTE ACCENT}LODIE MU\N{COMBINING DIAERESIS}LLER", ["mash"]),
        ("actor", ".*", []),
        # Albums, by the full name of the artist.
        ("artist", "John Coltrane", ["supreme", "train"]),
        ("artist", "abba", ["abba"]),
        ("artist", "Coltrane", []),
        # Words of the title, in any case.
        ("titleWord", "blue", ["blue", "train"]),
        ("titleWord", "BLUE", ["blue", "train"]),
        ("titleWord", "Blu", []),
        ("titleWord", "train blue", ["train"]),
        ("titleWord", "rock'n'roll", ["rock"]),
        ("titleWord", "Rock\N{RIGHT SINGLE QUOTATION MARK}n\N{RIGHT SINGLE QUOTATION MARK}Roll", ["rock"]),
        ("titleWord", "roll", []),
        ("titleWord", "the", ["matrix"]),
        ("titleWord", "500", ["days"]),
        ("titleWord", "programmer", []),
    ],
)
async def test_products_are_found_by_whole_names_and_words(
    shop: GatewayClient, name: str, value: Any, expected: list[str]
) -> None:
    assert await skus(shop, **{name: value}) == expected


@pytest.mark.parametrize(
    ("prefix", "expected"),
    [
        ("Blue", ["train"]),
        ("blue", []),
        ("M*", ["mash"]),
        (".", ["dots"]),
        ("...", ["dots"]),
        (".*", []),
        ("(500)", ["days"]),
        ("(500", ["days"]),
        ("Rock'n'Roll [Live] $9.99 ^", ["rock"]),
        ("Rock'n'Roll [Live] $9.99 ^$", []),
        ("^", []),
        ("\\", []),
        ("zz", ["zz", "zzz", "last"]),
        ("zz\U0010ffff", ["last"]),
        ("zz\U0010ffff\U0010ffff", ["last"]),
        ("\U0010ffff", []),
        ("\ud7ff", ["edge"]),
        ("\ue000", ["private"]),
        ("", sorted(ALL)),
    ],
)
async def test_a_title_prefix_is_matched_literally(shop: GatewayClient, prefix: str, expected: list[str]) -> None:
    found = await skus(shop, "TITLE_ASC", titlePrefix=prefix)

    assert found == expected if prefix else sorted(found) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Matrix", {"matrix"}),
        ("mAtrIX wick", {"matrix", "wick"}),
        ("the", {"matrix", "supreme", "blue"}),
        ("Coltrane", {"supreme", "blue", "train"}),
        ('"John Coltrane"', {"supreme", "blue"}),
        ("John -Coltrane", {"wick"}),
        ("john", {"supreme", "blue", "train", "wick"}),
        ("carrie", {"matrix"}),
        ("Lana", {"matrix"}),
        ("lilly", {"matrix"}),
        ("programmer", {"matrix"}),
        ("elodie", {"mash"}),
        ("impulse", set()),
        ("-Coltrane", set()),
        ('"of scales"', set()),
        ('unbalanced "quote', set()),
    ],
)
async def test_a_search_covers_titles_descriptions_and_people(
    shop: GatewayClient, text: str, expected: set[str]
) -> None:
    assert set(await skus(shop, search=text)) == expected


async def test_relevance_ranks_titles_before_people_before_descriptions(shop: GatewayClient) -> None:
    first, *people, last = await skus(shop, "RELEVANCE", search="john")

    assert (first, set(people), last) == ("wick", {"supreme", "train"}, "blue")


async def test_a_search_can_use_another_order(shop: GatewayClient) -> None:
    assert await skus(shop, "PRICE_ASC", search="john") == ["wick", "blue", "supreme", "train"]


@pytest.mark.parametrize("conditions", [{}, {"search": ""}, {"titleWord": "blue"}])
async def test_relevance_without_a_search_is_refused(shop: GatewayClient, conditions: dict[str, str]) -> None:
    assert await refused(shop, conditions, "RELEVANCE") == ("BAD_USER_INPUT", ["sort"])


@pytest.mark.parametrize(
    ("percent", "expected"), [(100, []), (99, ["abba"]), (50, ["abba"]), (49, ["abba", "blue"]), (-1, ALL)]
)
async def test_a_discount_filter_compares_whole_percents(
    shop: GatewayClient, percent: int, expected: list[str]
) -> None:
    """`mash` is 49.9 percent off, which counts as 49."""
    assert sorted(await skus(shop, minPctSavings=percent)) == sorted(expected)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        ({"minPrice": 1000, "maxPrice": 1100}, ["blue", "supreme"]),
        ({"minPrice": 1001, "maxPrice": 1099}, []),
        ({"minPrice": 1100, "maxPrice": 1000}, []),
        ({"maxPrice": 100}, ["rock", "abba", "dots"]),
        ({"maxPrice": -1}, []),
        ({"minPrice": 7201}, ["days"]),
        ({"minPrice": 2**53 - 1}, ["days"]),
    ],
)
async def test_price_bounds_are_inclusive(shop: GatewayClient, bounds: dict[str, int], expected: list[str]) -> None:
    found = await skus(shop, "PRICE_ASC", **bounds)

    assert sorted(found) == sorted(expected)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("Label", "Impulse!")], ["supreme"]),
        ([("LABEL", "columbia")], ["blue"]),
        ([("Format", "LP")], ["supreme"]),
        ([("Format", "LP"), ("Label", "Impulse!")], ["supreme"]),
        ([("Format", "CD"), ("Label", "Impulse!")], []),
        ([("a.b", "$gt")], ["drive"]),
        ([("a", "b")], []),
    ],
)
async def test_products_are_found_by_all_of_several_properties(
    shop: GatewayClient, pairs: list[tuple[str, str]], expected: list[str]
) -> None:
    wanted = [{"name": name, "value": value} for name, value in pairs]

    assert await skus(shop, properties=wanted) == expected


async def test_products_are_found_by_their_availability(shop: GatewayClient) -> None:
    assert set(await skus(shop, inStock=True)) == IN_STOCK
    assert set(await skus(shop, inStock=False)) == ALL - IN_STOCK


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"type": "FILM", "actor": "Keanu Reeves", "maxPrice": 1000}, ["wick"]),
        ({"type": "AUDIO_ALBUM", "actor": "Keanu Reeves"}, []),
        ({"genres": ["jazz"], "artist": "miles davis", "minPctSavings": 10}, ["blue"]),
        ({"titleWord": "blue", "titlePrefix": "Blue"}, ["train"]),
        ({"titlePrefix": "z", "maxPrice": 600}, ["zzz"]),
        ({"search": "john", "type": "AUDIO_ALBUM", "inStock": True}, ["supreme"]),
        ({"search": "john", "titlePrefix": "B"}, ["train"]),
        ({"inStock": False, "properties": [{"name": "format", "value": "cd"}]}, ["blue"]),
        ({"inStock": True, "genres": ["jazz", "action"], "minPrice": 900, "maxPrice": 1000}, ["wick"]),
    ],
)
async def test_all_conditions_must_hold(shop: GatewayClient, conditions: dict[str, Any], expected: list[str]) -> None:
    assert await skus(shop, **conditions) == expected


@pytest.mark.parametrize(
    ("conditions", "argument"),
    [
        ({"genres": []}, ["filter", "genres"]),
        ({"genres": ["x"] * 51}, ["filter", "genres"]),
        ({"properties": []}, ["filter", "properties"]),
        ({"typeNames": []}, ["filter", "typeNames"]),
        ({"categoryIds": []}, ["filter", "categoryIds"]),
        ({"titleWord": " "}, ["filter", "titleWord"]),
        ({"titleWord": "_!?"}, ["filter", "titleWord"]),
        ({"titlePrefix": "x" * 1001}, ["filter", "titlePrefix"]),
        ({"actor": "x" * 1001}, ["filter", "actor"]),
        ({"artist": "\0"}, ["filter", "artist"]),
        ({"search": "x" * 1001}, ["filter", "search"]),
        ({"minPrice": 2**53}, []),
        ({"minPctSavings": 2**31}, []),
        ({"minPrice": 0.5}, []),
    ],
)
async def test_an_impossible_condition_is_refused(
    shop: GatewayClient, conditions: dict[str, Any], argument: list[str]
) -> None:
    assert await refused(shop, conditions) == ("BAD_USER_INPUT", argument)
