"""The cost of reads of a discussion with 10,000 comments: the last page costs as much as the first, and each level of a
query takes a fixed number of commands.
"""

from __future__ import annotations

from typing import Any

import pytest

from bench.threads import comments_of, put_discussion
from bench.worst import examine
from bench.worst_operation import Operation
from portico.resolvers.comments.checks import find_wrong_discussions
from portico.resolvers.comments.comments import (
    CHRONOLOGICAL,
    NEWEST,
    THREADED,
    CommentListing,
    listing_of,
    new_comment,
    with_slug,
)
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES, discussion_id
from portico.resolvers.documents import Document
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_products, product
from tests.comments.support.discussions import ON_EACH, STORAGES
from tests.support.explaining import explain
from tests.support.harness import GatewayClient

MANY = 10_000
# One thread has comments on many levels, and contains a third of all comments.
DEEP = MANY // 3
PAGE = """
query (
  $id: ID!, $order: CommentOrder!, $maxDepth: Int, $first: Int, $after: String, $last: Int, $before: String
) {
  node(id: $id) {
    ... on Discussion {
      comments(order: $order, maxDepth: $maxDepth, first: $first, after: $after, last: $last, before: $before) {
        nodes { id slug text author { name } posted }
        pageInfo { hasNextPage endCursor PREVIOUS }
      }
    }
  }
}
"""
# The most documents that a page of 20 may examine: each comment and the next two, of which the first says whether there
# is a next page; the one document; or the pages that hold the comments. In PAGES, other orders than that of threads
# also take the key of each comment.
AT_MOST = {
    (DOCUMENTS, True): 23,
    (DOCUMENTS, False): 23,
    (EMBEDDED, True): 1,
    (EMBEDDED, False): 1,
    (PAGES, True): 2,
    (PAGES, False): 42,
}


@pytest.fixture(scope="module")
async def large(shared: GatewayClient) -> Large:
    """A gateway and a discussion in each storage, with the same comments."""
    await add_products(shared.db, [product(sku=storage) for storage in STORAGES])
    found = {}
    for storage in STORAGES:
        made = _comments(discussion_id("Product", storage))
        found[storage] = await put_discussion(shared.db, kind="Product", key=storage, storage=storage, made=made)
    return shared, found


