"""Calls with an idempotency key that stop half way or take long, and the calls that repeat them."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, BulkWriteError, PyMongoError, WriteConcernError, WriteError

from portico.resolvers.comments.discussions import DOCUMENTS
from portico.resolvers.writes.operation_records import OPERATIONS
from portico.schema.kinds import Kind
from tests.catalog.support.cases import id_and_nonce
from tests.comments.support.discussions import open_on_product, post
from tests.content.support.site import create_page
from tests.support.documents import only
from tests.support.harness import (
    MUTATIONS,
    Answer,
    GatewayClient,
    SettableClock,
    assert_invariants,
    category_input,
    create_category,
    create_product,
    new_key,
    product_input,
)
from tests.support.interruptions import before_every_command, crashing, database_of, interrupted
from tests.support.moments import moments
from tests.support.pausing import Pause

Given = dict[str, Any]


async def stop_at_the_end(gateway: GatewayClient, mutation: str, given: Given) -> None:
    """Interrupt a call before it stores its answer. A creation has already recorded that its object exists, and a move
    the former parent.
    """
    has_noted = mutation.startswith(("create", "move"))
    gate = interrupted(gateway.db, "operations", "update_one", lose_connection, skip=has_noted)
    with database_of(gateway, gate):
        answer = await gateway.ask(MUTATIONS[mutation], {"input": given})
    assert answer.codes == ["UNAVAILABLE"]


async def lose_connection() -> None:
    raise AutoReconnect("the connection is gone")


@pytest.mark.parametrize("mutation", ["renameCategory", "moveCategory", "updateProduct"])
async def test_repeating_an_interrupted_write_does_not_undo_later_writes(gateway: GatewayClient, mutation: str) -> None:
    one, place = await create_category(gateway), await create_category(gateway, slug="place")
    product = await create_product(gateway)
    mine, theirs = {
        "renameCategory": ({"id": one["id"], "name": "Mine"}, {"id": one["id"], "name": "Theirs"}),
        "moveCategory": ({"id": one["id"], "newParentId": place["id"]}, {"id": one["id"]}),
        "updateProduct": ({**id_and_nonce(product), "title": "Mine"}, {"id": product["id"], "title": "Theirs"}),
    }[mutation]
    mine["idempotencyKey"] = "key"
    await stop_at_the_end(gateway, mutation, mine)
    if mutation == "updateProduct":
        theirs["nonce"] = (await gateway.data("{ products { nodes { nonce } } }"))["products"]["nodes"][0]["nonce"]
    then = await gateway.result(mutation, theirs)
    gateway.clock.advance(seconds=31)

    again = await gateway.result(mutation, mine)

    assert again == then
    assert then["__typename"] in {"CategoryPayload", "ProductPayload"}


@pytest.mark.parametrize("mutation", ["createCategory", "createProduct"])
async def test_an_interrupted_creation_is_remembered_after_its_parent_is_deleted(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    place = await create_category(gateway)
    is_category = mutation == "createCategory"
    given = category_input(parentId=place["id"]) if is_category else product_input(categoryIds=[place["id"]])
    given["idempotencyKey"] = "key"
    await stop_at_the_end(gateway, mutation, given)
    if is_category:
        created = await only(gateway.db["categories"], {"slug": given["slug"]})
        await gateway.result("moveCategory", {"id": Kind.encode_id("Category", created["_id"])})
    else:
        created = await only(gateway.db["products"])
        edit = {"id": Kind.encode_id("Product", given["sku"]), "nonce": created["nonce"], "categoryIds": []}
        await gateway.result("updateProduct", edit)
    assert (await gateway.result("deleteCategory", {"id": place["id"]}))["__typename"] == "DeletedPayload"
    clock.advance(seconds=31)

    again = await gateway.result(mutation, given)

    assert again["__typename"] == ("CategoryPayload" if is_category else "ProductPayload")
    await assert_invariants(gateway)


@pytest.mark.parametrize("mutation", ["createCategory", "createProduct"])
async def test_repeating_an_interrupted_creation_does_not_recreate_a_deleted_object(
    gateway: GatewayClient, clock: SettableClock, mutation: str
) -> None:
    given = {**(category_input() if mutation == "createCategory" else product_input()), "idempotencyKey": "key"}
    await stop_at_the_end(gateway, mutation, given)
    collection = gateway.db["categories" if mutation == "createCategory" else "products"]
    created = await only(collection)
    if mutation == "createCategory":
        deleted = await gateway.result("deleteCategory", {"id": Kind.encode_id("Category", created["_id"])})
    else:
        nonce = created["nonce"]
        deleted = await gateway.result("deleteProduct", {"id": Kind.encode_id("Product", given["sku"]), "nonce": nonce})
    clock.advance(seconds=31)

    again = await gateway.result(mutation, given)

    message = f"There is no such {mutation.removeprefix('create').lower()}."
    assert again == {"__typename": "NotFound", "message": message, "missingId": deleted["deletedId"]}
    assert await collection.count_documents({}) == 0


async def test_a_call_waits_for_a_concurrent_call_with_its_key_and_gets_the_same_answer(gateway: GatewayClient) -> None:
    given = category_input(idempotencyKey="key")
    pause = Pause()
    with database_of(gateway, interrupted(gateway.db, "categories", "insert_one", pause)):
        first = asyncio.create_task(gateway.result("createCategory", given))
        await asyncio.wait_for(pause.reached.wait(), 30)
    second = asyncio.create_task(gateway.result("createCategory", given))
    other = await gateway.ask(MUTATIONS["createCategory"], {"input": {**given, "name": "Other"}})
    await asyncio.sleep(0.2)

    # A call with another input does not wait.
    assert other.codes == ["IDEMPOTENCY_KEY_REUSED"]
    assert not second.done()
    assert await gateway.db["categories"].count_documents({}) == 0
    pause.go_on.set()
    assert await first == await second
    assert (await first)["__typename"] == "CategoryPayload"


async def test_a_call_that_failed_with_a_fault_can_be_repeated_at_once(gateway: GatewayClient) -> None:
    given = category_input(idempotencyKey="key")

    with database_of(gateway, interrupted(gateway.db, "categories", "insert_one", lose_connection)):
        failed = await gateway.ask(MUTATIONS["createCategory"], {"input": given})
    async with asyncio.timeout(5):
        again = await gateway.result("createCategory", given)

    assert (failed.body["data"], failed.codes) == ({"createCategory": None}, ["UNAVAILABLE"])
    assert again["__typename"] == "CategoryPayload"


async def test_a_call_takes_over_from_a_dead_call_when_its_lease_expires(gateway: GatewayClient) -> None:
    given = category_input(idempotencyKey="key")
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["createCategory"], {"input": given})
    left = (await only(gateway.db["operations"]))["lease_until"] - gateway.clock.now()
    gateway.clock.advance(seconds=left.total_seconds() - 1)
    loop = asyncio.get_running_loop()

    began = loop.time()
    again = await gateway.result("createCategory", given)

    assert again["__typename"] == "CategoryPayload"
    assert 0.3 < loop.time() - began < 10


async def test_a_stalled_call_returns_the_answer_of_the_call_that_took_over(gateway: GatewayClient) -> None:
    category = await create_category(gateway)
    given = {"id": category["id"], "idempotencyKey": "key"}
    pause = Pause()
    with database_of(gateway, interrupted(gateway.db, "categories", "find_one_and_update", pause)):
        sleeper = asyncio.create_task(gateway.result("deleteCategory", given))
        await asyncio.wait_for(pause.reached.wait(), 30)
    gateway.clock.advance(seconds=31)
    second = await gateway.result("deleteCategory", given)
    pause.go_on.set()

    assert second == {"__typename": "DeletedPayload", "deletedId": category["id"]}
    assert await sleeper == second
    assert await gateway.db[OPERATIONS.name].count_documents({"state": "done"}) == 1


@pytest.mark.parametrize("skip", [3, 6, 7])
async def test_a_stalled_call_does_not_refuse_what_another_call_carries_out(gateway: GatewayClient, skip: int) -> None:
    comment = await post(gateway, await open_on_product(gateway, DOCUMENTS))
    given = {"id": comment["id"], "idempotencyKey": "key"}
    text = MUTATIONS["deleteComment"]
    pause = Pause()
    with database_of(gateway, interrupted(gateway.db, None, None, pause, skip=skip)):
        sleeper = asyncio.create_task(gateway.ask(text, {"input": given}))
        await asyncio.wait({asyncio.create_task(pause.reached.wait()), sleeper}, return_when=asyncio.FIRST_COMPLETED)
    gateway.clock.advance(seconds=31)

    async def wake_the_sleeper() -> None:
        # The second call has deleted the comment, and is about to store its answer.
        if await gateway.db["comments"].find_one({"gone": None}) is None:
            pause.go_on.set()
            await asyncio.wait({sleeper})

    with database_of(
        gateway, before_every_command(gateway.db, wake_the_sleeper, collection="operations", method="update_one")
    ):
        second = await gateway.result("deleteComment", given)
    pause.go_on.set()

    assert second["__typename"] == "CommentPayload"
    assert await gateway.result("deleteComment", given) == second
    slept = await sleeper
    assert slept.codes == ["OPERATION_UNDER_WAY"] or slept.data["deleteComment"] == second


@pytest.mark.parametrize(
    ("mutation", "collection", "method"),
    [
        ("createCategory", "categories", "insert_one"),
        ("deleteCategory", "categories", "find_one_and_update"),
        ("createProduct", "products", "insert_one"),
        ("deleteProduct", "products", "find_one_and_update"),
        ("deleteContent", "intents", "update_one"),
    ],
)
async def test_a_repeated_call_is_not_refused_for_what_the_first_one_does_meanwhile(
    gateway: GatewayClient, mutation: str, collection: str, method: str
) -> None:
    """The first call sleeps for longer than its lease, goes on before a command of the second one, and then crashes."""
    create = {"createCategory": category_input, "createProduct": product_input}
    for moment in moments(itertools.count(1)):
        given: Given = {"idempotencyKey": new_key()}
        if mutation in create:
            given |= create[mutation]()
        elif mutation == "deleteProduct":
            given |= id_and_nonce(await create_product(gateway))
        elif mutation == "deleteContent":
            given |= id_and_nonce(await create_page(gateway))
        else:
            given["id"] = (await create_category(gateway))["id"]
        pause = Pause()
        crashing_last = interrupted(gateway.db, "operations", "update_one", lose_connection, skip=1)
        with database_of(gateway, interrupted(crashing_last, collection, method, pause)):
            sleeper = asyncio.create_task(gateway.ask(MUTATIONS[mutation], {"input": given}))
            await asyncio.wait_for(pause.reached.wait(), 30)
        gateway.clock.advance(seconds=31)

        async def wake_the_sleeper(pause: Pause = pause, sleeper: asyncio.Task[Answer] = sleeper) -> Answer:
            pause.go_on.set()
            return await sleeper

        with moment.during(gateway, wake_the_sleeper):
            second = await gateway.result(mutation, given)
        await wake_the_sleeper()

        assert second["__typename"].endswith("Payload"), (moment.place, second)
        assert await gateway.result(mutation, given) == second
    await gateway.run_jobs(seconds=31)
    await assert_invariants(gateway)


async def test_a_call_that_succeeds_after_another_one_was_refused_is_remembered(gateway: GatewayClient) -> None:
    other = await create_category(gateway, slug="taken")
    given, pause = category_input(slug="taken", idempotencyKey="key"), Pause()
    with database_of(gateway, interrupted(gateway.db, "categories", "insert_one", pause)):
        sleeper = asyncio.create_task(gateway.result("createCategory", given))
        await asyncio.wait_for(pause.reached.wait(), 30)
    gateway.clock.advance(seconds=31)
    refused = await gateway.result("createCategory", given)
    await gateway.payload("deleteCategory", {"id": other["id"]})
    pause.go_on.set()

    assert (refused["__typename"], (await sleeper)["__typename"]) == ("SlugTaken", "CategoryPayload")
    assert await gateway.result("createCategory", given) == await sleeper


async def test_a_creation_that_crashed_can_be_retried_after_its_category_is_deleted(gateway: GatewayClient) -> None:
    place = await create_category(gateway)
    given = product_input(categoryIds=[place["id"]], idempotencyKey="key")
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["createProduct"], {"input": given})
    assert (await gateway.result("deleteCategory", {"id": place["id"]}))["__typename"] == "DeletedPayload"
    await gateway.run_jobs(seconds=31)

    result = await gateway.result("createProduct", given)

    assert result == {"__typename": "NotFound", "message": "There is no such category.", "missingId": place["id"]}
    assert await gateway.db["products"].count_documents({}) == 0
    await assert_invariants(gateway)


LOST_ROLE = {"code": 189, "errmsg": "Not primary while writing to portico.categories"}


@pytest.mark.parametrize(
    "error",
    [
        WriteError("Not primary while writing to portico.categories", 189, LOST_ROLE),
        BulkWriteError({"writeErrors": [{"index": 0, **LOST_ROLE}], "writeConcernErrors": []}),
        WriteConcernError("Replication is being shut down", 91, {"code": 91}),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_a_write_in_which_the_server_loses_its_primary_role_can_be_repeated(
    gateway: GatewayClient, error: PyMongoError
) -> None:
    one = await create_category(gateway)
    given = {"id": one["id"], "name": "New", "idempotencyKey": "key"}

    async def lose_role() -> None:
        raise error

    with database_of(gateway, interrupted(gateway.db, "categories", "update_one", lose_role)):
        lost = await gateway.ask(MUTATIONS["renameCategory"], {"input": given})
        done = await gateway.result("renameCategory", given)

    assert (lost.codes, done["category"]["name"]) == (["UNAVAILABLE"], "New")
