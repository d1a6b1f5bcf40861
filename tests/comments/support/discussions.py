"""Discussions for tests: opens, fills and reads them through the gateway, in any storage."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from typing import Any

import pytest

from portico.resolvers.comments import buckets, page_storage
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.catalog.support.catalog import add_products, product
from tests.support.harness import GatewayClient, part_of_stops
from tests.support.paging import all_pages, joined

Given = dict[str, Any]
STORAGES = (DOCUMENTS, EMBEDDED, PAGES)
# Each run tries a test on one of the storages, and different tests on different ones.
ON_EACH = pytest.mark.parametrize(
    "storage", [pytest.param(storage, marks=pytest.mark.sample(len(STORAGES))) for storage in STORAGES]
)
_numbers = itertools.count(1)


def stops_on(storage: str, variant: int = 0) -> Iterator[int]:
    """Yields every third stop: the tests of the three storages together take each stop of a variant once."""
    return part_of_stops(STORAGES.index(storage) + variant, of=len(STORAGES))


ROWS = "nodes { id slug depth text deleted replyCount posted author { userId } parent { slug } }"
PAGE = f"""
query (
  $id: ID!, $order: CommentOrder! = THREADED, $maxDepth: Int
  $first: Int, $after: String, $last: Int, $before: String
) {{
  node(id: $id) {{
    ... on Discussion {{
      commentCount
      comments(order: $order, maxDepth: $maxDepth, first: $first, after: $after, last: $last, before: $before) {{
        {ROWS}
        pageInfo {{ hasNextPage hasPreviousPage startCursor endCursor }}
      }}
    }}
  }}
}}
"""
BELOW = f"""
query ($id: ID!, $slug: String!, $first: Int, $after: String) {{
  node(id: $id) {{
    ... on Discussion {{
      comment(slug: $slug) {{
        NAME(first: $first, after: $after) {{ {ROWS} pageInfo {{ hasNextPage hasPreviousPage endCursor }} }}
      }}
    }}
  }}
}}
"""


async def open_on_product(gateway: GatewayClient, storage: str) -> str:
    """Opens a discussion on a new product. Returns its id."""
    sku = f"discussed-{next(_numbers)}"
    await add_products(gateway.db, [product(sku=sku)])
    return await open_on(gateway, {"id": Kind.encode_id("Product", sku)}, storage)


async def open_on(gateway: GatewayClient, subject: Given, storage: str = DOCUMENTS) -> str:
    """Opens a discussion. Returns its id."""
    opened = await gateway.payload("openDiscussion", {"subjectId": subject["id"], "storage": storage})
    assert opened["discussion"]["storage"] == storage
    return str(opened["discussion"]["id"])


def post_input(discussion: str, text: str = "A comment.", parent: str | None = None, **fields: Any) -> Given:
    return {"discussionId": discussion, "parentSlug": parent, "text": text, **fields}


async def post(
    gateway: GatewayClient, discussion: str, text: str = "A comment.", parent: str | None = None, **fields: Any
) -> Any:
    """Posts a comment, and returns it."""
    token = gateway.token(fields.pop("by", "poster"), fields.pop("roles", []))
    posted = await gateway.payload("postComment", post_input(discussion, text, parent, **fields), token=token)
    return posted["comment"]


async def delete(gateway: GatewayClient, comment: Any, by: str = "poster", **fields: Any) -> Any:
    token = gateway.token(by, [])
    return await gateway.result("deleteComment", {"id": comment["id"], **fields}, token=token)


async def page(gateway: GatewayClient, discussion: str, **variables: Any) -> Any:
    """Reads a page of the discussion as an anonymous caller."""
    return (await gateway.data(PAGE, {"id": discussion, **variables}, token=None))["node"]["comments"]


async def count(gateway: GatewayClient, discussion: str) -> int:
    found = (await gateway.data(PAGE, {"id": discussion}, token=None))["node"]["commentCount"]
    assert isinstance(found, int)
    return found


async def everything(gateway: GatewayClient, discussion: str, size: int = 100, **variables: Any) -> list[Any]:
    """Reads all comments, page by page. Checks what each page says about other pages."""
    pages = await all_pages(lambda after: page(gateway, discussion, first=size, after=after, **variables))
    assert {len(one) for one in pages[:-1]} <= {size}
    return joined(pages)


async def backwards(gateway: GatewayClient, discussion: str, size: int = 100, **variables: Any) -> list[Any]:
    """Reads all comments in the order of the list, page by page from its end. Checks what each page says."""
    rows: list[Any] = []
    before = None
    while True:
        found = await page(gateway, discussion, last=size, before=before, **variables)
        assert found["pageInfo"]["hasNextPage"] is (before is not None)
        rows = [*found["nodes"], *rows]
        if not found["pageInfo"]["hasPreviousPage"]:
            return rows
        assert len(found["nodes"]) == size
        before = found["pageInfo"]["startCursor"]


async def below(gateway: GatewayClient, discussion: str, slug: str, name: str, size: int = 100) -> list[Any]:
    """Reads all `replies` or the whole `thread` of a comment."""

    async def read(after: str | None) -> Any:
        variables = {"id": discussion, "slug": slug, "first": size, "after": after}
        return (await gateway.data(BELOW.replace("NAME", name), variables))["node"]["comment"][name]

    return joined(await all_pages(read))


def threaded(rows: list[Any]) -> list[Any]:
    """Sorts the rows by thread: each row before its replies, and replies by time and then by slug."""
    replies: dict[str | None, list[Any]] = {}
    for row in rows:
        replies.setdefault(row["parent"] and row["parent"]["slug"], []).append(row)

    def from_here(slug: str | None) -> list[Any]:
        here = sorted(replies.get(slug, ()), key=by_time)
        return [found for row in here for found in (row, *from_here(row["slug"]))]

    return from_here(None)


def by_time(row: Any) -> tuple[str, str]:
    return row["posted"], row["slug"]


def use_small_pages(monkeypatch: pytest.MonkeyPatch, comments: int) -> None:
    """Lets so few comments fill a page. The next one splits it."""
    for module in (buckets, page_storage):
        monkeypatch.setattr(module, "FULL", comments)


def editor(gateway: GatewayClient) -> str:
    return gateway.token("an editor", [Role.EDITOR])


async def fill(gateway: GatewayClient, discussion: str, rng: random.Random, number: int) -> list[Any]:
    """Posts this many comments. Each one starts a thread, or replies to a random earlier one."""
    posted: list[Any] = []
    for n in range(number):
        parents = [None, *(one["slug"] for one in posted if one["depth"] < 4)]
        posted.append(await post(gateway, discussion, f"Comment {n}.", rng.choice(parents)))
    return posted
