"""A damaged document fails alone: each job goes on with the healthy documents, and the log names the damaged one."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Awaitable, Callable
from typing import Any

import bson
import pytest
from bson import ObjectId
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from pymongo.errors import BulkWriteError, ExecutionTimeout, WTimeoutError
from rich.console import Console
from structlog.testing import capture_logs

from portico.gateway.cli.data import check_invariants
from portico.gateway.work.jobs import Worker
from portico.resolvers.catalog import vocabulary
from portico.resolvers.documents import Document
from portico.resolvers.shop import cart_jobs
from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.sweeps import SweepFailed
from portico.testing.kits import merged
from tests.catalog.support.catalog import document
from tests.catalog.support.leftovers import moving_category
from tests.comments.support.leftovers import posted_comment
from tests.content.support.leftovers import replaced_photo
from tests.shop.support.leftovers import expiring_cart, move_in_cart, move_in_stock
from tests.shop.support.shop import new_cart, stock_up
from tests.support.damage import WRONG, damage_in_front
from tests.support.documents import only
from tests.support.domains import JOBS
from tests.support.harness import GatewayClient, SettableClock, create_category, create_product
from tests.support.ids import key_in
from tests.support.interruptions import before_every_command, database_of
from tests.support.kits import kits
from tests.support.leftovers import LONG_AGO, OP, Left, set_values

Given = dict[str, Any]
LEFTOVERS = merged([kit.leftovers for kit in kits().values()])
# What this job stores elsewhere shows which documents it has read. They stay as they are.
COLLECTING = "collect-words"
CASES = [
    pytest.param(job, leave, id=f"{job}: {leave.__name__}") for job, leaves in LEFTOVERS.items() for leave in leaves
]


async def turn_of(gateway: GatewayClient, name: str) -> None:
    with contextlib.suppress(SweepFailed):
        await gateway.run_jobs(name)


async def damaged_move(gateway: GatewayClient) -> Any:
    """Damages one of the categories that old crashes left while they moved. Returns its key."""
    key = (await gateway.db["categories"].distinct("_id", {"moving.op": OP}))[0]
    await set_values(gateway, "categories", key, moving={"at": LONG_AGO})
    return key


def undecodable(document: Document) -> Any:
    """Returns the document with bytes that are no text in place of the end of `Undecodable`."""
    return RawBSONDocument(bson.encode(document).replace(b"Undecodable", b"Undecodabl\xff"))


async def checked(gateway: GatewayClient, *, repair: bool) -> tuple[int, str]:
    """Checks the invariants as `portico doctor` does. Returns how many problems are left, and what it prints."""
    printed = io.StringIO()
    left = await check_invariants(gateway.settings, Console(file=printed, width=200), repair=repair)
    return left, printed.getvalue()


def test_every_job_has_a_case_with_damaged_documents() -> None:
    assert sorted([*LEFTOVERS, COLLECTING]) == sorted(job.name for job in JOBS)


@pytest.mark.sample(6)
@pytest.mark.parametrize(("job", "leave"), CASES)
async def test_a_job_settles_healthy_documents_behind_damaged_ones(
    gateway: GatewayClient, job: str, leave: Callable[[GatewayClient], Awaitable[Left]]
) -> None:
    collection, query = await leave(gateway)
    healthy = await only(gateway.db[collection], query)
    assert await damage_in_front(gateway.db, collection, healthy) > 15

    # One run of these jobs handles a limited number of documents.
    for _ in range(10 if job in {"finish-checkouts", "upgrade-documents"} else 1):
        await turn_of(gateway, job)

    assert await gateway.db[collection].find_one({"_id": healthy["_id"], **query}) is None


@pytest.mark.sample(2)
@pytest.mark.parametrize("collection", ["products", "categories"])
@pytest.mark.parametrize("at_once", [3, 500])
async def test_the_words_of_healthy_documents_behind_damaged_ones_are_collected(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, collection: str, at_once: int
) -> None:
    monkeypatch.setattr(vocabulary, "AT_ONCE", at_once)
    category = await create_category(gateway, name="Zydeco")
    await create_product(gateway, title="Bluegrass", categoryIds=[category["id"]])
    healthy = await only(gateway.db[collection])
    await _damage_words(gateway, collection, healthy)
    for name in ("catalog_words", "catalog_word_walks"):
        await gateway.db[name].delete_many({})

    for _ in range(20):
        await turn_of(gateway, "upgrade-documents")
        await turn_of(gateway, COLLECTING)

    assert {"zydeco", "bluegrass"} <= set(await gateway.db["catalog_words"].distinct("_id"))
    assert await gateway.db["catalog_word_walks"].distinct("_id", {"is_done": True}) == ["categories", "products"]


async def _damage_words(gateway: GatewayClient, collection: str, healthy: Document) -> None:
    """Inserts damaged copies before a healthy document: every list of words is damaged in some of them."""
    assert await damage_in_front(gateway.db, collection, healthy) > 15
    field = {"products": "keywords", "categories": "words"}[collection]
    copied = [one["_id"] async for one in gateway.db[collection].find({"_id": {"$ne": healthy["_id"]}}, {"_id": 1})]
    for key, wrong in zip(copied, [*WRONG, *([one] for one in WRONG)], strict=False):
        await set_values(gateway, collection, key, **{field: wrong})
    other = {**healthy, "_id": ObjectId("00" * 12), "sku": "other", "slug": "other", field: ["Undecodable"]}
    await gateway.db[collection].insert_one(undecodable(other))


async def test_a_job_logs_damaged_documents_and_counts_the_others(gateway: GatewayClient, clock: SettableClock) -> None:
    await moving_category(gateway)
    await moving_category(gateway)
    await damaged_move(gateway)
    (job,) = [job for job in JOBS if job.name == "finish-categories"]
    worker = Worker(gateway.db, clock, 0.01, gateway.state.resources, [job])

    with capture_logs() as log:
        done = await worker.run_once()

    (failed,) = log
    assert (failed["event"], failed["job"], failed["log_level"]) == ("job failed", "finish-categories", "error")
    assert done == 1


async def test_an_error_names_the_document_that_causes_it(gateway: GatewayClient) -> None:
    await moving_category(gateway)
    key = await damaged_move(gateway)

    with pytest.raises(SweepFailed) as failed:
        await gateway.run_jobs("finish-categories")

    (error,) = failed.value.exceptions
    assert isinstance(error, KeyError)
    assert error.__notes__ == [f"In categories: {key!r}"]


async def test_errors_in_a_list_name_its_document_and_are_all_counted(gateway: GatewayClient) -> None:
    collection, _ = await move_in_stock(gateway)
    stock = await only(gateway.db[collection])
    await set_values(gateway, collection, stock["_id"], under_way=[{"at": LONG_AGO}] * 25)

    with pytest.raises(SweepFailed, match="25 could not be finished") as failed:
        await gateway.run_jobs("finish-stock")

    assert [error.__notes__ for error in failed.value.exceptions] == [[f"In stock: {stock['_id']!r}"]] * 20


async def test_more_damaged_carts_than_a_batch_do_not_stop_the_healthy_ones(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cart_jobs, "BATCH", 3)
    sku = await stock_up(gateway)
    _, query = await expiring_cart(gateway)
    healthy = await only(gateway.db["carts"], query)
    await gateway.db["carts"].delete_one({"_id": healthy["_id"]})
    damaged = [{**healthy, "_id": f"damaged-{number}", "items": None} for number in range(10)]
    healthy_ones = [{**healthy, "_id": f"healthy-{number}"} for number in range(4)]
    await gateway.db["carts"].insert_many([*damaged, *healthy_ones])
    idle = key_in("Cart", await new_cart(gateway, **{sku: 1}))
    await set_values(gateway, "carts", idle, expires_at=LONG_AGO)

    done = []
    for _ in range(2):
        with pytest.raises(SweepFailed) as failed:
            await gateway.run_jobs("expire-carts")
        done.append(failed.value.done)

    # Another part of the job expires the idle cart.
    assert done == [3 + 1, 1]
    assert await gateway.db["carts"].count_documents({"status": "EXPIRING"}) == len(damaged)


TIMEOUTS = [
    ExecutionTimeout("operation exceeded time limit", 50),
    WTimeoutError("waiting for replication timed out", 64),
    BulkWriteError({"writeErrors": [], "writeConcernErrors": [{"code": 64, "errInfo": {"wtimeout": True}}]}),
]


@pytest.mark.parametrize("error", TIMEOUTS, ids=lambda error: type(error).__name__)
async def test_a_database_timeout_ends_a_run_at_its_first_document(gateway: GatewayClient, error: Exception) -> None:
    for _ in range(3):
        await expiring_cart(gateway)
    tries = 0

    async def time_out() -> None:
        nonlocal tries
        tries += 1
        raise error

    stalled = before_every_command(gateway.db, time_out, collection="carts", method="find_one")
    with database_of(gateway, stalled), pytest.raises(type(error)) as raised:
        await gateway.run_jobs("expire-carts")

    assert raised.value is error
    assert tries == 1


@pytest.mark.sample(4)
@pytest.mark.parametrize("wrong", [None, {}, {"at": "then"}, {"at": LONG_AGO}], ids=repr)
@pytest.mark.parametrize("leave", [move_in_stock, move_in_cart, posted_comment, replaced_photo])
async def test_a_damaged_entry_of_a_list_does_not_stop_the_other_entries(
    gateway: GatewayClient, leave: Callable[[GatewayClient], Awaitable[Left]], wrong: object
) -> None:
    collection, query = await leave(gateway)
    (path,) = [path.rpartition(".")[0] for path in query]
    whole = await only(gateway.db[collection], query)
    entries = {"$each": [wrong], "$position": 0}
    await gateway.db[collection].update_one({"_id": whole["_id"]}, {"$push": {path: entries}})

    for job in ("finish-stock", "finish-comments", "finish-uploads"):
        await turn_of(gateway, job)

    left: Any = await gateway.db[collection].find_one({"_id": whole["_id"]})
    for step in path.split("."):
        left = left[step]
    assert left == [wrong]


async def test_a_damaged_category_does_not_stop_its_siblings_from_getting_their_new_ancestors(
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
        await gateway.run_jobs("finish-categories")

    assert renamed["category"]["name"] == "New"
    found = {
        one["_id"]: one["ancestors"][0]["name"] async for one in gateway.db["categories"].find({"_id": {"$in": keys}})
    }
    assert [found[key] for key in keys] == ["New", "New", "New", "Old", "New", "New"]


async def test_a_rename_above_a_damaged_category_is_retried_after_ten_minutes(gateway: GatewayClient) -> None:
    root = await create_category(gateway, name="Old")
    child = await create_category(gateway, parentId=root["id"])
    below = await create_category(gateway, parentId=child["id"])
    categories, key = gateway.db["categories"], key_in("Category", child["id"])
    await categories.update_one({"_id": key}, {"$unset": {"name": ""}})
    await gateway.result("renameCategory", {"id": root["id"], "name": "New"})
    gateway.clock.advance(seconds=6)
    with pytest.raises(SweepFailed):
        await gateway.run_jobs("finish-categories")

    assert await gateway.run_jobs("finish-categories", minutes=9) == 0
    gateway.clock.advance(minutes=2)
    with pytest.raises(SweepFailed):
        await gateway.run_jobs("finish-categories")
    await set_values(gateway, "categories", key, name="Child")
    assert await gateway.run_jobs("finish-categories", minutes=11) == 1
    found = await only(categories, {"_id": key_in("Category", below["id"])})
    assert [step["name"] for step in found["ancestors"]] == ["New", "Child"]
    assert await categories.find_one({"refresh.0": {"$exists": True}}) is None


async def test_a_damaged_product_of_an_import_does_not_stop_the_others(gateway: GatewayClient) -> None:
    """The job removes each announced product that has no category."""
    category = await create_category(gateway)
    keys = ["announced-0", "announced-1"]
    kept, gone = [await gateway.db["products"].insert_one(_announced(sku, category)) for sku in keys]
    await set_values(gateway, "products", kept.inserted_id, category_ids=7)
    await gateway.db["intents"].insert_one({"_id": OP, "kind": "product-creation", "keys": keys, "at": LONG_AGO})
    await gateway.db["categories"].delete_many({})

    await turn_of(gateway, "finish-products")

    assert await gateway.db["products"].distinct("_id") == [kept.inserted_id]
    assert gone.inserted_id != kept.inserted_id


def _announced(sku: str, category: Given) -> Document:
    ids = [key_in("Category", category["id"])]
    return document(sku=sku) | {"_id": derived_id(OP, sku), "category_ids": ids}


async def test_doctor_goes_on_after_a_date_that_python_cannot_represent(gateway: GatewayClient) -> None:
    unrepresentable = document(sku="undecodable") | {"details": {"issue_date": DatetimeMS(-(10**15))}}
    await gateway.db["products"].insert_many([unrepresentable, document(sku="out-of-date") | {"terms": []}])

    left, printed = await checked(gateway, repair=False)

    assert left == 1
    assert "product out-of-date: its search terms are out of date" in printed


async def test_doctor_does_not_copy_text_that_cannot_be_decoded(gateway: GatewayClient) -> None:
    parent = await create_category(gateway, name="Undecodable")
    below = await create_category(gateway, parentId=parent["id"])
    categories = gateway.db["categories"]
    await categories.insert_one(undecodable(await categories.find_one_and_delete({"slug": parent["slug"]}) or {}))
    await categories.update_one({"slug": below["slug"]}, {"$set": {"ancestors": []}})

    left, printed = await checked(gateway, repair=True)

    assert left == 1
    assert f"category {below['slug']}: its ancestors are out of date" in printed
    assert (await only(categories, {"slug": below["slug"]}))["ancestors"] == []
