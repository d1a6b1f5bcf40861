"""A damaged document fails alone: every job goes on with the healthy ones, and the log names the damaged one."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from bson import ObjectId
from structlog.testing import capture_logs

from gateway.jobs import JOBS, Turn, Worker
from resolvers import cart_jobs, operations
from resolvers.documents import Document
from resolvers.sweeps import SweepFailed
from schema.nodes import key_in

from .accounts import open_account, transfer_input
from .catalog import document
from .damage import damage_in_front
from .discussions import open_on_product, post
from .harness import GatewayClient, SettableClock, create_category, create_product, run_jobs
from .interruptions import crashing
from .photos import PicturesHere, create_gallery, create_photo
from .shop import checkout_input, new_cart, stock_up
from .site import create_page, create_section
from .test_upgrades import album

Given = dict[str, Any]
OP = "r-0123456789abcdef0123456789abcdef"
LONG_AGO = datetime(2020, 1, 1)  # noqa: DTZ001 - as the driver gives it
# Where something was left, and the filter that only what was left matches.
Left = tuple[str, Document]


async def _changed(gateway: GatewayClient, collection: str, key: Any, **values: Any) -> None:
    updated = await gateway.db[collection].update_one({"_id": key}, {"$set": values})
    assert updated.matched_count == 1


async def _category(gateway: GatewayClient, mark: str, **values: Any) -> Left:
    parent = await create_category(gateway)
    child = await create_category(gateway, parentId=parent["id"])
    left: Any = {"op": OP, "at": LONG_AGO, **values}
    await _changed(
        gateway, "categories", key_in("Category", child["id"]), **{mark: [left] if mark == "refresh" else left}
    )
    return "categories", {f"{mark}.op": OP}


async def pending_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "pending")


async def moving_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "moving", to=None)


async def deleting_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "deleting")


async def renamed_category(gateway: GatewayClient) -> Left:
    return await _category(gateway, "refresh")


async def product_intent(gateway: GatewayClient) -> Left:
    category = await create_category(gateway)
    made = await create_product(gateway, categoryIds=[category["id"]])
    intent = {"_id": OP, "kind": "product-creation", "keys": [made["sku"]], "at": LONG_AGO}
    await gateway.db["intents"].insert_one(intent)
    return "intents", {"kind": "product-creation"}


async def incoming_product(gateway: GatewayClient) -> Left:
    category, made = await create_category(gateway), await create_product(gateway)
    incoming = {"op": OP, "at": LONG_AGO, "ids": [key_in("Category", category["id"])]}
    await gateway.db["products"].update_one({"sku": made["sku"]}, {"$set": {"incoming": [incoming]}})
    return "products", {"incoming.op": OP}


async def deleting_product(gateway: GatewayClient) -> Left:
    made = await create_product(gateway)
    mark = {"id": OP, "op": OP, "at": LONG_AGO}
    await gateway.db["products"].update_one({"sku": made["sku"]}, {"$set": {"deleting": mark}})
    return "products", {"deleting.op": OP}


async def pending_content(gateway: GatewayClient) -> Left:
    folder = await create_section(gateway)
    made = await create_page(gateway, parentId=folder["id"])
    await _changed(gateway, "cms.nodes", key_in("ContentNode", made["id"]), pending={"op": OP, "at": LONG_AGO})
    return "cms.nodes", {"pending.op": OP}


async def deleting_content(gateway: GatewayClient) -> Left:
    made = await create_section(gateway)
    await _changed(gateway, "cms.nodes", key_in("ContentNode", made["id"]), deleting={"op": OP, "at": LONG_AGO})
    return "cms.nodes", {"deleting.op": OP}


async def unrevised_content(gateway: GatewayClient) -> Left:
    made = await create_page(gateway)
    mark = {"at": LONG_AGO, "author": {"id": "tester", "name": "Tester"}}
    await _changed(gateway, "cms.nodes", key_in("ContentNode", made["id"]), unrevised=mark)
    return "cms.nodes", {"unrevised.at": LONG_AGO}


async def content_intent(gateway: GatewayClient) -> Left:
    intent = {"_id": OP, "kind": "content-deletion", "keys": [str(ObjectId())], "at": LONG_AGO}
    await gateway.db["intents"].insert_one(intent)
    return "intents", {"kind": "content-deletion"}


async def _move(gateway: GatewayClient) -> tuple[str, str, Document]:
    sku = await stock_up(gateway)
    cart = key_in("Cart", await new_cart(gateway, **{sku: 1}))
    return (
        sku,
        cart,
        {
            "id": OP[2:],
            "op": OP,
            "sku": sku,
            "cart_id": cart,
            "kind": "return",
            "quantity": 1,
            "at": LONG_AGO,
        },
    )


async def move_in_stock(gateway: GatewayClient) -> Left:
    sku, _, move = await _move(gateway)
    await _changed(gateway, "stock", sku, under_way=[move])
    return "stock", {"under_way.op": OP}


async def move_in_cart(gateway: GatewayClient) -> Left:
    _, cart, move = await _move(gateway)
    await _changed(gateway, "carts", cart, decided=[{**move, "is_taken": True}])
    return "carts", {"decided.op": OP}


async def flipped_stock(gateway: GatewayClient) -> Left:
    await _changed(gateway, "stock", await stock_up(gateway), flipped_at=LONG_AGO)
    return "stock", {"flipped_at": LONG_AGO}


async def closed_stock(gateway: GatewayClient) -> Left:
    sku = await stock_up(gateway)
    closed = {"deletion": OP, "product_id": ObjectId(), "at": LONG_AGO, "is_final": False}
    await _changed(gateway, "stock", sku, closed=closed)
    return "stock", {"closed.is_final": False}


async def idle_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway, **{await stock_up(gateway): 1}))
    await _changed(gateway, "carts", cart, expires_at=LONG_AGO)
    return "carts", {"status": {"$in": ["ACTIVE", "EXPIRING"]}}


async def expiring_cart(gateway: GatewayClient) -> Left:
    cart = key_in("Cart", await new_cart(gateway, **{await stock_up(gateway): 1}))
    await _changed(gateway, "carts", cart, status="EXPIRING", expires_at=None, due=LONG_AGO)
    return "carts", {"status": "EXPIRING"}


async def pending_cart(gateway: GatewayClient) -> Left:
    account = await open_account(gateway.db, 5000)
    cart = await new_cart(gateway, **{await stock_up(gateway): 1})
    with crashing(gateway, 10):
        await gateway.ask(
            "mutation ($input: CheckoutInput!) { checkout(input: $input) { __typename } }",
            {"input": checkout_input(cart, payment={"accountId": account})},
        )
    await _changed(gateway, "carts", key_in("Cart", cart), due=LONG_AGO)
    return "carts", {"status": "PENDING"}


async def _transfer(gateway: GatewayClient, state: str) -> Left:
    source, destination = await open_account(gateway.db, 100), await open_account(gateway.db)
    given = transfer_input(source, destination)
    text = "mutation ($input: TransferInput!) { transfer(input: $input) { __typename } }"
    assert (await gateway.data(text, {"input": given}))["transfer"]["__typename"] == "TransferPayload"
    open_ = {"state": state, "open_since": LONG_AGO}
    await gateway.db["transfers"].update_one({"source": {"$ne": None}}, {"$set": open_})
    return "transfers", {"open_since": LONG_AGO}


async def new_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "NEW")


async def committed_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "COMMITTED")


async def rolled_back_transfer(gateway: GatewayClient) -> Left:
    return await _transfer(gateway, "ROLLBACK")


async def _discussion(gateway: GatewayClient, storage: str = "DOCUMENTS") -> ObjectId:
    discussion = await open_on_product(gateway, storage)
    await post(gateway, discussion)
    await post(gateway, discussion)
    found = await gateway.db["discussions"].find_one({"storage": storage})
    assert found is not None
    key: ObjectId = found["_id"]
    return key


async def closed_discussion(gateway: GatewayClient) -> Left:
    closed = {"of": ObjectId(), "by": OP, "is_final": True}
    await _changed(gateway, "discussions", await _discussion(gateway), closed=closed, closing_at=LONG_AGO)
    return "discussions", {"closing_at": LONG_AGO}


async def closing_discussion(gateway: GatewayClient) -> Left:
    closed = {"of": ObjectId(), "by": OP, "is_final": False}
    await _changed(gateway, "discussions", await _discussion(gateway), closed=closed, closing_at=LONG_AGO)
    return "discussions", {"closed.is_final": False}


async def _comment(gateway: GatewayClient, storage: str, by: int) -> Left:
    entry = {"id": ObjectId(), "attempt": OP, "by": by, "parent": None, "at": LONG_AGO}
    await _changed(gateway, "discussions", await _discussion(gateway, storage), under_way=[entry])
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
    await _changed(gateway, "comment_pages", page["_id"], split=split)
    return "comment_pages", {"split.since": LONG_AGO}


async def _photo(gateway: GatewayClient, **detail: Any) -> None:
    gateway.state.uploads = replace(gateway.state.uploads, pictures=PicturesHere())
    photo = await create_photo(gateway, await create_gallery(gateway))
    values = {f"detail.{name}": value for name, value in detail.items()}
    await _changed(gateway, "cms.nodes", key_in("ContentNode", photo["id"]), **values)


async def stalled_upload(gateway: GatewayClient) -> Left:
    await _photo(gateway, upload={"op": OP, "file": ObjectId(), "until": LONG_AGO}, locked=LONG_AGO)
    return "cms.nodes", {"detail.upload.op": OP}


async def replaced_photo(gateway: GatewayClient) -> Left:
    await _photo(gateway, replaced=[{"file": ObjectId(), "at": LONG_AGO}])
    return "cms.nodes", {"detail.replaced.at": LONG_AGO}


async def _file(gateway: GatewayClient, **metadata: Any) -> Left:
    file = {"_id": ObjectId(), "length": 0, "chunkSize": 10, "uploadDate": LONG_AGO, "metadata": metadata}
    await gateway.db["cms.assets.files"].insert_one(file)
    return "cms.assets.files", {name: value for name, value in (("metadata", metadata),) if value}


async def unsettled_file(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), unsettled=LONG_AGO)


async def unfinished_thumbnail(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), unsettled=LONG_AGO, of=ObjectId(), maker=OP, width=80)


async def removed_file(gateway: GatewayClient) -> Left:
    return await _file(gateway, node=ObjectId(), removed=LONG_AGO)


async def old_product(gateway: GatewayClient) -> Left:
    await gateway.db["products"].insert_one(album())
    return "products", {"schema_version": None}


LEFT: dict[str, tuple[Callable[[GatewayClient], Awaitable[Left]], ...]] = {
    "finish-categories": (pending_category, moving_category, deleting_category, renamed_category),
    "finish-products": (product_intent, incoming_product, deleting_product),
    "finish-content": (pending_content, deleting_content, unrevised_content, content_intent),
    "finish-stock": (move_in_stock, move_in_cart, flipped_stock, closed_stock),
    "expire-carts": (idle_cart, expiring_cart),
    "finish-checkouts": (pending_cart,),
    "finish-transfers": (new_transfer, committed_transfer, rolled_back_transfer),
    "finish-comments": (
        closed_discussion,
        closing_discussion,
        posted_comment,
        removed_comment,
        posted_comment_of_a_page,
        split_page,
    ),
    "finish-uploads": (stalled_upload, replaced_photo, unsettled_file, unfinished_thumbnail, removed_file),
    "upgrade-documents": (old_product,),
}
CASES = [pytest.param(job, leave, id=f"{job}: {leave.__name__}") for job, leaves in LEFT.items() for leave in leaves]


async def turn_of(gateway: GatewayClient, clock: SettableClock, name: str) -> None:
    (job,) = [job for job in JOBS if job.name == name]
    with contextlib.suppress(SweepFailed):
        await job.run(Turn(gateway.db, clock.now(), gateway.state.payments))


def test_every_job_is_tried_with_damaged_documents() -> None:
    assert list(LEFT) == [job.name for job in JOBS]


@pytest.mark.parametrize(("job", "leave"), CASES)
async def test_what_is_healthy_is_settled_behind_documents_that_are_damaged_in_any_way(
    gateway: GatewayClient, clock: SettableClock, job: str, leave: Callable[[GatewayClient], Awaitable[Left]]
) -> None:
    collection, query = await leave(gateway)
    (healthy,) = await gateway.db[collection].find(query).to_list()
    assert await damage_in_front(gateway.db, collection, healthy) > 20

    # These take so many a turn and no more.
    for _ in range(10 if job in {"finish-checkouts", "upgrade-documents"} else 1):
        await turn_of(gateway, clock, job)

    assert await gateway.db[collection].find_one({"_id": healthy["_id"], **query}) is None


async def test_what_a_damaged_document_is_the_cause_of_is_logged_and_the_rest_is_counted(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    await moving_category(gateway)
    await moving_category(gateway)
    damaged, _ = await gateway.db["categories"].find({"moving.op": OP}).to_list()
    await _changed(gateway, "categories", damaged["_id"], moving={"at": LONG_AGO})
    (job,) = [job for job in JOBS if job.name == "finish-categories"]
    worker = Worker(gateway.db, clock, 0.01, gateway.state.payments, jobs=[job])

    with capture_logs() as log:
        done = await worker.run_once()

    (failed,) = log
    assert (failed["event"], failed["job"], failed["log_level"]) == ("job failed", "finish-categories", "error")
    assert done == 1


async def test_an_error_names_the_document_that_is_its_cause(gateway: GatewayClient, clock: SettableClock) -> None:
    await moving_category(gateway)
    (damaged,) = await gateway.db["categories"].find({"moving.op": OP}).to_list()
    await _changed(gateway, "categories", damaged["_id"], moving={"at": LONG_AGO})

    with pytest.raises(SweepFailed) as failed:
        await run_jobs(gateway, clock, "finish-categories")

    (error,) = failed.value.exceptions
    assert isinstance(error, KeyError)
    assert error.__notes__ == [f"In categories: {damaged['_id']!r}"]


async def test_damaged_carts_that_would_fill_a_turn_leave_the_healthy_ones_their_turn(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cart_jobs, "BATCH", 3)
    sku = await stock_up(gateway)
    _, query = await expiring_cart(gateway)
    (healthy,) = await gateway.db["carts"].find(query).to_list()
    await gateway.db["carts"].delete_one({"_id": healthy["_id"]})
    damaged = [{**healthy, "_id": f"damaged-{number}", "items": None} for number in range(10)]
    healthy_ones = [{**healthy, "_id": f"healthy-{number}"} for number in range(4)]
    await gateway.db["carts"].insert_many([*damaged, *healthy_ones])
    idle = key_in("Cart", await new_cart(gateway, **{sku: 1}))
    await _changed(gateway, "carts", idle, expires_at=LONG_AGO)

    done = []
    for _ in range(2):
        with pytest.raises(SweepFailed) as failed:
            await run_jobs(gateway, clock, "expire-carts")
        done.append(failed.value.done)

    # The idle one is another part of the job.
    assert done == [3 + 1, 1]
    assert await gateway.db["carts"].count_documents({"status": "EXPIRING"}) == len(damaged)


@pytest.mark.parametrize("wrong", [None, {}, {"at": "then"}, {"at": LONG_AGO}], ids=repr)
@pytest.mark.parametrize("leave", [move_in_stock, move_in_cart, posted_comment, replaced_photo])
async def test_a_damaged_entry_of_a_list_leaves_the_others_of_its_document_their_turn(
    gateway: GatewayClient, clock: SettableClock, leave: Callable[[GatewayClient], Awaitable[Left]], wrong: object
) -> None:
    collection, query = await leave(gateway)
    (path,) = [path.rpartition(".")[0] for path in query]
    (whole,) = await gateway.db[collection].find(query).to_list()
    entries = {"$each": [wrong], "$position": 0}
    await gateway.db[collection].update_one({"_id": whole["_id"]}, {"$push": {path: entries}})

    for job in ("finish-stock", "finish-comments", "finish-uploads"):
        await turn_of(gateway, clock, job)

    left: Any = await gateway.db[collection].find_one({"_id": whole["_id"]})
    for step in path.split("."):
        left = left[step]
    assert left == [wrong]


async def test_a_damaged_category_leaves_its_siblings_their_new_ancestors(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    root = await create_category(gateway, name="Old")
    children = [await create_category(gateway, parentId=root["id"]) for _ in range(3)]
    below = [await create_category(gateway, parentId=child["id"]) for child in children]
    keys = [key_in("Category", one["id"]) for one in (*children, *below)]
    await gateway.db["categories"].update_one({"_id": keys[0]}, {"$unset": {"name": ""}})

    renamed = await gateway.result("renameCategory", {"id": root["id"], "name": "New"})
    clock.advance(seconds=6)
    with pytest.raises(SweepFailed):
        await run_jobs(gateway, clock, "finish-categories")

    assert renamed["category"]["name"] == "New"
    found = {
        one["_id"]: one["ancestors"][0]["name"] async for one in gateway.db["categories"].find({"_id": {"$in": keys}})
    }
    assert [found[key] for key in keys] == ["New", "New", "New", "Old", "New", "New"]


async def test_a_product_of_an_import_that_is_damaged_leaves_the_others_of_it_their_turn(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    """Of what an import announced, each product without its category is taken out again."""
    category = await create_category(gateway)
    kept, gone = [
        await gateway.db["products"].insert_one(_announced(f"announced-{number}", category)) for number in range(2)
    ]
    await _changed(gateway, "products", kept.inserted_id, category_ids=7)
    keys = ["announced-0", "announced-1"]
    await gateway.db["intents"].insert_one({"_id": OP, "kind": "product-creation", "keys": keys, "at": LONG_AGO})
    await gateway.db["categories"].delete_many({})

    await turn_of(gateway, clock, "finish-products")

    assert await gateway.db["products"].distinct("_id") == [kept.inserted_id]
    assert gone.inserted_id != kept.inserted_id


def _announced(sku: str, category: Given) -> Document:
    ids = [key_in("Category", category["id"])]
    return document(sku=sku) | {"_id": operations.derived_id(OP, sku), "category_ids": ids}
