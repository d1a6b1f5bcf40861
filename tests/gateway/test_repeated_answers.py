"""Repeated calls with an idempotency key: what they return for failures, and for objects that are gone."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema.roles import Role
from portico.testing.kits import merged, nothing
from tests.accounts.support.accounts import deposit_input, open_account
from tests.catalog.support.cases import id_and_nonce
from tests.comments.support.discussions import post_input
from tests.content.support.site import create_entry, create_section
from tests.shop.support.shop import add_input, anonymously, stock_up, update_input
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    category_input,
    create_category,
    create_product,
    product_input,
)
from tests.support.interruptions import crashing
from tests.support.kits import kits

FAILURES = merged([kit.failures for kit in kits().values()])
# The errors that other tests cause.
UNFAILED = {pair for kit in kits().values() for pair in kit.unfailed}


async def test_every_failure_of_every_mutation_has_a_case_here(gateway: GatewayClient) -> None:
    query = """{
      __schema { mutationType { fields { name type { possibleTypes { name } } } } }
      __type(name: "UserError") { possibleTypes { name } }
    }"""

    found = await gateway.data(query)

    failures = found["__type"]["possibleTypes"]
    members = {
        (field["name"], member["name"])
        for field in found["__schema"]["mutationType"]["fields"]
        for member in field["type"]["possibleTypes"]
        if member in failures
    }
    assert members == FAILURES.keys() | UNFAILED


@pytest.mark.sample(8)
@pytest.mark.parametrize(("mutation", "member"), FAILURES)
async def test_a_failure_is_repeated_even_after_its_cause_is_gone(
    gateway: GatewayClient, mutation: str, member: str
) -> None:
    failure = await FAILURES[mutation, member](gateway)
    given = {**failure.given, "idempotencyKey": "key"}

    first = await gateway.result(mutation, given)
    await failure.repair()
    again = await gateway.result(mutation, given)

    assert first["__typename"] == member
    assert again == first
    if failure.repair is not nothing:
        anew = await gateway.result(mutation, {**given, "idempotencyKey": "another"})
        assert anew["__typename"].endswith("Payload")


async def test_a_refused_edit_is_refused_again_with_its_key(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    given = {**id_and_nonce(product), "details": {"my_own": 1}, "idempotencyKey": "key"}

    results = [await gateway.result("updateProduct", given) for _ in range(2)]

    message = "A product of type 'Audio Album' has no 'my_own'."
    assert results == [{"__typename": "InvalidInput", "message": message, "path": ["details", "my_own"]}] * 2


@pytest.mark.parametrize(("mutation", "expected"), [("moveCategory", "Conflict"), ("deleteCategory", "Conflict")])
async def test_a_call_that_ended_in_a_conflict_can_be_repeated_with_its_key(
    gateway: GatewayClient, mutation: str, expected: str
) -> None:
    one, place = await create_category(gateway), await create_category(gateway)
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["moveCategory"], {"input": {"id": one["id"], "newParentId": place["id"]}})
    given = {"id": one["id"], "idempotencyKey": "key"}
    if mutation == "moveCategory":
        given["newParentId"] = place["id"]

    refused = await gateway.ask(MUTATIONS[mutation], {"input": given})
    await gateway.run_jobs(seconds=6)
    again = await gateway.result(mutation, given)

    assert expected in {*refused.codes, (refused.body["data"][mutation] or {}).get("__typename")}
    assert again["__typename"] in {"CategoryPayload", "DeletedPayload"}


@pytest.mark.parametrize("mutation", ["updateProduct", "deleteProduct"])
async def test_a_repeated_conflict_returns_the_current_product(gateway: GatewayClient, mutation: str) -> None:
    product = await create_product(gateway, title="First")
    second = (await gateway.result("updateProduct", {**id_and_nonce(product), "title": "Second"}))["product"]
    given = {**id_and_nonce(product), "idempotencyKey": "key"}
    first = await gateway.result(mutation, given)
    third = (await gateway.result("updateProduct", {**id_and_nonce(second), "title": "Third"}))["product"]

    again = await gateway.result(mutation, given)
    await gateway.result("deleteProduct", id_and_nonce(third))
    at_last = await gateway.result(mutation, given)

    message = "The product has changed since it was read."
    conflict = {"__typename": "ProductEditConflict", "message": message}
    assert first == {**conflict, "current": {"title": "Second", "nonce": second["nonce"]}}
    assert again == {**conflict, "current": {"title": "Third", "nonce": third["nonce"]}}
    assert at_last == {"__typename": "NotFound", "message": "There is no such product.", "missingId": product["id"]}


# Deleted objects


@pytest.mark.parametrize(
    "mutation", ["createCategory", "renameCategory", "moveCategory", "createProduct", "updateProduct"]
)
async def test_a_repeated_answer_is_not_found_after_its_object_is_deleted(
    gateway: GatewayClient, mutation: str
) -> None:
    if mutation.endswith("Category"):
        kind, collection = "category", "categories"
        given = category_input() if mutation == "createCategory" else {"id": (await create_category(gateway))["id"]}
    else:
        kind, collection = "product", "products"
        given = product_input() if mutation == "createProduct" else id_and_nonce(await create_product(gateway))
    first = (await gateway.result(mutation, {**given, "idempotencyKey": "key"}))[kind]
    deletion = {name: first[name] for name in ("id", "nonce") if name in first}
    await gateway.result(f"delete{kind.capitalize()}", deletion)

    again = await gateway.result(mutation, {**given, "idempotencyKey": "key"})

    assert again == {"__typename": "NotFound", "message": f"There is no such {kind}.", "missingId": first["id"]}
    assert await gateway.db[collection].count_documents({}) == 0


# Hidden objects

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
