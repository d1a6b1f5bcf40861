"""Every way to read a post, by the public schema."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from typing import Any

from portico.resolvers.documents import Document
from portico.schema.kinds import Kind
from tests.social.support.social import user_id
from tests.support.harness import GatewayClient
from tests.support.paging import pages

POST = "id by { userId } commentCount circles latestComments { text by { userId } }"


def post_id(post: Document) -> str:
    return Kind.encode_id("Post", post["_id"])


def as_member(gateway: GatewayClient, viewer: str | None) -> dict[str, Any]:
    """Returns the options of a request of this member; None is an anonymous caller."""
    return {"token": None if viewer is None else gateway.token(viewer, [])}


async def page_of(
    gateway: GatewayClient, viewer: str | None, name: str, selection: str = POST, **variables: Any
) -> dict[str, Any]:
    """Returns the connection of a list: `newsFeed`, `incoming`, or `wall of NAME`."""
    wall = name.removeprefix("wall of ")
    root, given = ("viewer", "") if wall == name else ("user(id: $id)", "$id: ID!, ")
    field = name if wall == name else "wall"
    end = "startCursor" if variables.keys() & {"last", "before"} else "endCursor"
    query = f"""
    query ({given}$first: Int, $after: String, $last: Int, $before: String, $month: String) {{
      root: {root} {{ list: {field}(first: $first, after: $after, last: $last, before: $before, month: $month) {{
        edges {{ cursor month node {{ {selection} }} }} pageInfo {{ hasNextPage hasPreviousPage {end} }}
      }} }}
    }}
    """
    data = await gateway.data(
        query, {**({} if wall == name else {"id": user_id(wall)}), **variables}, **as_member(gateway, viewer)
    )
    none = {"edges": [], "pageInfo": {"hasNextPage": False, "hasPreviousPage": False, end: None}}
    return dict(none if data["root"] is None else data["root"]["list"])


async def posts_in(gateway: GatewayClient, viewer: str | None, name: str, **variables: Any) -> list[str]:
    page = await page_of(gateway, viewer, name, "id", **variables)
    return [edge["node"]["id"] for edge in page["edges"]]


async def all_posts_in(
    gateway: GatewayClient, viewer: str | None, name: str, size: int = 3, *, backwards: bool = False
) -> list[str]:
    """Returns the ids of all posts in a list, in its order, read by pages from its beginning or its end.

    A page in the middle may have no posts.
    """

    async def read(cursor: str | None) -> Any:
        given = {"last": size, "before": cursor} if backwards else {"first": size, "after": cursor}
        return await page_of(gateway, viewer, name, "id", **given)

    by_page = [[edge["node"]["id"] for edge in page["edges"]] async for page in pages(read, backwards=backwards)]
    return list(chain(*(reversed(by_page) if backwards else by_page)))


async def visible_by_id(gateway: GatewayClient, viewer: str | None, posts: Sequence[Document]) -> list[Any]:
    """Returns those of the posts that the viewer sees by `nodes`."""
    query = f"query ($ids: [ID!]!) {{ nodes(ids: $ids) {{ ... on Post {{ {POST} }} }} }}"
    data = await gateway.data(query, {"ids": [post_id(post) for post in posts]}, **as_member(gateway, viewer))
    return [node for node in data["nodes"] if node is not None]


async def comments_of(gateway: GatewayClient, viewer: str | None, post: Document, **variables: Any) -> dict[str, Any]:
    query = """
    query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) {
      node(id: $id) { ... on Post {
        commentCount
        comments(first: $first, after: $after, last: $last, before: $before) {
          nodes { id text by { userId } } pageInfo { hasNextPage hasPreviousPage endCursor }
        }
      } }
    }
    """
    data = await gateway.data(query, {"id": post_id(post), **variables}, **as_member(gateway, viewer))
    return dict(data["node"])
