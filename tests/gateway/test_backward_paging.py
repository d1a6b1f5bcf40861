"""`last` and `before` walk a list from its end, over the same rows in the same order as `first` and `after`."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import GraphQLInterfaceType, GraphQLObjectType

from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_categories, add_products, pricing, product
from tests.social.support.social import block, circle, join
from tests.support.aliases import aliased
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient

_PAGE = "edges { cursor node { id } } pageInfo { hasPreviousPage hasNextPage startCursor endCursor }"
_ARGUMENTS = "$first: Int, $after: String, $last: Int, $before: String"
_PASSED = "first: $first, after: $after, last: $last, before: $before"


def test_every_connection_has_the_arguments() -> None:
    without = {
        name
        for found in SCHEMA._schema.type_map.values()
        if isinstance(found, GraphQLObjectType | GraphQLInterfaceType)
        for name, field in found.fields.items()
        if "after" in field.args and not {"last", "before"} <= field.args.keys()
    }

    assert without == set()


@pytest.fixture(scope="module")
async def shop(shared: GatewayClient) -> GatewayClient:
    await add_categories(shared.db, [{"slug": "music", "name": "Music"}])
    for number, price in enumerate((3, 1, 2, 2, 5, 4, 1)):
        title, prices = f"Blue {'blue ' * (number % 3)}{number}", pricing(price * 100, price * 100)
        given = product(sku=f"p{number}", title=title, categories=["music"], pricing=prices)
        await add_products(shared.db, [given])
    for follower in await follow(shared, 7):
        await circle(shared.db, "tester", follower)
    return shared


async def follow(gateway: GatewayClient, count: int) -> list[str]:
    """Lets this many members follow the caller. Returns them."""
    members = [f"m{number}" for number in range(count)]
    await join(gateway.db, "tester", *members)
    for member in members:
        await circle(gateway.db, member, "tester")
    return members


# The text before the selection of a page, and how many levels it opens.
LISTS = {
    "newest": ("products(%s)", 0),
    "cheapest": ("products(sort: PRICE_ASC, %s)", 0),
    "dearest": ("products(sort: PRICE_DESC, %s)", 0),
    "by title": ("products(sort: TITLE_ASC, %s)", 0),
    "found": ('products(filter: { search: "blue" }, sort: RELEVANCE, %s)', 0),
    "filtered": ("products(filter: { minPrice: 200 }, %s)", 0),
    "in a category": ('category(slug: "music") { products(%s)', 1),
    "followers": ("viewer { user { followers(%s)", 2),
    "members": ("viewer { user { circles { members(%s)", 3),
}


async def read(gateway: GatewayClient, name: str, **given: Any) -> Any:
    path, depth = LISTS[name]
    text = f"query ({_ARGUMENTS}) {{ {path % _PASSED} {{ {_PAGE} }} {'}' * depth} }}"
    found = await gateway.data(text, given)
    while "edges" not in found:
        (found,) = found.values() if isinstance(found, dict) else found
    return found


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", LISTS)
@pytest.mark.parametrize("size", [1, 3, 7, 20])
async def test_a_walk_backwards_shows_the_rows_in_the_order_of_the_list(
    shop: GatewayClient, name: str, size: int
) -> None:
    whole = (await read(shop, name, first=20))["edges"]
    rows: list[Any] = []
    before = None
    while True:
        page = await read(shop, name, last=size, before=before)
        info = page["pageInfo"]
        rows = [*page["edges"], *rows]
        assert info["hasNextPage"] is (before is not None)
        assert (info["startCursor"], info["endCursor"]) == (page["edges"][0]["cursor"], page["edges"][-1]["cursor"])
        assert len(page["edges"]) == min(size, len(whole) - len(rows) + len(page["edges"]))
        if not info["hasPreviousPage"]:
            break
        before = info["startCursor"]

    assert rows == whole
    assert len(rows) > 2


async def test_the_cursors_of_both_directions_are_the_same(shop: GatewayClient) -> None:
    forwards = await read(shop, "cheapest", first=3)
    backwards = await read(shop, "cheapest", last=4)

    following = await read(shop, "cheapest", first=100, after=forwards["pageInfo"]["endCursor"])
    assert following["edges"] == backwards["edges"]
    before = backwards["pageInfo"]["startCursor"]
    # `before` alone takes the default size.
    for size in ({"last": 100}, {}):
        assert (await read(shop, "cheapest", before=before, **size))["edges"] == forwards["edges"]


@pytest.mark.parametrize("name", LISTS)
async def test_all_rows_follow_the_empty_page_before_the_first_row(shop: GatewayClient, name: str) -> None:
    first = (await read(shop, name, first=1))["pageInfo"]["startCursor"]

    empty = await read(shop, name, last=5, before=first)

    # The page after it is the first page, which needs no cursor.
    assert empty == {
        "edges": [],
        "pageInfo": {"hasPreviousPage": False, "hasNextPage": True, "startCursor": None, "endCursor": None},
    }


async def test_all_rows_follow_the_empty_page_before_a_deleted_row(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [product(sku=sku, title=sku) for sku in ("a", "b")])
    deleted = (await read(gateway, "by title", first=1))["pageInfo"]["startCursor"]
    await gateway.db["products"].delete_one({"sku": "a"})

    page = await read(gateway, "by title", last=5, before=deleted)

    assert (page["edges"], page["pageInfo"]["hasNextPage"]) == ([], True)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"last": 0}, "`last` must be between 1 and 100; got 0."),
        ({"last": 101}, "`last` must be between 1 and 100; got 101."),
        ({"last": 2, "before": "x"}, "`before` is not a cursor of this list with this filter and sort."),
        ({"last": 2, "after": "x"}, "Use `after` with `first`, or `before` with `last`."),
        ({"last": 2, "first": 2}, "Use `first` without `last` and `before`."),
        # The default.
        ({"last": 2, "first": 20}, "Use `first` without `last` and `before`."),
    ],
)
async def test_other_arguments_are_refused(shop: GatewayClient, given: dict[str, Any], message: str) -> None:
    answer = await shop.ask(f"query ({_ARGUMENTS}) {{ products({_PASSED}) {{ {_PAGE} }} }}", given)

    assert [error["message"] for error in answer.body["errors"]] == [message]


async def test_hidden_rows_are_left_out_backwards(gateway: GatewayClient) -> None:
    members = await follow(gateway, 6)
    for number in (0, 2, 4, 5):
        await block(gateway.db, members[number], "tester")

    last = await read(gateway, "followers", last=1)
    rest = await read(gateway, "followers", last=1, before=last["pageInfo"]["startCursor"])

    shown = [page["edges"][0]["node"]["id"] for page in (last, rest)]
    assert shown == [Kind.encode_id("User", members[number]) for number in (3, 1)]
    assert [page["pageInfo"]["hasPreviousPage"] for page in (last, rest)] == [True, False]
    assert rest["pageInfo"]["hasNextPage"] is True


async def test_a_page_costs_as_many_rows_as_it_can_have(gateway: GatewayClient) -> None:
    for page, codes in (("last: 10", []), ("last: 100, first: 1", ["OPERATION_TOO_COMPLEX"])):
        answer = await gateway.ask(f"{{ products({page}) {{ nodes {{ {aliased('title', 600)} }} }} }}")
        assert answer.codes == codes


async def test_first_is_refused_with_before(shop: GatewayClient) -> None:
    before = (await read(shop, "newest"))["edges"][5]["cursor"]

    answer = await shop.ask(
        f"query ({_ARGUMENTS}) {{ products({_PASSED}) {{ {_PAGE} }} }}", {"first": 2, "before": before}
    )

    (error,) = answer.body["errors"]
    assert error["message"] == "Use `first` without `last` and `before`."
    assert error["extensions"] == {"code": "BAD_USER_INPUT", "argument": ["first"]}


async def test_first_is_left_out_or_null_beside_last(shop: GatewayClient) -> None:
    whole = (await read(shop, "newest"))["edges"]

    for given in ({}, {"first": None}, {"last": 20}):
        page = await read(shop, "newest", before=whole[5]["cursor"], **given)
        assert page["edges"] == whole[:5]


@pytest.mark.parametrize("passed", ["(first: 20, last: 2)", "(first: $first, last: 2)"])
async def test_first_with_its_default_is_refused_beside_last(shop: GatewayClient, passed: str) -> None:
    variables = "($first: Int = 20)" if "$" in passed else ""
    text = f"query Q{variables} {{ products{passed} {{ {_PAGE} }} }}"

    # The first call compiles the operation.
    answers = [await shop.ask(text) for _ in range(2)]

    assert [answer.body["errors"][0]["extensions"]["argument"] for answer in answers] == [["first"]] * 2
