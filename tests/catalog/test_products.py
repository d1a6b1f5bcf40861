"""The product catalog for merchants: what a creation stores, and the input that it refuses."""

from __future__ import annotations

import json
from typing import Any

import pytest
from bson import ObjectId

from portico.schema.kinds import Kind
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    assert_invariants,
    create_category,
    create_product,
    product_input,
)

PRODUCT = """query ($sku: String!) { product(sku: $sku) {
  __typename id sku title description asin issueDate
  pricing { list { amount currency } retail { amount currency } savings { amount currency } pctSavings }
  shipping { weight dimensions { width height depth } } categories { slug } properties { name value }
  stock { available reserved sold }
  ... on AudioAlbum { artist genres tracks }
  ... on Film { directors writers actors genres aspectRatio }
  ... on GeneralProduct { type details }
} }"""


async def read(gateway: GatewayClient, sku: str) -> Any:
    return (await gateway.data(PRODUCT, {"sku": sku}))["product"]


def usd(amount: int) -> dict[str, Any]:
    return {"amount": amount, "currency": "USD"}


FULL = {
    "sku": "00e8da9b",
    "title": "A Love Supreme",
    "description": "by John Coltrane",
    "asin": "B0000A118M",
    "pricing": {"list": usd(1200), "retail": usd(1100)},
    "shipping": {"weight": 6.5, "dimensions": {"width": 10.0, "height": 10.5, "depth": 1.0}},
    "properties": [{"name": "Format", "value": "LP"}, {"name": "Colour", "value": "black"}],
    "issueDate": "1965-02-01T00:00:00.000Z",
}
SHOWN = {
    **FULL,
    "id": Kind.encode_id("Product", "00e8da9b"),
    "pricing": {**FULL["pricing"], "savings": usd(100), "pctSavings": 8},  # type: ignore[dict-item]
    "categories": [{"slug": "jazz"}, {"slug": "albums"}],
    "stock": {"available": 0, "reserved": 0, "sold": 0},
}


ALBUM = {"artist": "John Coltrane", "genres": ["Jazz", "Free"], "tracks": ["Part 1", "Part 2"]}
FILM = {"directors": ["A"], "writers": ["B", "C"], "actors": ["D"], "genres": ["Drama"], "aspectRatio": "1.66:1"}
DRIVE = {"rpm": 7200, "ports": ["SATA"], "cache": {"mb": 64.5, "ecc": None}}


@pytest.mark.parametrize(
    ("product_type", "details", "shown"),
    [
        ("Audio Album", ALBUM, {"__typename": "AudioAlbum", **ALBUM}),
        ("Film", FILM, {"__typename": "Film", **FILM}),
        ("Disk Drive", DRIVE, {"__typename": "GeneralProduct", "type": "Disk Drive", "details": DRIVE}),
    ],
    ids=["album", "film", "general"],
)
async def test_a_product_of_each_type_is_stored_as_given(
    gateway: GatewayClient, product_type: str, details: dict[str, Any], shown: dict[str, Any]
) -> None:
    jazz, albums = await create_category(gateway, slug="jazz"), await create_category(gateway, slug="albums")

    ids = [jazz["id"], albums["id"], jazz["id"]]
    created = await create_product(gateway, **FULL, type=product_type, details=details, categoryIds=ids)

    assert created["id"] == SHOWN["id"]
    assert await read(gateway, "00e8da9b") == {**SHOWN, **shown}
    await assert_invariants(gateway)


@pytest.mark.parametrize(
    ("product_type", "shown"),
    [
        ("Audio Album", {"__typename": "AudioAlbum", "artist": None, "genres": [], "tracks": []}),
        ("Film", {"__typename": "Film", **{name: [] for name in FILM}, "aspectRatio": None}),
        ("Book", {"__typename": "GeneralProduct", "type": "Book", "details": {}}),
        ("audio album", {"__typename": "GeneralProduct", "type": "audio album", "details": {}}),
    ],
)
async def test_a_product_requires_only_a_sku_a_type_a_title_and_prices(
    gateway: GatewayClient, product_type: str, shown: dict[str, Any]
) -> None:
    given = {"sku": "S", "type": product_type, "title": " T ", "pricing": {"list": {"amount": 0}, "retail": usd(0)}}

    result = await gateway.result("createProduct", given)

    assert result["__typename"] == "ProductPayload"
    assert await read(gateway, "S") == {
        "id": Kind.encode_id("Product", "S"),
        "sku": "S",
        "title": "T",
        "description": None,
        "asin": None,
        "issueDate": None,
        "pricing": {"list": usd(0), "retail": usd(0), "savings": usd(0), "pctSavings": 0},
        "shipping": None,
        "categories": [],
        "properties": [],
        "stock": {"available": 0, "reserved": 0, "sold": 0},
        **shown,
    }


