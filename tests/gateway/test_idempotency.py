"""A mutation with an idempotency key has one effect and one answer, even if a client repeats it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.payments import PaymentMethods
from portico.resolvers.writes.idempotency import OPERATIONS
from tests.support import ad_cases, comment_cases, content_cases, game_cases, social_cases, stack_cases
from tests.support.accounts import deposit_input, open_account, transfer_input
from tests.support.databases import documents_in
from tests.support.harness import (
    IS_SOAK,
    MUTATIONS,
    GatewayClient,
    SettableClock,
    category_input,
    create_category,
    create_product,
    product_input,
    running,
)
from tests.support.ids import key_in
from tests.support.shop import Provider, add_input, cart_of_nobody, checkout_input, stock_up, update_input

Given = dict[str, Any]
# How many calls with one key run at once: of every mutation, and of one of them.
CALLS = 12 if IS_SOAK else 5
REPEATS = 1_000 if IS_SOAK else 100


def id_and_nonce(product: dict[str, Any]) -> Given:
    return {"id": product["id"], "nonce": product["nonce"]}


async def _create_category(gateway: GatewayClient) -> tuple[Given, Given]:
    parent = await create_category(gateway)
    return category_input(parentId=parent["id"]), category_input()


async def _rename_category(gateway: GatewayClient) -> tuple[Given, Given]:
    one = await create_category(gateway)
    await create_category(gateway, parentId=one["id"])
    return {"id": one["id"], "name": "New", "slug": "new"}, {"id": one["id"], "name": "Newer"}


async def _move_category(gateway: GatewayClient) -> tuple[Given, Given]:
    one, place = await create_category(gateway), await create_category(gateway)
    return {"id": one["id"], "newParentId": place["id"]}, {"id": one["id"]}


async def _delete_category(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await create_category(gateway), await create_category(gateway)
    return {"id": one["id"]}, {"id": other["id"]}


async def _create_product(gateway: GatewayClient) -> tuple[Given, Given]:
    category = await create_category(gateway)
    return product_input(categoryIds=[category["id"]]), product_input()


async def _update_product(gateway: GatewayClient) -> tuple[Given, Given]:
    product, category = await create_product(gateway), await create_category(gateway)
    # An absent field and a null field are two different inputs.
    return {**id_and_nonce(product), "categoryIds": [category["id"]], "description": None}, {
        **id_and_nonce(product),
        "categoryIds": [category["id"]],
    }


async def _delete_product(gateway: GatewayClient) -> tuple[Given, Given]:
    return id_and_nonce(await create_product(gateway)), id_and_nonce(await create_product(gateway))


async def _open_account(_gateway: GatewayClient) -> tuple[Given, Given]:
    return {"name": "Savings", "currency": "EUR"}, {"name": "Savings"}


async def _deposit(gateway: GatewayClient) -> tuple[Given, Given]:
    account = await open_account(gateway.db)
    return deposit_input(account, 5), deposit_input(account, 6)


async def _transfer(gateway: GatewayClient) -> tuple[Given, Given]:
    source, destination = await open_account(gateway.db, 100), await open_account(gateway.db)
    return transfer_input(source, destination, 5), transfer_input(source, destination, 6)


async def _restock(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await stock_up(gateway), await stock_up(gateway)
    return {"sku": one, "quantity": 5}, {"sku": other, "quantity": -5}


async def _add_item(gateway: GatewayClient) -> tuple[Given, Given]:
    cart, sku = await cart_of_nobody(gateway), await stock_up(gateway)
    return add_input(cart, sku, 2), add_input(cart, sku, 3)


async def _update_item(gateway: GatewayClient) -> tuple[Given, Given]:
    one, other = await stock_up(gateway), await stock_up(gateway)
    cart = await cart_of_nobody(gateway, **{one: 4, other: 4})
    return update_input(cart, one, 4, 2), update_input(cart, other, 4, 0)


async def _claim(gateway: GatewayClient) -> tuple[Given, Given]:
    return {"cartId": await cart_of_nobody(gateway)}, {"cartId": await cart_of_nobody(gateway)}


async def _checkout(gateway: GatewayClient) -> tuple[Given, Given]:
    gateway.state.resources[PaymentMethods] = Provider()
    sku = await stock_up(gateway)
    carts = [await cart_of_nobody(gateway, **{sku: 2}) for _ in range(2)]
    return checkout_input(carts[0]), checkout_input(carts[1])


# Two inputs for each mutation except `createCart`, which has no required input. Each input succeeds if it comes first.
CASES: dict[str, Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]] = {
    "createCategory": _create_category,
    "renameCategory": _rename_category,
    "moveCategory": _move_category,
    "deleteCategory": _delete_category,
    "createProduct": _create_product,
    "updateProduct": _update_product,
    "deleteProduct": _delete_product,
    "restock": _restock,
    "addItemToCart": _add_item,
    "updateCartItem": _update_item,
    "claimCart": _claim,
    "checkout": _checkout,
    "openAccount": _open_account,
    "deposit": _deposit,
    "transfer": _transfer,
    **comment_cases.CASES,
    **content_cases.CASES,
    **social_cases.CASES,
    **stack_cases.CASES,
    **game_cases.CASES,
    **ad_cases.CASES,
}
DONE = {
    "CategoryPayload",
    "ProductPayload",
    "DeletedPayload",
    "StockPayload",
    "CartPayload",
    "CheckoutPayload",
    "AccountPayload",
    "TransferPayload",
    *comment_cases.DONE,
    *content_cases.DONE,
    *social_cases.DONE,
    *stack_cases.DONE,
    *game_cases.DONE,
    *ad_cases.DONE,
}


# The inputs of these mutations contain files. `test_photo_keys` has the cases.
WITH_FILES = ("uploadPhoto", "replacePhoto")


async def stored(gateway: GatewayClient) -> list[dict[str, Any]]:
    """Every document that a mutation may write."""
    names = ("categories", "products", "intents", "stock", "carts", "orders", "accounts", "transfers")
    cases = (comment_cases, content_cases, social_cases, stack_cases, game_cases, ad_cases)
    return await documents_in(gateway.db, [*names, *(name for one in cases for name in one.COLLECTIONS)])


# Mutations that record batches. Each entry has an id of its own, so that it can be sent again in any batch.
BATCHES = ["logEvents", "recordHits", "recordSessions"]


async def test_every_mutation_takes_a_key_and_has_a_case_here(gateway: GatewayClient) -> None:
    kind = "inputFields { name } ofType { inputFields { name } ofType { ofType { inputFields { name } } } }"
    query = f"{{ __schema {{ mutationType {{ fields {{ name args {{ name type {{ {kind} }} }} }} }} }} }}"

    fields = (await gateway.data(query))["__schema"]["mutationType"]["fields"]

    cases = [*CASES, *WITH_FILES, *BATCHES, "createCart", "join"]
    assert sorted(field["name"] for field in fields) == sorted(cases)
    for field in fields:
        given = next(argument["type"] for argument in field["args"] if argument["name"] == "input")
        while given["inputFields"] is None and given.get("ofType"):
            given = {"inputFields": None, **given["ofType"]}
        names = [one["name"] for one in given["inputFields"]]
        assert ("eventId" if field["name"] in BATCHES else "idempotencyKey") in names, field["name"]


@pytest.mark.parametrize("mutation", CASES)
async def test_repeating_a_key_has_one_effect_and_one_answer(gateway: GatewayClient, mutation: str) -> None:
    given, _ = await CASES[mutation](gateway)
    before = await stored(gateway)

    first = await gateway.result(mutation, {**given, "idempotencyKey": "key"})
    after = await stored(gateway)
    again = [await gateway.result(mutation, {**given, "idempotencyKey": "key"}) for _ in range(2)]

    assert first["__typename"] in DONE
    assert again == [first, first]
    assert before != after == await stored(gateway)


@pytest.mark.parametrize("mutation", CASES)
async def test_concurrent_calls_with_one_key_have_one_effect_and_one_answer(
    gateway: GatewayClient, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)

    results = await asyncio.gather(
        *(gateway.result(mutation, {**given, "idempotencyKey": "key"}) for _ in range(CALLS))
    )

    assert results[0]["__typename"] in DONE
    assert results == [results[0]] * CALLS
    assert await gateway.db[OPERATIONS.name].count_documents({}) == 1


async def test_many_repeats_of_a_creation_have_one_effect_and_one_answer(gateway: GatewayClient) -> None:
    category = await create_category(gateway)
    given = product_input(sku="S", categoryIds=[category["id"]], idempotencyKey="key")
    text = """mutation ($input: CreateProductInput!) { createProduct(input: $input) {
      ... on ProductPayload { product { id nonce categories { slug } } } } }"""

    answers = await asyncio.gather(*(gateway.data(text, {"input": given}) for _ in range(REPEATS)))

    assert answers[0]["createProduct"]["product"]["categories"] == [{"slug": category["slug"]}]
    assert all(answer == answers[0] for answer in answers)
    assert await gateway.db["products"].count_documents({}) == 1


SELECTIONS = {
    "Category": "... on CategoryPayload { category { name children { nodes { slug } } } }",
    "Product": "... on ProductPayload { product { title description pricing { pctSavings } } }",
}


async def test_a_repeated_call_gets_current_values_for_its_own_selection(gateway: GatewayClient) -> None:
    category = category_input(slug="jazz", idempotencyKey="category")
    created = (await gateway.result("createCategory", category))["category"]
    product = product_input(idempotencyKey="product")
    first = (await gateway.result("createProduct", product))["product"]
    await gateway.result("renameCategory", {"id": created["id"], "name": "All That Jazz"})
    await create_category(gateway, slug="bop", parentId=created["id"])
    await gateway.result(
        "updateProduct", {**id_and_nonce(first), "title": "Kind of Blue", "description": "by Miles Davis"}
    )

    answers: Given = {}
    for kind, given in (("Category", category), ("Product", product)):
        text = f"mutation ($i: Create{kind}Input!) {{ create{kind}(input: $i) {{ {SELECTIONS[kind]} }} }}"
        answers |= await gateway.data(text, {"i": given})

    assert answers == {
        "createCategory": {"category": {"name": "All That Jazz", "children": {"nodes": [{"slug": "bop"}]}}},
        "createProduct": {
            "product": {"title": "Kind of Blue", "description": "by Miles Davis", "pricing": {"pctSavings": 8}}
        },
    }


# Scope of a key


@pytest.mark.parametrize("mutation", CASES)
async def test_a_key_belongs_to_one_input_of_one_mutation(gateway: GatewayClient, mutation: str) -> None:
    given, other = await CASES[mutation](gateway)
    first = await gateway.result(mutation, {**given, "idempotencyKey": "key"})
    before = await stored(gateway)
    stranger = "createCategory" if mutation != "createCategory" else "createProduct"
    new = category_input() if stranger == "createCategory" else product_input()

    for name, wrong in ((mutation, other), (stranger, new)):
        answer = await gateway.ask(MUTATIONS[name], {"input": {**wrong, "idempotencyKey": "key"}})
        assert (answer.body["data"], answer.codes) == ({name: None}, ["IDEMPOTENCY_KEY_REUSED"])

    assert await stored(gateway) == before
    assert await gateway.result(mutation, {**given, "idempotencyKey": "key"}) == first


@pytest.mark.parametrize("mutation", CASES)
async def test_the_same_key_from_another_caller_is_another_operation(gateway: GatewayClient, mutation: str) -> None:
    given, other = await CASES[mutation](gateway)
    if mutation == "updateProduct":
        other = {**id_and_nonce(await create_product(gateway)), "title": "Other"}
    one, another = gateway.token("one"), gateway.token("another")
    if mutation == "transfer":
        given, other = [
            transfer_input(await open_account(gateway.db, 10, owner=owner), given["destinationId"])
            for owner in ("one", "another")
        ]
    for played, owner in ((given, "one"), (other, "another")):
        if "characterId" in played:
            character = {"_id": key_in("Character", played["characterId"])}
            await gateway.db["game.characters"].update_one(character, {"$set": {"owner": owner}})

    first = await gateway.result(mutation, {**given, "idempotencyKey": "key"}, token=one)
    second = await gateway.result(mutation, {**other, "idempotencyKey": "key"}, token=another)

    assert first["__typename"] == second["__typename"]
    assert first["__typename"] in DONE
    assert first != second


async def test_a_key_has_1_to_255_characters(gateway: GatewayClient) -> None:
    for key in ("", "k" * 256):
        answer = await gateway.ask(MUTATIONS["createCategory"], {"input": category_input(idempotencyKey=key)})
        assert (answer.body["data"], answer.codes) == ({"createCategory": None}, ["BAD_USER_INPUT"])
    assert await stored(gateway) == []

    for key in ("k", "k" * 255, " ", "$ne.\0", "🎄" * 255, "K"):
        given = category_input(idempotencyKey=key)
        first, again = [await gateway.result("createCategory", given) for _ in range(2)]
        assert first["__typename"] == "CategoryPayload"
        assert first == again
    assert await gateway.db["categories"].count_documents({}) == 6


async def test_a_call_without_a_key_is_not_remembered(gateway: GatewayClient) -> None:
    given = category_input(idempotencyKey=None)

    results = [(await gateway.result("createCategory", given))["__typename"] for _ in range(2)]

    assert results == ["CategoryPayload", "SlugTaken"]
    assert await gateway.db[OPERATIONS.name].count_documents({}) == 0


async def test_each_mutation_in_a_request_has_its_own_key(gateway: GatewayClient) -> None:
    text = """mutation ($one: CreateCategoryInput!, $other: CreateCategoryInput!) {
      one: createCategory(input: $one) { __typename ...Slug }
      other: createCategory(input: $other) { __typename ...Slug }
    } fragment Slug on CategoryPayload { category { slug } }"""
    one, other = ({"name": "N", "slug": slug, "idempotencyKey": slug} for slug in ("one", "other"))

    apart = await gateway.data(text, {"one": one, "other": other})
    mixed = await gateway.ask(text, {"one": one, "other": {**other, "idempotencyKey": "one"}})

    assert [apart[name]["category"]["slug"] for name in ("one", "other")] == ["one", "other"]
    assert (mixed.body["data"]["one"], mixed.body["data"]["other"]) == (apart["one"], None)
    assert mixed.codes == ["IDEMPOTENCY_KEY_REUSED"]


@pytest.mark.parametrize(("hours", "lasts"), [(None, timedelta(days=1)), (48, timedelta(days=2))])
async def test_a_key_is_kept_for_a_day_or_as_long_as_the_setting_says(
    settings: Settings, clock: SettableClock, hours: int | None, lasts: timedelta
) -> None:
    chosen = settings if hours is None else replace(settings, key_hours=hours)
    async with running(chosen, clock=clock) as gateway:
        before = clock.now()
        await gateway.result("createCategory", category_input(idempotencyKey="key"))

        (record,) = await gateway.db[OPERATIONS.name].find({}).to_list()
        indexes = await gateway.db[OPERATIONS.name].index_information()

    assert before + lasts <= record["expires_at"] <= clock.now() + lasts
    # The server deletes an expired record.
    assert indexes["expires_at_1"]["expireAfterSeconds"] == 0


@pytest.mark.parametrize("mutation", CASES)
async def test_an_expired_key_can_be_used_again(gateway: GatewayClient, mutation: str) -> None:
    given, other = await CASES[mutation](gateway)
    first = await gateway.result(mutation, {**given, "idempotencyKey": "key"})
    await gateway.db[OPERATIONS.name].delete_many({})
    if "nonce" in other and "product" in first:
        other["nonce"] = first["product"]["nonce"]
    before = await stored(gateway)

    result = await gateway.result(mutation, {**other, "idempotencyKey": "key"})

    assert result["__typename"] in DONE
    assert result != first
    assert await stored(gateway) != before
