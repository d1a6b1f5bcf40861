"""Resolves the placeholders in the documentation for ids and nonces, which differ between databases.

<id of jazz>               the id of the category with this slug
<nonce of LP-0001>         the current nonce of the product with this SKU
<id at /blog>              the id of the node at this path
<nonce at /about>          the current nonce of the node at this path
<first revision at /about> the id of the node's oldest revision
<first nonce at /about>    the nonce of the node's oldest revision
<my cart>                  the id of the viewer's cart
<my order>                 the id of the viewer's latest order
<account Savings>          the id of the viewer's account with this name
<latest post of demo>      the id of the latest post on the wall of the member with this subject
<latest trade>             the id of the latest trade of the viewer
<user mara>                the id of the member with this subject
<endCursor>                the `endCursor` of the previous page
"""

from __future__ import annotations

import json
import re
from typing import Any

from portico.schema.kinds import Kind
from portico.testing.gateways import Gateway

_STANDS_FOR = re.compile(r"<(id|nonce) of ([^<>]+)>")
_AT = re.compile(r"<(id|nonce|first revision|first nonce) at (/[^<>]+)>")
_NODE_AT = """
query ($path: String!) {
  content(path: $path) {
    id nonce
    ... on Page { revisions(first: 100) { nodes { id nonce } } }
    ... on BlogEntry { revisions(first: 100) { nodes { id nonce } } }
  }
}
"""
_CURSOR = "<endCursor>"
_MEMBER = re.compile(r"<(user|latest post of) ([^<>]+)>")
_OWN = re.compile(r"<(my cart|my order|latest trade|account ([^<>]+))>")
_WALL = "query ($id: ID!) { user(id: $id) { wall(first: 1) { nodes { id } } } }"
_TRADES = "{ viewer { trades(first: 1) { nodes { id } } } }"
_ORDERS = "{ viewer { orders(first: 1) { nodes { id } } } }"
_VIEWER = "{ viewer { cart { id } accounts { id name } } }"


async def resolve_placeholders(shop: Gateway, query: str, given: Any, operation: str | None = None) -> Any:
    """Returns the variables with resolved placeholders."""
    if isinstance(given, dict):
        cursors = [name for name, value in given.items() if value == _CURSOR]
        if cursors:
            first = await shop.data(query, {**given, **dict.fromkeys(cursors)}, operation=operation)
            given = {**given, **dict.fromkeys(cursors, end_cursor(first))}
        return {name: await resolve_placeholders(shop, query, value) for name, value in given.items()}
    if isinstance(given, list):
        return [await resolve_placeholders(shop, query, value) for value in given]
    return await resolve_text(shop, given) if isinstance(given, str) else given


async def resolve_text(shop: Gateway, given: str) -> str:
    """Returns the value of a placeholder. Returns any other text unchanged."""
    if (member := _MEMBER.fullmatch(given)) is not None:
        return await member_id(shop, member[1], member[2])
    if (own := _OWN.fullmatch(given)) is not None:
        latest = {"latest trade": latest_trade, "my order": latest_order}.get(own[1])
        return await (own_id(shop, own[2]) if latest is None else latest(shop))
    if (place := _AT.fullmatch(given)) is not None:
        return await read_node_at(shop, place[1], place[2])
    if (found := _STANDS_FOR.fullmatch(given)) is None:
        return given
    kind, key = found.groups()
    if kind == "id":
        category = await shop.data("query ($key: String!) { category(slug: $key) { id } }", {"key": key})
        return str(category["category"]["id"])
    product = await shop.data("query ($key: String!) { product(sku: $key) { nonce } }", {"key": key})
    return str(product["product"]["nonce"])


async def member_id(shop: Gateway, wanted: str, subject: str) -> str:
    """Returns the id of a member, or of the latest post on their wall."""
    member = Kind.encode_id("User", subject)
    if wanted == "user":
        return member
    return str((await shop.data(_WALL, {"id": member}))["user"]["wall"]["nodes"][0]["id"])


async def read_node_at(shop: Gateway, wanted: str, path: str) -> str:
    """Returns the id or the nonce of the node at a path, or of its oldest revision."""
    node = (await shop.data(_NODE_AT, {"path": path}))["content"]
    if not wanted.startswith("first"):
        return str(node[wanted])
    return str(node["revisions"]["nodes"][-1]["id" if wanted == "first revision" else "nonce"])


async def own_id(shop: Gateway, account: str | None) -> str:
    """Returns the id of the viewer's account with this name; with None, the id of the viewer's cart."""
    viewer = (await shop.data(_VIEWER))["viewer"]
    found = {one["name"]: one["id"] for one in viewer["accounts"]}
    return str(viewer["cart"]["id"] if account is None else found[account])


async def latest_order(shop: Gateway) -> str:
    found = await shop.data(_ORDERS)
    return str(found["viewer"]["orders"]["nodes"][0]["id"])


async def latest_trade(shop: Gateway) -> str:
    """Returns the id of the latest trade of the viewer."""
    return str((await shop.data(_TRADES))["viewer"]["trades"]["nodes"][0]["id"])


def end_cursor(answer: Any) -> str:
    """Returns the first `endCursor` in an answer."""
    text = re.search(r'"endCursor": "([^"]+)"', json.dumps(answer))
    assert text is not None, answer
    return text[1]
