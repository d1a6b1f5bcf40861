"""Repeated calls with an idempotency key: what they return for failures, and for objects that were deleted since."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.payments import PaymentMethods
from portico.schema.nodes import encode_id
from tests.accounts.support.accounts import deposit, deposit_input, open_account, transfer_input
from tests.ads.support import cases as ad_cases
from tests.comments.support import cases as comment_cases
from tests.comments.support.discussions import post_input
from tests.content.support.failures import CONTENT_ELSEWHERE, CONTENT_FAILURES
from tests.game.support import cases as game_cases
from tests.game.support import stack_cases
from tests.shop.support.shop import (
    Provider,
    add_input,
    anonymously,
    cart_of_nobody,
    checkout_input,
    new_cart,
    restock,
    stock_up,
    update_input,
)
from tests.social.support.failures import SOCIAL_ELSEWHERE, SOCIAL_FAILURES
from tests.support.failures import Failing, Failure, fails_with, nothing
from tests.support.harness import (
    MUTATIONS,
    GatewayClient,
    SettableClock,
    category_input,
    create_category,
    create_product,
    product_input,
    run_jobs,
)
from tests.support.interruptions import crashing

Given = dict[str, Any]


def id_and_nonce(product: dict[str, Any]) -> Given:
    return {"id": product["id"], "nonce": product["nonce"]}


async def _slug_taken(gateway: GatewayClient, given: Given) -> Failure:
    other = await create_category(gateway, slug="taken")
    return Failure(given, lambda: gateway.result("renameCategory", {"id": other["id"], "slug": "free"}))


async def _create_slug_taken(gateway: GatewayClient) -> Failure:
    return await _slug_taken(gateway, category_input(slug="taken"))


async def _rename_slug_taken(gateway: GatewayClient) -> Failure:
    one = await create_category(gateway)
    return await _slug_taken(gateway, {"id": one["id"], "slug": "taken"})


async def _cycle(gateway: GatewayClient) -> Failure:
    one = await create_category(gateway)
    below = await create_category(gateway, parentId=one["id"])
    given = {"id": one["id"], "newParentId": below["id"]}
    return Failure(given, lambda: gateway.result("moveCategory", {"id": below["id"]}))


async def _not_empty(gateway: GatewayClient) -> Failure:
    one = await create_category(gateway)
    below = await create_category(gateway, parentId=one["id"])
    return Failure({"id": one["id"]}, lambda: gateway.result("deleteCategory", {"id": below["id"]}))


async def _sku_taken(gateway: GatewayClient) -> Failure:
    other = await create_product(gateway, sku="S")
    return Failure(product_input(sku="S"), lambda: gateway.result("deleteProduct", id_and_nonce(other)))


async def _edit_conflict(gateway: GatewayClient) -> Failure:
    product = await create_product(gateway)
    await gateway.result("updateProduct", {**id_and_nonce(product), "title": "Second"})
    return Failure(id_and_nonce(product))


async def _in_use(gateway: GatewayClient) -> Failure:
    product = await create_product(gateway, sku="held")
    await restock(gateway, "held", 3)
    cart = await new_cart(gateway, held=2)
    return Failure(id_and_nonce(product), lambda: gateway.result("updateCartItem", update_input(cart, "held", 2, 0)))


async def _too_few_to_take_away(gateway: GatewayClient) -> Failure:
    sku = await stock_up(gateway, units=2)
    return Failure({"sku": sku, "quantity": -5}, lambda: restock(gateway, sku, 5))


async def _too_many(gateway: GatewayClient) -> Failure:
    sku = await stock_up(gateway, units=2)
    return Failure({"sku": sku, "quantity": 2**31 - 1}, lambda: restock(gateway, sku, -2))


def _inactive(given: Callable[[str], Given], *, of_nobody: bool = False) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        gateway.state.resources[PaymentMethods] = Provider()
        await stock_up(gateway, "held")
        cart = await (cart_of_nobody if of_nobody else new_cart)(gateway, held=2)
        await anonymously(gateway, "checkout", checkout_input(cart)) if of_nobody else await gateway.result(
            "checkout", checkout_input(cart)
        )
        return Failure(given(cart))

    return fail


def _too_few(given: Callable[[str], Given]) -> Failing:
    async def fail(gateway: GatewayClient) -> Failure:
        await stock_up(gateway, "held", 3)
        cart = await new_cart(gateway, held=2)
        return Failure(given(cart), lambda: restock(gateway, "held", 20))

    return fail


async def _empty(gateway: GatewayClient) -> Failure:
    gateway.state.resources[PaymentMethods] = Provider()
    cart = await new_cart(gateway)
    sku = await stock_up(gateway)
    return Failure(checkout_input(cart), lambda: gateway.result("addItemToCart", add_input(cart, sku)))


async def _declined(gateway: GatewayClient) -> Failure:
    gateway.state.resources[PaymentMethods] = Provider()
    return Failure(checkout_input(await new_cart(gateway, **{await stock_up(gateway): 1}), "decline"))


async def _poor(gateway: GatewayClient) -> Failure:
    account = await open_account(gateway.db)
    cart = await new_cart(gateway, **{await stock_up(gateway, price=100): 1})
    given = {"cartId": cart, "payment": {"accountId": account}}
    return Failure(given, lambda: deposit(gateway, deposit_input(account, 500)))


async def _too_poor(gateway: GatewayClient) -> Failure:
    mine, theirs = await open_account(gateway.db, 5), await open_account(gateway.db)
    return Failure(transfer_input(mine, theirs, 10), lambda: deposit(gateway, deposit_input(mine, 50)))


async def _full(gateway: GatewayClient) -> Failure:
    return Failure(*await comment_cases.post_into_full_discussion(gateway))


async def _no_text(gateway: GatewayClient) -> Failure:
    return Failure(await comment_cases.post_without_text(gateway))


async def _edit_without_text(gateway: GatewayClient) -> Failure:
    return Failure(await comment_cases.edit_without_text(gateway))


def nowhere() -> str:
    return encode_id("Category", ObjectId())


NO_ACCOUNT = encode_id("Account", ObjectId())
NO_CART = encode_id("Cart", "0" * 32)
NO_PRODUCT = {"id": encode_id("Product", "none"), "nonce": "n"}
FAILURES: dict[tuple[str, str], Failing] = {
    ("createCategory", "SlugTaken"): _create_slug_taken,
    ("createCategory", "NotFound"): fails_with(lambda: category_input(parentId=nowhere())),
    ("createCategory", "InvalidInput"): fails_with(lambda: category_input(name="")),
    ("renameCategory", "SlugTaken"): _rename_slug_taken,
    ("renameCategory", "NotFound"): fails_with(lambda: {"id": "no id", "name": "New"}),
    ("renameCategory", "InvalidInput"): fails_with(lambda: {"id": nowhere(), "slug": "A"}),
    ("moveCategory", "CategoryCycle"): _cycle,
    ("moveCategory", "NotFound"): fails_with(lambda: {"id": nowhere()}),
    ("deleteCategory", "CategoryNotEmpty"): _not_empty,
    ("deleteCategory", "NotFound"): fails_with(lambda: {"id": nowhere()}),
    ("createProduct", "SkuTaken"): _sku_taken,
    ("createProduct", "NotFound"): fails_with(lambda: product_input(categoryIds=[nowhere()])),
    ("createProduct", "InvalidInput"): fails_with(lambda: product_input(type="Book", details={"a_b": {"c_d": 2**63}})),
    ("updateProduct", "ProductEditConflict"): _edit_conflict,
    ("updateProduct", "NotFound"): fails_with(lambda: {**NO_PRODUCT, "title": "T"}),
    ("deleteProduct", "ProductEditConflict"): _edit_conflict,
    ("deleteProduct", "NotFound"): fails_with(lambda: NO_PRODUCT),
    ("deleteProduct", "ProductInUse"): _in_use,
    ("restock", "InadequateInventory"): _too_few_to_take_away,
    ("restock", "NotFound"): fails_with(lambda: {"sku": "none", "quantity": 1}),
    ("restock", "InvalidInput"): _too_many,
    ("addItemToCart", "CartInactive"): _inactive(lambda cart: add_input(cart, "held")),
    ("addItemToCart", "InadequateInventory"): _too_few(lambda cart: add_input(cart, "held", 5)),
    ("addItemToCart", "NotFound"): fails_with(lambda: add_input(NO_CART, "none")),
    ("addItemToCart", "InvalidInput"): fails_with(lambda: add_input(NO_CART, "none", 0)),
    ("updateCartItem", "CartInactive"): _inactive(lambda cart: update_input(cart, "held", 2, 1)),
    ("updateCartItem", "InadequateInventory"): _too_few(lambda cart: update_input(cart, "held", 2, 5)),
    ("updateCartItem", "NotFound"): fails_with(lambda: update_input(NO_CART, "none", 1, 2)),
    ("updateCartItem", "InvalidInput"): fails_with(lambda: update_input(NO_CART, "none", -1, 2)),
    ("claimCart", "CartInactive"): _inactive(lambda cart: {"cartId": cart}, of_nobody=True),
    ("claimCart", "NotFound"): fails_with(lambda: {"cartId": NO_CART}),
    ("checkout", "CartInactive"): _inactive(checkout_input),
    ("checkout", "EmptyCart"): _empty,
    ("checkout", "PaymentDeclined"): _declined,
    ("checkout", "InsufficientFunds"): _poor,
    ("checkout", "NotFound"): fails_with(lambda: checkout_input(NO_CART)),
    ("openAccount", "InvalidInput"): fails_with(lambda: {"name": ""}),
    ("transfer", "InsufficientFunds"): _too_poor,
    ("transfer", "NotFound"): fails_with(lambda: transfer_input(NO_ACCOUNT, encode_id("Account", ObjectId()))),
    ("transfer", "InvalidInput"): fails_with(lambda: transfer_input(NO_ACCOUNT, NO_ACCOUNT)),
    ("openDiscussion", "NotFound"): fails_with(lambda: {"subjectId": NO_PRODUCT["id"]}),
    ("postComment", "NotFound"): fails_with(lambda: post_input(comment_cases.NO_DISCUSSION)),
    ("postComment", "InvalidInput"): _no_text,
    ("postComment", "DiscussionFull"): _full,
    ("editComment", "NotFound"): fails_with(lambda: {"id": comment_cases.NO_COMMENT, "text": "Text."}),
    ("editComment", "InvalidInput"): _edit_without_text,
    ("deleteComment", "NotFound"): fails_with(lambda: {"id": comment_cases.NO_COMMENT}),
    **CONTENT_FAILURES,
    **SOCIAL_FAILURES,
    **stack_cases.FAILURES,
    **game_cases.FAILURES,
    **ad_cases.FAILURES,
}
# The input of an edit is checked only if its product exists. A conflict or a pending payment is temporary. A deposit
# needs another role. A deletion has no input that could be invalid.
ELSEWHERE = {
    ("updateProduct", "InvalidInput"),
    ("moveCategory", "Conflict"),
    ("deleteCategory", "Conflict"),
    ("uploadPhoto", "Conflict"),
    # A cart that its buyer may no longer see.
    ("createCart", "NotFound"),
    ("updateCartItem", "Conflict"),
    ("claimCart", "Conflict"),
    ("checkout", "PaymentPending"),
    ("deposit", "NotFound"),
    ("deposit", "InvalidInput"),
    ("deleteComment", "InvalidInput"),
    *CONTENT_ELSEWHERE,
    *SOCIAL_ELSEWHERE,
    *stack_cases.ELSEWHERE,
    *game_cases.ELSEWHERE,
    # Batches have no key.
    *((name, "InvalidInput") for name in ("logEvents", "recordHits", "recordSessions")),
}


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
    assert members == FAILURES.keys() | ELSEWHERE


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
    gateway: GatewayClient, clock: SettableClock, mutation: str, expected: str
) -> None:
    one, place = await create_category(gateway), await create_category(gateway)
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["moveCategory"], {"input": {"id": one["id"], "newParentId": place["id"]}})
    given = {"id": one["id"], "idempotencyKey": "key"}
    if mutation == "moveCategory":
        given["newParentId"] = place["id"]

    refused = await gateway.ask(MUTATIONS[mutation], {"input": given})
    clock.advance(seconds=6)
    await run_jobs(gateway, clock)
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


@pytest.mark.parametrize("mutation", ["createCategory", "renameCategory", "moveCategory"])
async def test_a_repeated_answer_is_not_found_after_its_category_is_deleted(
    gateway: GatewayClient, mutation: str
) -> None:
    known = await create_category(gateway)
    given = category_input() if mutation == "createCategory" else {"id": known["id"]}
    first = (await gateway.result(mutation, {**given, "idempotencyKey": "key"}))["category"]
    await gateway.result("deleteCategory", {"id": first["id"]})

    again = await gateway.result(mutation, {**given, "idempotencyKey": "key"})

    assert again == {"__typename": "NotFound", "message": "There is no such category.", "missingId": first["id"]}
    assert await gateway.db["categories"].find_one({"slug": first["slug"]}) is None


@pytest.mark.parametrize("mutation", ["createProduct", "updateProduct"])
async def test_a_repeated_answer_is_not_found_after_its_product_is_deleted(
    gateway: GatewayClient, mutation: str
) -> None:
    given = product_input() if mutation == "createProduct" else id_and_nonce(await create_product(gateway))
    first = (await gateway.result(mutation, {**given, "idempotencyKey": "key"}))["product"]
    await gateway.result("deleteProduct", id_and_nonce(first))

    again = await gateway.result(mutation, {**given, "idempotencyKey": "key"})

    assert again == {"__typename": "NotFound", "message": "There is no such product.", "missingId": first["id"]}
    assert await gateway.db["products"].count_documents({}) == 0
