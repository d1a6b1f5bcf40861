"""Lists in pages: each row comes once and in order while rows come and go, and every page costs the same."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import MinKey, Regex
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from portico.gateway.domains.catalog.records import product_record
from portico.resolvers.catalog.product_edits import new_document
from portico.resolvers.catalog.product_search import ProductQuery, listing_of
from portico.resolvers.documents import Document
from tests.catalog.support.catalog import add_categories, add_products, album, document, pricing
from tests.catalog.support.orders import SORTS, order
from tests.support.explaining import explain
from tests.support.harness import GatewayClient
from tests.support.paging import pages_of, rows_of

PAGE = """
query ($filter: ProductFilter, $sort: ProductSort, $first: Int, $after: String) {
  products(filter: $filter, sort: $sort, first: $first, after: $after) {
    edges { cursor node { sku } }
    nodes { sku }
    pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  }
}
"""
BRANCH = """
query ($slug: String!, $deep: Boolean!, $after: String) {
  category(slug: $slug) {
    products(includeDescendants: $deep, first: 1, after: $after) { nodes { sku } pageInfo { endCursor } }
    children(first: 1, after: $after) { nodes { slug } pageInfo { endCursor } }
  }
}
"""
LIGHT = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])

# Few values, so that most rows have the same sort value.
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "issueDate": st.sampled_from([None, "2000-01-01T00:00:00Z", "2001-01-01T00:00:00Z"]),
            "pricing": st.sampled_from([pricing(10, 10), pricing(10, 5), pricing(20, 10), pricing(0, 0)]),
            "title": st.sampled_from(["One", "Two", "one"]),
        }
    ),
    max_size=14,
)


def as_documents(rows: list[dict[str, Any]], name: str) -> list[Document]:
    return [
        dict(new_document(product_record({"sku": f"{name}-{number}", "type": "Row", **row}).fields, f"{name}-{number}"))
        for number, row in enumerate(rows)
    ]


async def put(gateway: GatewayClient, rows: list[dict[str, Any]]) -> list[Document]:
    """Make these rows the whole catalog."""
    documents = as_documents(rows, "row")
    await gateway.db["products"].delete_many({})
    if documents:
        await gateway.db["products"].insert_many(documents)
    return documents


async def page(gateway: GatewayClient, **variables: Any) -> dict[str, Any]:
    return checked((await gateway.data(PAGE, variables))["products"])


def checked(found: dict[str, Any]) -> dict[str, Any]:
    """Asserts that the parts of a page agree. Returns it with its SKUs."""
    edges, info = found["edges"], found["pageInfo"]
    found["skus"] = [node["sku"] for node in found["nodes"]]
    assert [edge["node"]["sku"] for edge in edges] == found["skus"]
    assert info["startCursor"] == (edges[0]["cursor"] if edges else None)
    assert info["endCursor"] == (edges[-1]["cursor"] if edges else None)
    return found


async def pages(gateway: GatewayClient, **variables: Any) -> AsyncIterator[dict[str, Any]]:
    """Yield every page, from the first to the last."""
    async for found in pages_of(gateway, PAGE, "products", **variables):
        yield checked(found)


async def refused(gateway: GatewayClient, **variables: Any) -> tuple[str, list[str]]:
    """The code of the only error, and the argument that it names."""
    answer = await gateway.ask(PAGE, variables)
    (error,) = answer.body["errors"]
    return error["extensions"]["code"], error["extensions"].get("argument", [])


def in_order(documents: list[Document], sort: str) -> list[str]:
    descends = sort not in {"PRICE_ASC", "TITLE_ASC"}
    return [one["sku"] for one in sorted(documents, key=lambda one: order(sort, one), reverse=descends)]


@LIGHT
@given(rows=ROWS, sort=SORTS, size=st.integers(1, 6))
async def test_pages_of_any_size_hold_every_row_once_and_in_order(
    gateway: GatewayClient, rows: list[dict[str, Any]], sort: str, size: int
) -> None:
    documents = await put(gateway, rows)

    found = [one async for one in pages(gateway, sort=sort, first=size)]

    assert [sku for one in found for sku in one["skus"]] == in_order(documents, sort)
    assert [len(one["skus"]) for one in found[:-1]] == [size] * (len(found) - 1)
    assert [one["pageInfo"]["hasPreviousPage"] for one in found] == [False, *[True] * (len(found) - 1)]


@LIGHT
@given(
    rows=ROWS,
    new=ROWS,
    sort=SORTS,
    size=st.integers(1, 4),
    changes=st.lists(st.tuples(st.booleans(), st.integers(0, 13)), max_size=20),
)
async def test_rows_that_come_and_go_do_not_repeat_or_hide_others(
    gateway: GatewayClient,
    rows: list[dict[str, Any]],
    new: list[dict[str, Any]],
    sort: str,
    size: int,
    changes: list[tuple[bool, int]],
) -> None:
    documents = await put(gateway, rows)
    products, gone = gateway.db["products"], set[str]()
    coming = as_documents(new, "new")
    seen: list[str] = []
    async for one in pages(gateway, sort=sort, first=size):
        seen += one["skus"]
        for is_new, number in changes[:2]:
            if is_new and coming:
                await products.insert_one(coming.pop())
            elif number < len(documents):
                gone.add(documents[number]["sku"])
                await products.delete_one({"sku": documents[number]["sku"]})
        del changes[:2]

    assert len(seen) == len(set(seen))
    stayed = [sku for sku in in_order(documents, sort) if sku not in gone]
    assert [sku for sku in seen if sku in set(stayed)] == stayed


async def test_matches_of_a_search_are_paged_by_relevance(gateway: GatewayClient) -> None:
    await add_products(
        gateway.db, [album(sku=f"{number:02}", title="blue " * (number % 3 + 1), artist="x") for number in range(20)]
    )
    whole = await page(gateway, filter={"search": "blue"}, sort="RELEVANCE", first=100)

    found = [one async for one in pages(gateway, filter={"search": "blue"}, sort="RELEVANCE", first=3)]

    assert len(set(whole["skus"])) == 20
    assert [sku for one in found for sku in one["skus"]] == whole["skus"]
    assert [one["pageInfo"]["hasPreviousPage"] for one in found] == [False, *[True] * 6]


async def test_a_list_continues_from_any_row_even_from_a_deleted_one(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album(sku=f"{number}", pricing=pricing(9, number // 2)) for number in range(8)])
    whole = await page(gateway, sort="PRICE_ASC")
    expected = whole["skus"]

    for number, edge in enumerate(whole["edges"]):
        rest = await page(gateway, sort="PRICE_ASC", after=edge["cursor"])
        assert rest["skus"] == expected[number + 1 :]

    await gateway.db["products"].delete_one({"sku": expected[3]})
    rest = await page(gateway, sort="PRICE_ASC", after=whole["edges"][3]["cursor"])
    assert rest["skus"] == expected[4:]


async def test_a_page_knows_whether_it_has_previous_rows(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album(sku=sku) for sku in "abc"])
    first = await page(gateway, first=1)
    second = await page(gateway, first=1, after=first["pageInfo"]["endCursor"])
    assert (first["pageInfo"]["hasPreviousPage"], second["pageInfo"]["hasPreviousPage"]) == (False, True)

    await gateway.db["products"].delete_one({"sku": first["skus"][0]})
    again = await page(gateway, first=1, after=first["pageInfo"]["endCursor"])

    assert again["skus"] == second["skus"]
    assert not again["pageInfo"]["hasPreviousPage"]


async def test_a_cursor_belongs_to_its_sort_and_its_filter(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album(sku=sku, genres=["Jazz"]) for sku in "abc"])
    made = {"filter": {"genres": ["Jazz"], "minPrice": 1}, "sort": "PRICE_ASC", "first": 1}
    cursor = (await page(gateway, **made))["pageInfo"]["endCursor"]
    others: list[dict[str, Any]] = [
        {"sort": "PRICE_DESC"},
        {"sort": "NEWEST"},
        {"sort": None},
        {"filter": None},
        {"filter": {"genres": ["Jazz"]}},
        {"filter": {"genres": ["Jazz"], "minPrice": 2}},
        {"filter": {"genres": ["Jazz"], "maxPrice": 1}},
        {"filter": {"genres": ["Jazz", "Pop"], "minPrice": 1}},
    ]

    for other in others:
        assert await refused(gateway, **made | other, after=cursor) == ("BAD_USER_INPUT", ["after"])
    assert len((await page(gateway, **made | {"first": 2}, after=cursor))["skus"]) == 2
    same = made | {"filter": {"minPrice": 1, "genres": ["JAZZ"]}}
    assert len((await page(gateway, **same, after=cursor))["skus"]) == 1


async def test_a_cursor_belongs_to_its_list(gateway: GatewayClient) -> None:
    parents = {"a": None, "b": None, "a1": "a", "a2": "a", "b1": "b"}
    await add_categories(gateway.db, [{"slug": one, "name": one, "parent": parent} for one, parent in parents.items()])
    await add_products(gateway.db, [album(sku=sku, categories=["a"]) for sku in "xyz"])
    branch = (await gateway.data(BRANCH, {"slug": "a", "deep": True}))["category"]
    products, children = (branch[name]["pageInfo"]["endCursor"] for name in ("products", "children"))

    others = [
        ("a", "products(after: $after)", children),
        ("a", "products(after: $after, includeDescendants: false)", products),
        ("b", "products(after: $after)", products),
        ("a", "children(after: $after)", products),
        ("a", "descendants(after: $after)", children),
        ("b", "children(after: $after)", children),
    ]
    for slug, field, cursor in others:
        text = f'query ($after: String) {{ category(slug: "{slug}") {{ {field} {{ nodes {{ id }} }} }} }}'
        answer = await gateway.ask(text, {"after": cursor})
        assert answer.codes == ["BAD_USER_INPUT"], field
    assert await refused(gateway, after=products) == ("BAD_USER_INPUT", ["after"])


async def test_a_new_subcategory_does_not_invalidate_cursors(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, [{"slug": "music", "name": "Music"}])
    await add_products(gateway.db, [album(categories=["music"]) for _ in range(2)])
    first = (await gateway.data(BRANCH, {"slug": "music", "deep": True}))["category"]["products"]

    await add_categories(gateway.db, [{"slug": "jazz", "name": "Jazz", "parent": "music"}])
    query = BRANCH.replace("children(first: 1, after: $after)", "children")
    second = await gateway.data(query, {"slug": "music", "deep": True, "after": first["pageInfo"]["endCursor"]})

    assert len(second["category"]["products"]["nodes"]) == 1


async def test_a_page_can_begin_after_a_date_that_is_an_object(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album() for _ in range(3)])
    await gateway.db["products"].update_many({}, {"$set": {"issue_date": {"$ne": 1}}})
    first = (await page(gateway, first=1))["pageInfo"]["endCursor"]
    rest = await page(gateway, first=5, after=first)

    assert len(rest["nodes"]) == 2


@pytest.mark.both_drivers
async def test_an_altered_cursor_is_refused(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album() for _ in range(2)])
    cursor = (await page(gateway, first=1))["pageInfo"]["endCursor"]
    altered = [
        cursor[:place] + ("A" if cursor[place] != "A" else "B") + cursor[place + 1 :] for place in range(len(cursor))
    ]
    shortened = [cursor[:length] for length in range(0, len(cursor), 5)]
    lengthened = [f"{cursor}A", f"{cursor}=", f" {cursor}", f"{cursor}\n", f"{cursor[:9]}!{cursor[9:]}", cursor * 2]
    garbage = ["A", "AAAA", "====", "é", "\0", "x" * 5000, "null"]

    for text in (*altered, *shortened, *lengthened, *garbage):
        assert await refused(gateway, after=text) == ("BAD_USER_INPUT", ["after"]), text


@pytest.mark.parametrize("key", [(Regex("a"), 1), (MinKey(), 1), ([1], 1), (1,), (1, 2, 3), ()])
async def test_a_cursor_of_values_that_no_row_has_is_refused(gateway: GatewayClient, key: tuple[Any, ...]) -> None:
    """Another version of the gateway could have made such a cursor."""
    forged = gateway.cursor(listing_of(ProductQuery(), "NEWEST"), key)

    assert await refused(gateway, after=forged) == ("BAD_USER_INPUT", ["after"])


@pytest.mark.both_drivers
@pytest.mark.parametrize(
    ("first", "argument"),
    [(0, ["first"]), (-1, ["first"]), (101, ["first"]), (2**31 - 1, ["first"]), (2**31, []), ("3", []), (1.5, [])],
)
async def test_a_page_has_1_to_100_rows(gateway: GatewayClient, first: Any, argument: list[str]) -> None:
    assert await refused(gateway, first=first) == ("BAD_USER_INPUT", argument)
    assert (await gateway.ask(f"{{ categories(first: {first!r}) {{ nodes {{ id }} }} }}".replace("'", '"'))).codes


async def test_without_a_size_a_page_has_20_products_or_50_categories(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [album() for _ in range(21)])
    await add_categories(gateway.db, [{"slug": f"c{number}", "name": "C"} for number in range(51)])

    data = await gateway.data("{ products { nodes { sku } } categories { nodes { slug } } }")
    nulls = await gateway.data("{ products(first: null) { nodes { sku } } categories(first: null) { nodes { slug } } }")

    assert (len(data["products"]["nodes"]), len(data["categories"]["nodes"])) == (20, 50)
    assert (len(nulls["products"]["nodes"]), len(nulls["categories"]["nodes"])) == (20, 50)


async def test_categories_with_the_same_name_come_once_each(gateway: GatewayClient) -> None:
    below = [{"slug": f"c{number}", "name": "ab"[number % 2], "parent": "top"} for number in range(9)]
    await add_categories(gateway.db, [{"slug": "top", "name": "Top"}, *below])
    text = """
    query ($after: String) {
      category(slug: "top") { LIST(first: 2, after: $after) { nodes { slug name } pageInfo { hasNextPage endCursor } } }
    }
    """
    for name in ("children", "descendants"):
        found = await rows_of(gateway, text.replace("LIST", name), "category", name)

        assert [one["name"] for one in found] == ["a"] * 5 + ["b"] * 4
        assert len({one["slug"] for one in found}) == 9


@pytest.mark.sample(3)
@pytest.mark.both_drivers
@pytest.mark.parametrize("sort", ["NEWEST", "DISCOUNT_DESC", "PRICE_ASC", "PRICE_DESC", "TITLE_ASC"])
async def test_the_last_page_costs_as_much_as_the_first(gateway: GatewayClient, sort: str) -> None:
    """This holds even if hundreds of rows have the same sort value."""
    dates = [None, *(f"20{year}-01-01T00:00:00Z" for year in range(10, 14))]
    documents = [
        document(title=f"Title {number % 7}", issueDate=dates[number % 5], pricing=pricing(100, number % 6))
        for number in range(2000)
    ]
    await gateway.db["products"].insert_many(documents)
    expected = in_order(documents, sort)
    costs: list[int] = []
    for start in (0, 400, 1000, 1600, 1990):
        after = None
        if start:
            by_sku = {one["sku"]: one for one in documents}
            listing = listing_of(ProductQuery(), sort)
            after = gateway.cursor(listing, listing.sort.key_of(by_sku[expected[start - 1]]))
        gateway.commands.clear()
        found = await page(gateway, sort=sort, first=10, after=after)
        assert found["skus"] == expected[start : start + 10]
        plans = [plan for command in list(gateway.commands.sent) for plan in await explain(gateway.db, command)]
        costs.append(sum(plan.keys_examined for plan in plans))

    assert max(costs) <= 40, costs
