"""What old crashes leave to the jobs of comments."""

from __future__ import annotations

from bson import ObjectId

from tests.comments.support.discussions import open_on_product, post
from tests.support.harness import GatewayClient
from tests.support.leftovers import LONG_AGO, OP, Left, set_values


async def _discussion(gateway: GatewayClient, storage: str = "DOCUMENTS") -> ObjectId:
    discussion = await open_on_product(gateway, storage)
    await post(gateway, discussion)
    await post(gateway, discussion)
    found = await gateway.stored("discussions", {"storage": storage})
    key: ObjectId = found["_id"]
    return key


async def closed_discussion(gateway: GatewayClient) -> Left:
    closed = {"of": ObjectId(), "by": OP, "is_final": True}
    await set_values(gateway, "discussions", await _discussion(gateway), closed=closed, closing_at=LONG_AGO)
    return "discussions", {"closing_at": LONG_AGO}


async def closing_discussion(gateway: GatewayClient) -> Left:
    closed = {"of": ObjectId(), "by": OP, "is_final": False}
    await set_values(gateway, "discussions", await _discussion(gateway), closed=closed, closing_at=LONG_AGO)
    return "discussions", {"closed.is_final": False}


async def _comment(gateway: GatewayClient, storage: str, by: int) -> Left:
    entry = {"id": ObjectId(), "attempt": OP, "by": by, "parent": None, "at": LONG_AGO}
    await set_values(gateway, "discussions", await _discussion(gateway, storage), under_way=[entry])
    return "discussions", {"under_way.attempt": OP}


async def posted_comment(gateway: GatewayClient) -> Left:
    return await _comment(gateway, "DOCUMENTS", 1)


async def removed_comment(gateway: GatewayClient) -> Left:
    return await _comment(gateway, "DOCUMENTS", -1)


async def posted_comment_of_a_page(gateway: GatewayClient) -> Left:
    return await _comment(gateway, "PAGES", 1)


async def split_page(gateway: GatewayClient) -> Left:
    await _discussion(gateway, "PAGES")
    (page,) = await gateway.db["comment_pages"].find({}).to_list()
    split = {"at": page["comments"][1]["key"], "since": LONG_AGO}
    await set_values(gateway, "comment_pages", page["_id"], split=split)
    return "comment_pages", {"split.since": LONG_AGO}