def _comments(discussion: Any) -> list[Document]:
    made = comments_of(discussion, MANY - DEEP, words=10)
    root = made[MANY // 5]
    above, deep = root, []
    for number in range(DEEP):
        fresh = new_comment(
            type(root["_id"])(f"{number:024x}"),
            discussion=discussion,
            parent=above,
            author=root["author"],
            text="Deeper.",
            now=root["posted"],
        )
        comment = {**with_slug(fresh, above, 0), "attempt": "0" * 32}
        deep.append(comment)
        above["replies"] += 1
        above = root if comment["depth"] == 9 else comment
    return made + deep


Large = tuple[GatewayClient, dict[str, tuple[Document, list[Document]]]]


def listed(comments: list[Document], listing: CommentListing) -> list[Document]:
    shown = [one for one in comments if listing.max_depth is None or one["depth"] <= listing.max_depth]
    shown.sort(key=lambda one: (one["key"],) if listing.is_threaded else (one["posted"], one["slug"]))
    return shown[::-1] if listing.is_backwards else shown


async def measured(gateway: GatewayClient, text: str, variables: dict[str, Any]) -> tuple[Any, int]:
    """Return the data, and how many documents the commands examined. Assert that none scans a collection."""
    gateway.commands.clear()
    found = await gateway.data(text, variables)
    plans = [plan for command in list(gateway.commands.sent) for plan in await explain(gateway.db, command)]
    assert [plan.name for plan in plans if plan.scans_collection] == []
    return found, sum(plan.documents_examined for plan in plans)


@ON_EACH
async def test_the_generated_discussion_passes_the_checks(large: Large, storage: str) -> None:
    gateway, made = large

    wrong = [one async for one in find_wrong_discussions(gateway.db)]

    assert wrong == []
    assert len(made[storage][1]) == MANY


@ON_EACH
@pytest.mark.sample(4)
@pytest.mark.parametrize("order", [THREADED, CHRONOLOGICAL])
@pytest.mark.parametrize("depth", [None, 0, 2])
async def test_the_last_page_costs_as_much_as_the_first(
    large: Large, storage: str, order: str, depth: int | None
) -> None:
    gateway, made = large
    discussion, comments = made[storage]
    listing = listing_of(storage, discussion["_id"], order=order, max_depth=depth)
    rows = listed(comments, listing)
    bound = AT_MOST[storage, order == THREADED and depth is None]
    given = {"id": Kind.encode_id("Discussion", discussion["_id"]), "order": order, "maxDepth": depth, "first": 20}

    for start in (0, len(rows) // 5, len(rows) // 2, len(rows) - 20):
        after = gateway.cursor(listing, listing.sort.key_of(rows[start - 1])) if start else None
        found, cost = await measured(gateway, PAGE.replace("PREVIOUS", ""), {**given, "after": after})

        page = found["node"]["comments"]
        assert [row["slug"] for row in page["nodes"]] == [row["slug"] for row in rows[start : start + 20]]
        assert page["pageInfo"]["hasNextPage"] is (start + 20 < len(rows))
        # Two more documents are the discussion and its product.
        assert cost <= bound + 2, (start, gateway.commands.names())
        found, cost = await measured(gateway, PAGE.replace("PREVIOUS", "hasPreviousPage"), {**given, "after": after})
        assert found["node"]["comments"]["pageInfo"]["hasPreviousPage"] is (start > 0)
        assert cost <= bound + 4


@ON_EACH
@pytest.mark.sample(4)
@pytest.mark.parametrize("order", [THREADED, CHRONOLOGICAL, NEWEST])
@pytest.mark.parametrize("depth", [None, 2])
async def test_a_page_from_the_end_costs_as_much(large: Large, storage: str, order: str, depth: int | None) -> None:
    gateway, made = large
    discussion, comments = made[storage]
    listing = listing_of(storage, discussion["_id"], order=order, max_depth=depth)
    rows = listed(comments, listing)
    bound = AT_MOST[storage, order == THREADED and depth is None]
    if storage == DOCUMENTS and order == THREADED and depth is not None:
        # Two indexes can serve it. MongoDB tries both, and takes the one that fills the page first.
        bound *= 2
    given = {"id": Kind.encode_id("Discussion", discussion["_id"]), "order": order, "maxDepth": depth, "last": 20}

    for end in (len(rows), len(rows) // 2, len(rows) // 5, 20):
        before = gateway.cursor(listing, listing.sort.key_of(rows[end])) if end < len(rows) else None
        found, cost = await measured(gateway, PAGE.replace("PREVIOUS", "hasPreviousPage"), {**given, "before": before})

        page = found["node"]["comments"]
        assert [row["slug"] for row in page["nodes"]] == [row["slug"] for row in rows[end - 20 : end]]
        assert page["pageInfo"]["hasPreviousPage"] is (end > 20)
        assert cost <= bound + 2, (end, gateway.commands.names())


@ON_EACH
async def test_links_replies_and_threads_examine_only_what_they_show(large: Large, storage: str) -> None:
    gateway, made = large
    discussion, comments = made[storage]
    root = max(comments, key=lambda one: int(one["replies"]))
    threads = sorted(comments, key=lambda one: str(one["key"]))
    names = {
        "replies": [one["slug"] for one in threads if one["parent"] == root["_id"]],
        "thread": [one["slug"] for one in threads if _is_below(one, root)],
    }
    query = """
    query ($id: ID!, $slug: String!) {
      node(id: $id) { ... on Discussion { comment(slug: $slug) { id slug text LIST } } }
    }
    """
    variables = {"id": Kind.encode_id("Discussion", discussion["_id"]), "slug": root["slug"]}
    link = {DOCUMENTS: 1, EMBEDDED: 1, PAGES: 2}[storage]

    for slug in (root["slug"], threads[-1]["slug"]):
        found, cost = await measured(gateway, query.replace("LIST", ""), {**variables, "slug": slug})
        assert found["node"]["comment"]["slug"] == slug
        assert cost <= link + 2
        _, cost = await measured(gateway, "query ($id: ID!) { node(id: $id) { id } }", found["node"]["comment"])
        assert cost <= 3
    for name, slugs in names.items():
        found, cost = await measured(gateway, query.replace("LIST", f"{name} {{ nodes {{ slug }} }}"), variables)
        assert [row["slug"] for row in found["node"]["comment"][name]["nodes"]] == slugs[:20]
        assert cost <= AT_MOST[storage, name == "thread"] + link + 2


def _is_below(comment: Document, root: Document) -> bool:
    return str(comment["key"]).startswith(f"{root['key']}/")


_COMMENTS = "comments { nodes { text author { name } parent { author { name } } } }"
# The commands of each operation on a product's discussion, without the reads of the product and the discussion.
BUDGETS: dict[str, tuple[str, dict[str, list[str]]]] = {
    "a count": ("commentCount", {DOCUMENTS: [], EMBEDDED: ["find comment_discussions"], PAGES: []}),
    "a page with the parents": (
        _COMMENTS,
        {
            DOCUMENTS: ["find comments", "find comments"],
            EMBEDDED: ["aggregate comment_discussions", "aggregate comment_discussions"],
            PAGES: ["aggregate comment_pages", "aggregate comment_pages"],
        },
    ),
    "a page by time": (
        "comments(order: CHRONOLOGICAL) { nodes { slug } }",
        {
            DOCUMENTS: ["find comments"],
            EMBEDDED: ["aggregate comment_discussions"],
            PAGES: ["aggregate comment_pages", "find comment_keys"],
        },
    ),
    "a page with counts of replies": (
        "comments { nodes { slug replyCount } }",
        {
            DOCUMENTS: ["find comments"],
            EMBEDDED: ["aggregate comment_discussions", "find comment_discussions"],
            PAGES: ["aggregate comment_pages"],
        },
    ),
    "20 comments with two replies each, and two below each of these": (
        "comments(maxDepth: 0) { nodes { replies(first: 2) { nodes { replies(first: 2) { nodes { slug } } } } } }",
        {
            DOCUMENTS: ["aggregate comments", "aggregate comments", "find comments"],
            EMBEDDED: ["aggregate comment_discussions"] * 3,
            PAGES: [
                "aggregate comment_keys",
                "aggregate comment_keys",
                *["aggregate comment_pages"] * 3,
                "find comment_keys",
            ],
        },
    ),
    "20 comments with their threads": (
        "comments(maxDepth: 0) { nodes { slug thread(first: 3) { nodes { slug } } } }",
        {
            DOCUMENTS: ["aggregate comments", "find comments"],
            EMBEDDED: ["aggregate comment_discussions"] * 2,
            PAGES: ["aggregate comment_pages", "aggregate comment_pages", "find comment_keys"],
        },
    ),
}


@ON_EACH
@pytest.mark.sample(4)
@pytest.mark.parametrize("name", BUDGETS)
async def test_every_level_takes_a_fixed_number_of_commands(large: Large, storage: str, name: str) -> None:
    gateway, _ = large
    selection, sent = BUDGETS[name]
    query = f"query ($sku: String!) {{ product(sku: $sku) {{ discussion {{ {selection} }} }} }}"
    gateway.commands.clear()

    await gateway.data(query, {"sku": storage})

    assert sorted(gateway.commands.names()) == sorted(["find products", "find discussions", *sent[storage]])


async def test_discussions_of_several_products_are_read_together(large: Large) -> None:
    gateway, _ = large
    gateway.commands.clear()

    found = await gateway.data(
        "{ products { nodes { sku discussion { storage commentCount comments(first: 1) { nodes { text } } } } } }"
    )

    assert {row["sku"]: row["discussion"]["commentCount"] for row in found["products"]["nodes"]} == dict.fromkeys(
        STORAGES, MANY
    )
    assert sorted(gateway.commands.names()) == [
        "aggregate comment_discussions",
        "aggregate comment_pages",
        "find comment_discussions",
        "find comments",
        "find discussions",
        "find products",
    ]


async def test_a_plan_for_a_small_discussion_is_not_taken_for_a_large_one(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [product(sku="small"), product(sku="large")])
    ids = {}
    for key, made in (("small", 600), ("large", 5_000)):
        discussion, _ = await put_discussion(gateway.db, kind="Product", key=key, storage=PAGES, made=made)
        ids[key] = Kind.encode_id("Discussion", discussion["_id"])
    part = "node(id: $id) { ... on Discussion { comments(order: CHRONOLOGICAL, first: $first) { nodes { id text } } } }"
    declared = "$id: ID!, $first: Int!"
    whole = Operation(part, {"id": ids["small"], "first": 100}, declared)
    few = Operation(part, {"id": ids["large"], "first": 5}, declared)

    # All pages of a small discussion hold some of a hundred comments, so that MongoDB prefers to read them one by one.
    for _ in range(3):
        await examine(gateway, whole, 1)
    cost = await examine(gateway, few, 1)

    # The discussion, the product, and for each comment its key and its page.
    assert cost.documents <= 15