@pytest.mark.both_drivers
async def test_a_sku_may_contain_any_text_and_is_unique(gateway: GatewayClient) -> None:
    first = await create_product(gateway, sku=" Ü:/$ne.{} ")
    assert (first["sku"], first["id"]) == ("Ü:/$ne.{}", Kind.encode_id("Product", "Ü:/$ne.{}"))
    await create_product(gateway, sku="ü:/$ne.{}")

    result = await gateway.result("createProduct", product_input(sku="Ü:/$ne.{}"))

    assert result == {"__typename": "SkuTaken", "message": "The SKU 'Ü:/$ne.{}' is taken.", "sku": "Ü:/$ne.{}"}
    assert (await read(gateway, "Ü:/$ne.{}"))["title"] == first["title"]


@pytest.mark.both_drivers
async def test_names_of_properties_and_details_are_stored_unchanged(gateway: GatewayClient) -> None:
    names = ["$where", "a.b", ".", "$", "$set.x", "_id", "", "__proto__", "Ж", "text_language", "artist", "$ref", "$id"]
    details = {
        **dict.fromkeys(names, "x"),
        "nested": {"$inc": {"a.b": [{"$oid": "x"}, {"$date": 1}]}, "link": {"$ref": "a", "$id": 1, "$db": "b", "c": 2}},
    }
    properties = [{"name": name, "value": f"{name}$."} for name in names if name]

    product = await create_product(gateway, type="Odd", sku="new", details=details, properties=properties)
    other = await create_product(gateway, type="Odd", sku="old")
    given = {"id": other["id"], "nonce": other["nonce"], "details": details, "properties": properties}
    await gateway.result("updateProduct", given)

    for sku in ("new", "old"):
        shown = await read(gateway, sku)
        assert shown["details"] == details
        assert shown["properties"] == properties
    await gateway.payload("updateProduct", {"id": product["id"], "nonce": product["nonce"], "title": "T"})
    await assert_invariants(gateway)


@pytest.mark.parametrize(
    ("number", "kept"),
    [
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("1.5", 1.5),
        ("1e30", 1e30),
    ],
)
async def test_numbers_in_details_are_stored_unchanged(gateway: GatewayClient, number: str, kept: float) -> None:
    body = json.dumps({"query": MUTATIONS["createProduct"], "variables": {"input": product_input(sku="n", type="N")}})
    changed = body.replace('"details": {', f'"details": {{"number": {number}, ').encode()

    headers = {"authorization": f"Bearer {gateway.token()}", "content-type": "application/json"}
    await gateway.http.post("/graphql", content=changed, headers=headers)

    assert (await read(gateway, "n"))["details"]["number"] == kept


def prices(**fields: Any) -> dict[str, Any]:
    return {"pricing": {"list": usd(10), "retail": usd(10), **fields}}


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels - 1):
        value = {"in": value}
    return value


