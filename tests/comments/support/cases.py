"""Inputs of the mutations of discussions, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from portico.resolvers.comments.discussions import DOCUMENTS
from portico.schema.kinds import Kind
from tests.catalog.support.catalog import add_products, product
from tests.comments.support.discussions import open_on_product, post, post_input
from tests.support.harness import GatewayClient

Given = dict[str, Any]
NO_DISCUSSION = Kind.encode_id("Discussion", "0" * 24)
NO_COMMENT = Kind.encode_id("Comment", f"D.{'0' * 24}.{'0' * 24}")


async def _open(gateway: GatewayClient) -> tuple[Given, Given]:
    await add_products(gateway.db, [product(sku="one"), product(sku="other")])
    return {"subjectId": Kind.encode_id("Product", "one")}, {"subjectId": Kind.encode_id("Product", "other")}


async def _post(gateway: GatewayClient) -> tuple[Given, Given]:
    discussion = await open_on_product(gateway, DOCUMENTS)
    comment = await post(gateway, discussion)
    return post_input(discussion, "A reply.", comment["slug"]), post_input(discussion, "A thread.")


async def _edit(gateway: GatewayClient) -> tuple[Given, Given]:
    discussion = await open_on_product(gateway, DOCUMENTS)
    one, other = [await post(gateway, discussion) for _ in range(2)]
    return {"id": one["id"], "text": "Edited."}, {"id": other["id"], "text": "Edited, too."}


async def _delete(gateway: GatewayClient) -> tuple[Given, Given]:
    discussion = await open_on_product(gateway, DOCUMENTS)
    one, other = [await post(gateway, discussion) for _ in range(2)]
    return {"id": one["id"]}, {"id": other["id"]}


# Two inputs for each mutation. Each one succeeds alone.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "openDiscussion": _open,
    "postComment": _post,
    "editComment": _edit,
    "deleteComment": _delete,
}
