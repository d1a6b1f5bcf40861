"""Repeated calls with an idempotency key: what they return for an object that the caller may no longer see."""

from __future__ import annotations

from typing import Any

from portico.schema.roles import Role
from tests.accounts.support.accounts import deposit_input, open_account
from tests.comments.support.discussions import post_input
from tests.content.support.site import create_entry, create_section
from tests.shop.support.shop import add_input, anonymously, stock_up, update_input
from tests.support.harness import MUTATIONS, GatewayClient

Given = dict[str, Any]


def not_found(kind: str, global_id: str) -> Given:
    return {"__typename": "NotFound", "message": f"There is no such {kind}.", "missingId": global_id}


async def test_a_claimed_cart_is_not_shown_to_the_callers_who_filled_it(gateway: GatewayClient) -> None:
    sku = await stock_up(gateway)
    eve, bob = gateway.token("eve"), gateway.token("bob")
    created = {"idempotencyKey": "a cart"}
    cart = (await anonymously(gateway, "createCart", created))["cart"]["id"]
    by_nobody = add_input(cart, sku, idempotencyKey="by nobody")
    by_eve = update_input(cart, sku, 1, 3, idempotencyKey="by eve")
    claim = {"cartId": cart, "idempotencyKey": "a claim"}

    first = [
        await anonymously(gateway, "addItemToCart", by_nobody),
        await gateway.result("updateCartItem", by_eve, token=eve),
        await gateway.result("claimCart", claim, token=bob),
    ]
    again = [
        await anonymously(gateway, "addItemToCart", by_nobody),
        await gateway.result("updateCartItem", by_eve, token=eve),
    ]
    anew = await gateway.ask(MUTATIONS["createCart"], {"input": created}, token=None)

    assert [one["__typename"] for one in first] == ["CartPayload"] * 3
    assert again == [not_found("cart", cart)] * 2
    assert anew.data == {"createCart": not_found("cart", cart)}
    assert await gateway.result("claimCart", claim, token=bob) == first[2]


async def test_a_comment_on_a_draft_is_not_shown_to_its_author(gateway: GatewayClient) -> None:
    entry = await create_entry(gateway, await create_section(gateway, "BLOG"))
    reader = gateway.token("reader", [])
    opened = {"subjectId": entry["id"], "idempotencyKey": "a discussion"}
    discussion = (await gateway.result("openDiscussion", opened, token=reader))["discussion"]["id"]
    posted = post_input(discussion, idempotencyKey="a comment")
    comment = (await gateway.result("postComment", posted, token=reader))["comment"]["id"]
    deleted = {"id": comment, "idempotencyKey": "a deletion"}
    assert (await gateway.result("deleteComment", deleted, token=reader))["__typename"] == "CommentPayload"
    calls = {"openDiscussion": opened, "postComment": posted, "deleteComment": deleted}
    seen = [(await gateway.result(name, given, token=reader))["__typename"] for name, given in calls.items()]

    hidden = await gateway.result("editMetadata", {"id": entry["id"], "nonce": entry["nonce"], "publishOn": None})
    again = [await gateway.result(name, given, token=reader) for name, given in calls.items()]

    assert seen == ["DiscussionPayload", "NotFound", "CommentPayload"]
    assert hidden["__typename"] == "ContentPayload"
    assert again == [not_found("discussion", discussion), *[not_found("comment", comment)] * 2]


async def test_a_repeated_deposit_shows_the_account_to_a_service(gateway: GatewayClient) -> None:
    account = await open_account(gateway.db, owner="another")
    given = deposit_input(account, 5)
    bank = gateway.token("a bank", [Role.SERVICE])

    first, again = [await gateway.result("deposit", given, token=bank) for _ in range(2)]

    assert first["__typename"] == "AccountPayload"
    assert first == again