AMOUNT = "An amount must be from 0 to 2^53 - 1 minor units."
CURRENCY = "A currency is three capital letters, e.g. USD."
BIG = 2**53 - 1
# Rules for new products and for edits alike.
RULES: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"title": ""}, "Title must not be empty.", ["title"]),
    ({"title": " \n"}, "Title must not be empty.", ["title"]),
    ({"title": "t" * 501}, "Title has 501 characters; 500 are allowed.", ["title"]),
    ({"title": "a\0b"}, "Title holds a NUL character.", ["title"]),
    ({"description": "d" * 20_001}, "Description has 20,001 characters; 20,000 are allowed.", ["description"]),
    ({"description": "\0"}, "Description holds a NUL character.", ["description"]),
    (prices(retail=usd(11)), "The retail price must not be above the list price.", ["pricing", "retail"]),
    (prices(list=usd(-1)), AMOUNT, ["pricing", "list", "amount"]),
    (prices(retail=usd(-1)), AMOUNT, ["pricing", "retail", "amount"]),
    (prices(list={"amount": 1, "currency": "usd"}), CURRENCY, ["pricing", "list", "currency"]),
    (prices(list={"amount": 1, "currency": "ÄÖÜ"}), CURRENCY, ["pricing", "list", "currency"]),
    (prices(retail={"amount": 1, "currency": "EURO"}), CURRENCY, ["pricing", "retail", "currency"]),
    (
        prices(retail={"amount": 1, "currency": "EUR"}),
        "Both prices must be in one currency.",
        ["pricing", "retail", "currency"],
    ),
    ({"shipping": {"weight": -0.1}}, "A measure must be zero or more.", ["shipping", "weight"]),
    (
        {"shipping": {"dimensions": {"width": 1, "height": -1, "depth": 1}}},
        "A measure must be zero or more.",
        ["shipping", "dimensions", "height"],
    ),
    (
        {"properties": [{"name": "a", "value": "b"}, {"name": "", "value": "b"}]},
        "Properties name must not be empty.",
        ["properties", "1", "name"],
    ),
    (
        {"properties": [{"name": "a", "value": "v" * 501}]},
        "Properties value has 501 characters; 500 are allowed.",
        ["properties", "0", "value"],
    ),
    ({"properties": [{"name": "a", "value": "b"}] * 501}, "Has 501 entries; 500 are allowed.", ["properties"]),
    (
        {"categoryIds": [Kind.encode_id("Category", ObjectId()) for _ in range(501)]},
        "Has 501 entries; 500 are allowed.",
        ["categoryIds"],
    ),
    ({"details": []}, "Details must be an object.", ["details"]),
    ({"details": "artist"}, "Details must be an object.", ["details"]),
]
ALBUM_RULES: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"actors": ["x"]}, "A product of type 'Audio Album' has no 'actors'.", ["details", "actors"]),
    ({"my_own.$x": 1}, "A product of type 'Audio Album' has no 'my_own.$x'.", ["details", "my_own.$x"]),
    ({"artist": ["x"]}, "Must be a string.", ["details", "artist"]),
    ({"artist": ""}, "Details artist must not be empty.", ["details", "artist"]),
    ({"artist": "a\0"}, "Details artist holds a NUL character.", ["details", "artist"]),
    ({"genres": "Jazz"}, "Must be a list of strings.", ["details", "genres"]),
    ({"genres": ["Jazz", 5]}, "Must be a string.", ["details", "genres", "1"]),
    ({"tracks": ["t"] * 501}, "Has 501 entries; 500 are allowed.", ["details", "tracks"]),
    ({"tracks": ["t" * 501]}, "Details tracks has 501 characters; 500 are allowed.", ["details", "tracks", "0"]),
]
FILM_RULES: list[tuple[dict[str, Any], str, list[str]]] = [
    ({"artist": "x"}, "A product of type 'Film' has no 'artist'.", ["details", "artist"]),
    ({"aspect_ratio": "1:1"}, "A product of type 'Film' has no 'aspect_ratio'.", ["details", "aspect_ratio"]),
    (
        {"aspectRatio": "1" * 501},
        "Details aspectRatio has 501 characters; 500 are allowed.",
        ["details", "aspectRatio"],
    ),
    ({"aspectRatio": 1.85}, "Must be a string.", ["details", "aspectRatio"]),
    ({"actors": {"name": "x"}}, "Must be a list of strings.", ["details", "actors"]),
]
FREE_RULES: list[tuple[dict[str, Any], str, list[str]]] = [
    (deep(21), "Details are nested too deeply; 20 levels are allowed.", ["details"]),
    ({"values": [0] * 5_000}, "Details have too many values; 5,000 are allowed.", ["details"]),
    ({"a_b": [{"c_d": "x\0"}]}, "A text holds a NUL character.", ["details", "a_b", "0", "c_d"]),
    ({"a_b": {"c\0d": 1}}, "A key holds a NUL character.", ["details", "a_b"]),
    ({"a_b": [{"c_d": 2**63}]}, "A whole number must fit into 64 bits.", ["details", "a_b", "0", "c_d"]),
]


