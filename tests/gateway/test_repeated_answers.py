"""Repeated calls with an idempotency key: what they return for failures, and for objects that were deleted since."""

from __future__ import annotations

import pytest

from portico.testing.kits import merged, nothing
from tests.catalog.support.cases import id_and_nonce
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
