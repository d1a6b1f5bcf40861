"""An import keeps each valid record, reports each invalid one, and changes nothing when it is repeated."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.catalog.support.catalog import add_categories, album, pricing, product, skus
from tests.support.harness import GatewayClient, assert_invariants
from tests.support.importing import Line, breadcrumbs, category, lines, put, run, write

pytestmark = pytest.mark.both_drivers


async def test_products_are_created_from_a_plain_and_from_a_gzipped_file(gateway: GatewayClient, file: Path) -> None:
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz"}])
    whole = album(
        sku="whole",
        title="A Love Supreme",
        description="One session.",
        asin="B0000A118M",
        artist="John Coltrane",
        genres=["Jazz"],
        tracks=["Resolution"],
        categories=["jazz"],
        properties=[{"name": "Label", "value": "Impulse!"}],
        issueDate="1965-01-01T02:00:00+02:00",
        shipping={"weight": 6, "dimensions": {"width": 10, "height": 10.5, "depth": 1}},
        pricing={"list": {"amount": 1200, "currency": "EUR"}, "retail": {"amount": 1100, "currency": "EUR"}},
    )
    packed = write(file.with_suffix(".gz"), gzip.compress(lines([product(sku="packed"), product(sku="other")])))

    plain = await put(gateway.db, "products", file, [whole, product(sku="plain")])
    unpacked = await run(gateway.db, "products", packed)

    assert (plain.counts, unpacked.counts) == ({"created": 2}, {"created": 2})
    assert set(await skus(gateway)) == {"whole", "plain", "packed", "other"}
    text = """
    {
      product(sku: "whole") {
        title description asin issueDate categories { slug } properties { name value }
        pricing { list { amount currency } pctSavings }
        shipping { weight dimensions { width height depth } }
        ... on AudioAlbum { artist genres tracks }
      }
    }
    """
    assert (await gateway.data(text))["product"] == {
        **{name: whole[name] for name in ("title", "description", "asin", "properties")},
        **whole["details"],
        "issueDate": "1965-01-01T00:00:00.000Z",
        "categories": [{"slug": "jazz"}],
        "pricing": {"list": {"amount": 1200, "currency": "EUR"}, "pctSavings": 8},
        "shipping": {"weight": 6.0, "dimensions": {"width": 10.0, "height": 10.5, "depth": 1.0}},
    }


async def test_an_import_can_be_repeated(gateway: GatewayClient, file: Path) -> None:
    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz"}, {"slug": "pop", "name": "Pop"}])
    given = [album(sku=f"a{number}", genres=["Jazz"], categories=["jazz"]) for number in range(1200)]
    assert (await put(gateway.db, "products", file, given)).counts == {"created": 1200}
    before = await gateway.db["products"].find({}, sort=[("sku", 1)]).to_list()

    again = await run(gateway.db, "products", file)
    assert again.counts == {"unchanged": 1200}
    assert await gateway.db["products"].find({}, sort=[("sku", 1)]).to_list() == before

    given[0] |= {"title": "Other", "categories": ["pop"]}
    given[1] |= {"title": "Another", "categories": []}
    del given[2]["details"]["genres"]
    changed = await put(gateway.db, "products", file, [*given, product(sku="new")])

    assert changed.counts == {"changed": 3, "unchanged": 1197, "created": 1}
    assert await gateway.db["products"].count_documents({}) == 1201
    assert await skus(gateway, titlePrefix="Other") == ["a0"]
    assert await skus(gateway, titleWord="another") == ["a1"]
    text = '{ a: product(sku: "a0") { categories { slug } } b: product(sku: "a1") { categories { slug } } }'
    assert await gateway.data(text) == {"a": {"categories": [{"slug": "pop"}]}, "b": {"categories": []}}
    assert (await gateway.data('{ product(sku: "a2") { ... on AudioAlbum { genres } } }'))["product"] == {"genres": []}
    by_sku = {one["sku"]: one["nonce"] for one in before}
    for one in await gateway.db["products"].find({"sku": {"$in": ["a0", "a1", "a2", "a3"]}}).to_list():
        assert (one["nonce"] == by_sku[one["sku"]]) == (one["sku"] == "a3")
    await assert_invariants(gateway)


GOOD: dict[str, Any] = {"sku": "x", "type": "T", "title": "X", "pricing": pricing(2, 1)}
BAD_PRODUCTS: list[tuple[Line, str]] = [
    (b"{", "not JSON: "),
    (b"nonsense", "not JSON: "),
    (b'{"sku": "x"} {"sku": "y"}', "not JSON: "),
    (b'{"sku": "\xff"}', "not JSON: "),
    (b'{"sku": "\\ud800"}', "not JSON: "),
    (b'{"sku": NaN}', "not JSON: "),
    (b'{"pricing": {"list": {"amount": 1e400}}}', "not JSON: "),
    (b"[]", "must be an object"),
    (b"null", "must be an object"),
    (b'"text"', "must be an object"),
    ({**GOOD, "colour": "red"}, "colour: unknown field"),
    ({**GOOD, "categoryIds": []}, "categoryIds: unknown field"),
    ({**GOOD, "sku": None}, "sku: is missing"),
    ({name: value for name, value in GOOD.items() if name != "title"}, "title: is missing"),
    ({name: value for name, value in GOOD.items() if name != "pricing"}, "pricing: must be an object"),
    ({**GOOD, "sku": 7}, "sku: must be a string"),
    ({**GOOD, "sku": "  "}, "sku: Sku must not be empty."),
    ({**GOOD, "sku": "x" * 101}, "sku: Sku has 101 characters; 100 are allowed."),
    ({**GOOD, "title": ""}, "title: Title must not be empty."),
    ({**GOOD, "title": "a\0b"}, "title: Title holds a NUL character."),
    ({**GOOD, "pricing": {"list": {"amount": 1}}}, "pricing.retail: must be an object"),
    ({**GOOD, "pricing": pricing(1, 2)}, "pricing.retail: The retail price must not be above the list price."),
    (
        {**GOOD, "pricing": pricing(2**53, 1)},
        (
            "pricing.list.amount: The integer 9007199254740992 is too large: "
            "`BigInt` must be between -9007199254740991 and 9007199254740991."
        ),
    ),
    (orjson.dumps(GOOD).replace(b'"amount":2', b'"amount":123456789012345678901234567890'), "pricing.list.amount: "),
    (
        {**GOOD, "pricing": {"list": {"amount": 1.5}, "retail": {"amount": 1}}},
        "pricing.list.amount: BigInt cannot represent a value that is not a whole number: 1.5.",
    ),
    ({**GOOD, "pricing": {"list": {"amount": "1"}, "retail": {"amount": 1}}}, "pricing.list.amount: "),
    ({**GOOD, "pricing": pricing(-1, -1)}, "pricing.list.amount: An amount must be from 0 to 2^53 - 1 minor units."),
    ({**GOOD, "pricing": {**pricing(1, 1), "list": {"amount": 1, "currency": "usd"}}}, "pricing.list.currency: "),
    ({**GOOD, "pricing": {**pricing(1, 1), "list": {"amount": 1, "currency": "EUR"}}}, "pricing.retail.currency: "),
    ({**GOOD, "categories": ["none"]}, "categories: There is no category 'none'."),
    ({**GOOD, "categories": "jazz"}, "categories: must be a list"),
    ({**GOOD, "categories": [1]}, "categories.0: must be a string"),
    ({**GOOD, "properties": [{"name": "a"}]}, "properties.0.value: is missing"),
    ({**GOOD, "properties": [{"name": "a", "value": "b", "x": 1}]}, "properties.0.x: unknown field"),
    ({**GOOD, "shipping": {"weight": "1"}}, "shipping.weight: must be a number"),
    ({**GOOD, "shipping": {"weight": -1}}, "shipping.weight: A measure must be zero or more."),
    ({**GOOD, "shipping": {"dimensions": {"width": 1}}}, "shipping.dimensions.height: must be a number"),
    ({**GOOD, "issueDate": "1999"}, "issueDate: `DateTime` must be an RFC 3339 string with a zone"),
    (
        {**GOOD, "issueDate": "1999-02-30T00:00:00Z"},
        "issueDate: `DateTime` must be an existing date and time; got '1999-02-30T00:00:00Z'",
    ),
    ({**GOOD, "issueDate": 0}, "issueDate: `DateTime` must be an RFC 3339 string with a zone"),
    ({**GOOD, "details": []}, "details: Details must be an object."),
    ({**GOOD, "details": "x"}, "details: Details must be an object."),
    ({**GOOD, "details": 0}, "details: Details must be an object."),
    ({**GOOD, "details": {"n": 2**63}}, "details.n: A whole number must fit into 64 bits."),
    (orjson.dumps({**GOOD, "details": {"n": 0}}).replace(b'"n":0', b'"n":18446744073709551616'), "details.n: A whole "),
    ({**GOOD, "details": {"a\0": 1}}, "details: A key holds a NUL character."),
    ({**GOOD, "type": "Film", "details": {"actors": "One"}}, "details.actors: Must be a list of strings."),
    ({**GOOD, "type": "Film", "details": {"tracks": []}}, "details.tracks: A product of type 'Film' has no 'tracks'."),
]


async def test_each_invalid_product_is_reported_with_its_line_and_each_valid_one_is_kept(
    gateway: GatewayClient, file: Path
) -> None:
    given: list[Line] = []
    for number, (bad, _) in enumerate(BAD_PRODUCTS):
        given += [bad, product(sku=f"good-{number}")]

    done = await put(gateway.db, "products", file, given)

    assert [line for line, _ in done.reasons] == [2 * number + 1 for number in range(len(BAD_PRODUCTS))]
    for (_, reason), (line, expected) in zip(done.reasons, BAD_PRODUCTS, strict=True):
        assert reason.startswith(expected), (line, reason)
        assert len(reason) < 150
    assert {one.file for one in done.bad} == {str(file)}
    assert done.counts == {"created": len(BAD_PRODUCTS), "failed": len(BAD_PRODUCTS)}
    assert len(await skus(gateway)) == len(BAD_PRODUCTS)


async def test_each_invalid_category_is_reported(gateway: GatewayClient, file: Path) -> None:
    bad: list[tuple[Line, str]] = [
        ({"slug": "a"}, "name: is missing"),
        ({"name": "A"}, "slug: is missing"),
        ({"slug": "a", "name": "A", "id": 1}, "id: unknown field"),
        ({"slug": "a", "name": "A", "parent": 1}, "parent: must be a string"),
        ({"slug": "A B", "name": "A"}, "slug: Slug may hold lower-case letters"),
        ({"slug": "a" * 201, "name": "A"}, "slug: Slug has 201 characters; 200 are allowed."),
        ({"slug": "b", "name": "x" * 201}, "name: Name has 201 characters; 200 are allowed."),
        ({"slug": "c", "name": "  "}, "name: Name must not be empty."),
        ({"slug": "good", "name": ""}, "name: Name must not be empty."),
    ]
    done = await put(gateway.db, "categories", file, [{"slug": "good", "name": "Good"}, *(one for one, _ in bad)])

    for (line, reason), (number, (_, expected)) in zip(done.reasons, enumerate(bad, start=2), strict=True):
        assert line == number
        assert reason.startswith(expected), reason
    assert done.counts == {"created": 1, "failed": len(bad)}


async def test_parents_may_come_after_their_children(gateway: GatewayClient, file: Path) -> None:
    """This holds even if they come in another batch."""
    leaves = [category(f"leaf-{number}", f"{number}", f"branch-{number % 7}") for number in range(1100)]
    branches = [category(f"branch-{number}", f"Branch {number}", "root") for number in range(7)]

    done = await put(gateway.db, "categories", file, [*leaves, *branches, category("root", "Root")])

    assert (done.counts, done.bad) == ({"created": 1108}, [])
    assert await breadcrumbs(gateway, "leaf-1000") == ["root/Root", "branch-6/Branch 6", "1000"]
    await assert_invariants(gateway)


async def test_a_deep_tree_may_come_bottom_up(gateway: GatewayClient, file: Path) -> None:
    given = [category(f"c{depth}", f"{depth}", f"c{depth - 1}") for depth in range(40, 0, -1)]

    done = await put(gateway.db, "categories", file, [*given, category("c0", "0")])

    assert done.counts == {"created": 41}
    assert len(await breadcrumbs(gateway, "c40")) == 41


async def test_categories_without_a_parent_or_in_a_circle_are_reported(gateway: GatewayClient, file: Path) -> None:
    parents = {"lost": "none", "below": "lost", "a": "b", "b": "a", "own": "own"}
    bad = [category(slug, slug, parent) for slug, parent in parents.items()]

    done = await put(gateway.db, "categories", file, [*bad, {"slug": "good", "name": "Good", "parent": None}])

    assert done.reasons == [
        (line, f"parent: there is no category '{parent}'") for line, parent in enumerate(parents.values(), start=1)
    ]
    assert done.counts == {"created": 1, "failed": 5}


async def test_a_category_is_not_moved_below_itself(gateway: GatewayClient, file: Path) -> None:
    await add_categories(gateway.db, [category("a", "A"), category("b", "B", "a")])

    done = await put(gateway.db, "categories", file, [category("a", "A", "b")])

    assert done.reasons == [(1, "A category cannot be moved below itself.")]
    assert await breadcrumbs(gateway, "b") == ["a/A", "B"]


async def test_categories_are_renamed_and_moved_with_their_subtrees(gateway: GatewayClient, file: Path) -> None:
    music, bop = category("music", "Music"), category("bop", "Bop", "jazz")
    tree = [music, category("jazz", "Jazz", "music"), bop]
    moved, added = category("jazz", "Jazz & Blues", "shop"), category("hard-bop", "Hard Bop", "bop")
    for expected in ("created", "unchanged"):
        assert (await put(gateway.db, "categories", file, tree)).counts == {expected: 3}

    done = await put(gateway.db, "categories", file, [moved, music, category("shop", "Shop"), bop, added])

    assert done.counts == {"created": 2, "changed": 1, "unchanged": 2}
    assert await breadcrumbs(gateway, "hard-bop") == ["shop/Shop", "jazz/Jazz & Blues", "bop/Bop", "Hard Bop"]
    assert (await put(gateway.db, "categories", file, [category("jazz", "Jazz")])).counts == {"changed": 1}
    assert await breadcrumbs(gateway, "hard-bop") == ["jazz/Jazz", "bop/Bop", "Hard Bop"]
    await assert_invariants(gateway)