def rules_of(product_type: str) -> list[tuple[dict[str, Any], str, list[str]]]:
    own = {"Audio Album": ALBUM_RULES, "Film": FILM_RULES}.get(product_type, FREE_RULES)
    return [*RULES, *(({"details": details}, message, path) for details, message, path in own)]


@pytest.mark.both_drivers
@pytest.mark.parametrize("product_type", ["Audio Album", "Film", "Book"])
async def test_invalid_input_is_refused_with_its_path(gateway: GatewayClient, product_type: str) -> None:
    product = await create_product(gateway, sku="kept", type=product_type, details={})
    before = await read(gateway, "kept")

    for given, message, path in rules_of(product_type):
        created = await gateway.result("createProduct", product_input(**{"type": product_type, "details": {}, **given}))
        edit = {"id": product["id"], "nonce": product["nonce"], **given}
        updated = await gateway.result("updateProduct", edit)
        assert created == updated == {"__typename": "InvalidInput", "message": message, "path": path}, given

    assert await read(gateway, "kept") == before
    assert await gateway.db["products"].count_documents({}) == 1
    assert (await gateway.stored("products"))["nonce"] == product["nonce"]


async def test_input_at_the_limits_is_accepted(gateway: GatewayClient) -> None:
    given = {
        "sku": "s" * 100,
        "type": "t" * 100,
        "title": "t" * 500,
        "description": "d" * 20_000,
        "asin": "a" * 100,
        "pricing": {"list": usd(BIG), "retail": usd(0)},
        "properties": [{"name": "n" * 500, "value": "v" * 500}] * 500,
        "details": {"deep": deep(19), "values": [0] * 4_979},
    }

    await create_product(gateway, **given)

    shown = await read(gateway, "s" * 100)
    assert {name: shown[name] for name in given if name != "pricing"} == {
        k: v for k, v in given.items() if k != "pricing"
    }
    assert shown["pricing"] == {"list": usd(BIG), "retail": usd(0), "savings": usd(BIG), "pctSavings": 100}


@pytest.mark.parametrize(
    ("given", "message", "path"),
    [
        ({"sku": " "}, "Sku must not be empty.", ["sku"]),
        ({"sku": "s" * 101}, "Sku has 101 characters; 100 are allowed.", ["sku"]),
        ({"sku": "a\0b"}, "Sku holds a NUL character.", ["sku"]),
        ({"type": ""}, "Type must not be empty.", ["type"]),
        ({"type": "\0"}, "Type holds a NUL character.", ["type"]),
        ({"asin": "a" * 101}, "Asin has 101 characters; 100 are allowed.", ["asin"]),
        ({"asin": "\0"}, "Asin holds a NUL character.", ["asin"]),
    ],
)
async def test_a_new_product_needs_a_valid_sku_and_type(
    gateway: GatewayClient, given: dict[str, Any], message: str, path: list[str]
) -> None:
    result = await gateway.result("createProduct", product_input(**given))

    assert result == {"__typename": "InvalidInput", "message": message, "path": path}
    assert await gateway.db["products"].count_documents({}) == 0


async def test_amounts_must_be_whole_numbers_within_53_bits(gateway: GatewayClient) -> None:
    for amount in (2**53, -(2**53), 10**30, 1.5, "10", True, None):
        given = product_input(pricing={"list": {"amount": amount}, "retail": {"amount": 0}})
        answer = await gateway.ask(MUTATIONS["createProduct"], {"input": given})
        assert answer.codes == ["BAD_USER_INPUT"], amount


@pytest.mark.both_drivers
async def test_a_whole_number_beyond_64_bits_is_refused_in_a_literal_too(gateway: GatewayClient) -> None:
    text = """mutation { createProduct(input: {
      sku: "S", type: "Book", title: "T", pricing: { list: { amount: 1 }, retail: { amount: 1 } }
      details: { pages: [1, -9223372036854775809] }
    }) { ... on InvalidInput { message path } } }"""

    result = (await gateway.data(text))["createProduct"]

    assert result == {"message": "A whole number must fit into 64 bits.", "path": ["details", "pages", "1"]}
