"""A mutation with an idempotency key has one effect and one answer, even if a client repeats it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from graphql import get_named_type

from portico.gateway.settings import Settings
from portico.resolvers.writes.leases import LEASES
from portico.resolvers.writes.operation_records import OPERATIONS
from portico.testing.kits import merged
from tests.accounts.support.accounts import open_account, transfer_input
from tests.catalog.support.cases import Given, id_and_nonce
from tests.notifications.support.news import notify
from tests.support.databases import documents_in
from tests.support.documents import only
from tests.support.domains import COLLECTIONS, SCHEMA
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
from tests.support.kits import kits
from tests.support.stored import assert_typed

# How many calls with one key run at once: of every mutation, and of one of them.
CALLS = 12 if IS_SOAK else 5
REPEATS = 1_000 if IS_SOAK else 50


# Two inputs for each mutation except some that other tests repeat. Each input succeeds if it comes first.
CASES = merged([kit.inputs for kit in kits().values()])
UNTRIED = {name for kit in kits().values() for name in kit.untried}
# Their records decide the keys, also if the record of the operation is lost.
KEPT_LONGER = {"deposit", "transfer"}
# What the gateway keeps of calls, and what it writes after an answer.
NOT_DATA = {OPERATIONS.name, LEASES.name, *(name for kit in kits().values() for name in kit.background)}


async def stored(gateway: GatewayClient) -> list[dict[str, Any]]:
    """Every document that a mutation may write."""
    return await documents_in(gateway.db, [spec.name for spec in COLLECTIONS if spec.name not in NOT_DATA])


def test_every_mutation_takes_a_key_and_has_a_case_here() -> None:
    mutations: Any = SCHEMA._schema.mutation_type

    assert sorted(mutations.fields) == sorted([*CASES, *UNTRIED])
    for name, field in mutations.fields.items():
        given: Any = get_named_type(field.args["input"].type)
        # Each entry of a batch has an id of its own.
        assert given.fields.keys() & {"idempotencyKey", "eventId"}, name


@pytest.mark.sample(6)
@pytest.mark.parametrize("mutation", CASES)
async def test_a_key_has_one_effect_and_one_answer_and_belongs_to_one_input_until_it_expires(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    given, other = await CASES[mutation](gateway)
    before = await stored(gateway)

    first = await gateway.result(mutation, {**given, "idempotencyKey": "key"})

    assert first["__typename"].endswith("Payload")
    after = await stored(gateway)
    assert before != after
    again = [await gateway.result(mutation, {**given, "idempotencyKey": "key"}) for _ in range(2)]
    assert again == [first, first]
    assert await stored(gateway) == after
    await assert_typed(gateway.db)
    await refuse_other_inputs(gateway, mutation, other)
    assert await stored(gateway) == after
    assert await gateway.result(mutation, {**given, "idempotencyKey": "key"}) == first
    if mutation in KEPT_LONGER:
        clock.advance(seconds=24 * 3600)
    await gateway.db[OPERATIONS.name].delete_many({})
    if "nonce" in other and "product" in first:
        other["nonce"] = first["product"]["nonce"]
    anew = await gateway.result(mutation, {**other, "idempotencyKey": "key"})
    assert anew["__typename"].endswith("Payload")
    assert anew != first
    assert await stored(gateway) != after


async def refuse_other_inputs(gateway: GatewayClient, mutation: str, other: Given) -> None:
    """Asserts that the key of a call serves no other input of its mutation, and no other mutation."""
    stranger = "createCategory" if mutation != "createCategory" else "createProduct"
    new = category_input() if stranger == "createCategory" else product_input()
    for name, wrong in ((mutation, other), (stranger, new)):
        answer = await gateway.ask(MUTATIONS[name], {"input": {**wrong, "idempotencyKey": "key"}})
        assert (answer.body["data"], answer.codes) == ({name: None}, ["IDEMPOTENCY_KEY_REUSED"])


@pytest.mark.sample(3)
@pytest.mark.parametrize("mutation", CASES)
async def test_concurrent_calls_with_one_key_have_one_effect_and_one_answer(
    gateway: GatewayClient, mutation: str
) -> None:
    given, _ = await CASES[mutation](gateway)

    given["idempotencyKey"] = "key"
    results = await asyncio.gather(*(gateway.result(mutation, given) for _ in range(CALLS)))

    assert results[0]["__typename"].endswith("Payload")
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
    edit = {**id_and_nonce(first), "title": "Kind of Blue", "description": "by Miles Davis"}
    await gateway.result("updateProduct", edit)

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


@pytest.mark.sample(6)
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
    if mutation == "markNotificationsRead":
        given, other = [{"which": {"ids": await notify(gateway.db, owner, "somebody")}} for owner in ("one", "another")]
    for played, owner in ((given, "one"), (other, "another")):
        if "characterId" in played:
            character = {"_id": key_in("Character", played["characterId"])}
            await gateway.db["game.characters"].update_one(character, {"$set": {"owner": owner}})

    first = await gateway.result(mutation, {**given, "idempotencyKey": "key"}, token=one)
    second = await gateway.result(mutation, {**other, "idempotencyKey": "key"}, token=another)

    assert first["__typename"] == second["__typename"]
    assert first["__typename"].endswith("Payload")
    assert first != second


async def test_a_key_has_1_to_255_characters(gateway: GatewayClient) -> None:
    for key in ("", "k" * 256):
        answer = await gateway.ask(MUTATIONS["createCategory"], {"input": category_input(idempotencyKey=key)})
        named = {"code": "BAD_USER_INPUT", "argument": ["input", "idempotencyKey"]}
        assert answer.body["data"] == {"createCategory": None}
        assert [error["extensions"] for error in answer.body["errors"]] == [named]
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

        record = await only(gateway.db[OPERATIONS.name])
        indexes = await gateway.db[OPERATIONS.name].index_information()

    assert before + lasts <= record["expires_at"] <= clock.now() + lasts
    # The server deletes an expired record.
    assert indexes["expires_at_1"]["expireAfterSeconds"] == 0
