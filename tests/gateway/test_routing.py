"""A sharded cluster routes a command by the shard key in its filter. Few commands may go to all shards."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import orjson

from portico.gateway.clock import SystemClock
from portico.gateway.imports.runs import BadRecord, Import
from portico.resolvers.catalog.products import PRODUCTS
from portico.resolvers.declarations import Job
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import deposit_input, open_account, transfer_input
from tests.ads.support.leftovers import unused_image
from tests.catalog.support.catalog import add_categories, add_products, album, document, product
from tests.shop.support.leftovers import uncounted_order
from tests.support.domains import COLLECTIONS, IMPORTERS, INVARIANTS, JOBS, create_indexes, migrate
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
from tests.support.routing import SHARDED, unroutable

# What jobs, checks and upgrades send to all shards: they look for work, and read whole collections.
SCATTERED = {"find intents at kind", *(command for kit in kits().values() for command in kit.scattered)}


def test_filters_without_a_key_are_recognized() -> None:
    assert unroutable([{"find": "products", "filter": {"sku": "a", "x": 1}}]) == []
    assert unroutable([{"find": "products", "filter": {"$and": [{"sku": {"$in": ["a"]}}]}}]) == []
    assert unroutable([{"find": "products", "filter": {"sku": {"$gt": "a"}}}]) == ["find products sku"]
    assert unroutable([{"find": "products", "filter": {"_id": 1}}]) == ["find products _id"]
    assert unroutable([{"update": "operations", "updates": [{"q": {"_id": 1}}, {"q": {"state": 1}}]}]) == [
        "update operations state"
    ]
    assert unroutable([{"find": "categories", "filter": {}}]) == []


READS = {
    "by SKU": '{ a: product(sku: "p1") { title } b: product(sku: "p2") { title categories { name } } }',
    "by id": "query ($ids: [ID!]!) { nodes(ids: $ids) { id ... on Product { title } } }",
    "a list": "{ products { nodes { sku } } }",
    "counts": "{ products { totalCount facets { types { count } } } }",
    "a category": '{ category(slug: "music") { products { nodes { sku } } } }',
}


async def test_reads_by_key_are_routed_and_lists_and_counts_go_to_all_shards(gateway: GatewayClient) -> None:
    await add_categories(gateway.db, [{"slug": "music", "name": "Music"}])
    await add_products(gateway.db, [album(sku=f"p{number}", categories=["music"]) for number in range(3)])
    variables = {"ids": [Kind.encode_id("Product", "p0"), Kind.encode_id("Product", "none")]}
    sent = {}
    for name, text in READS.items():
        gateway.commands.clear()
        await gateway.data(text, variables if "$ids" in text else None)
        sent[name] = unroutable(gateway.commands.sent)

    assert sent == {
        "by SKU": [],
        "by id": [],
        "a list": ["find products terms"],
        "counts": ["find products terms", "aggregate products terms", "aggregate products terms"],
        "a category": ["find products terms"],
    }


async def test_mutations_are_routed_except_for_the_check_whether_a_category_is_used(gateway: GatewayClient) -> None:
    root, other = await create_category(gateway), await create_category(gateway)
    made = await create_product(gateway)
    gone = await create_product(gateway, categoryIds=[root["id"]])
    child = await create_category(gateway, parentId=root["id"])
    writes: list[tuple[str, dict[str, Any]]] = [
        ("createCategory", category_input(parentId=root["id"], idempotencyKey="one")),
        ("renameCategory", {"id": root["id"], "name": "Other", "idempotencyKey": "two"}),
        ("moveCategory", {"id": child["id"], "newParentId": other["id"], "idempotencyKey": "three"}),
        ("deleteCategory", {"id": child["id"], "idempotencyKey": "four"}),
        ("createProduct", product_input(categoryIds=[root["id"]], idempotencyKey="five")),
        ("createProduct", product_input(sku=made["sku"], categoryIds=[root["id"]])),
        ("updateProduct", {"id": made["id"], "nonce": made["nonce"], "categoryIds": [root["id"]]}),
        ("updateProduct", {"id": made["id"], "nonce": made["nonce"], "title": "Too late", "idempotencyKey": "six"}),
        ("deleteProduct", {"id": gone["id"], "nonce": gone["nonce"], "idempotencyKey": "seven"}),
    ]
    for mutation, given in writes:
        for _ in range(2 if "idempotencyKey" in given else 1):
            gateway.commands.clear()
            await gateway.result(mutation, given)
            allowed = ["find products $or"] if mutation == "deleteCategory" else []

            assert unroutable(gateway.commands.sent) in ([], allowed), mutation


async def test_transfers_are_routed_by_the_ids_of_accounts_and_transfers(gateway: GatewayClient) -> None:
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db, owner="another")
    writes: dict[str, tuple[str, dict[str, Any], list[str]]] = {
        "opening": ("openAccount", {"name": "Savings", "idempotencyKey": "one"}, ["aggregate accounts owner"]),
        "a deposit": ("deposit", deposit_input(mine), []),
        "a transfer": ("transfer", transfer_input(mine, theirs), []),
        "one of too much": ("transfer", transfer_input(mine, theirs, 1_000), []),
    }
    for name, (mutation, given, allowed) in writes.items():
        for expected in (allowed, []):
            gateway.commands.clear()
            await gateway.result(mutation, given)
            assert unroutable(gateway.commands.sent) == expected, name

    made = (await gateway.result("transfer", transfer_input(mine, theirs)))["transfer"]["id"]
    gateway.commands.clear()
    await gateway.data(READS["by id"], {"ids": [mine, theirs, made]})
    assert unroutable(gateway.commands.sent) == []
    await gateway.data("{ viewer { accounts { name } } }")
    assert unroutable(gateway.commands.sent) == ["find accounts owner"]


async def test_imports_are_routed(gateway: GatewayClient, tmp_path: Path) -> None:
    await add_categories(gateway.db, [{"slug": "music", "name": "Music"}, {"slug": "jazz", "name": "Jazz"}])
    file = tmp_path / "products.jsonl"
    for categories in (["music"], ["music", "jazz"], []):
        given = [product(sku=f"s{number}", title=f"{categories}", categories=categories) for number in range(3)]
        file.write_bytes(b"\n".join(orjson.dumps(one) for one in given))
        gateway.commands.clear()

        bad: list[BadRecord] = []
        work = Import(gateway.db, IMPORTERS["products"], SystemClock(), bad.append, lambda _: None)
        done = await work.run([file])

        assert (done.counts.total(), bad) == (3, [])
        assert unroutable(gateway.commands.sent) == []


async def test_an_old_document_is_read_and_upgraded_by_its_key(gateway: GatewayClient) -> None:
    old = {**document(sku="old"), "schema_version": 1}
    for text in ('{ product(sku: "old") { title } }', '{ product(sku: "old") { title details: nonce } }'):
        await gateway.db["products"].replace_one({"sku": "old"}, old, upsert=True)
        gateway.commands.clear()
        await gateway.data(text)

        assert gateway.commands.names() == ["find products", "find products", "update products"]
        assert unroutable(gateway.commands.sent) == []


async def test_jobs_and_checks_read_all_shards_and_write_to_one(gateway: GatewayClient) -> None:
    clock = SystemClock()
    await add_categories(gateway.db, [{"slug": "music", "name": "Music"}])
    await add_products(gateway.db, [album(sku="p", categories=["music"])])
    await gateway.db["products"].insert_one({**document(), "schema_version": 1})
    await gateway.db["intents"].insert_one(
        {"_id": "left", "kind": "product-creation", "keys": ["p"], "at": clock.now()}
    )
    mark = {"incoming": [{"op": "left", "at": clock.now(), "ids": []}]}
    await gateway.db["products"].update_one({"sku": "p"}, {"$set": mark})
    mine, theirs = await open_account(gateway.db, 100), await open_account(gateway.db)
    # One transfer is decided and not settled, and the other is neither.
    for stop in (3, 2):
        with crashing(gateway, stop):
            await gateway.ask(MUTATIONS["transfer"], {"input": transfer_input(mine, theirs)})
    await unused_image(gateway)
    await uncounted_order(gateway)
    gateway.commands.clear()

    for job in JOBS:
        await job.run(Job.Run(gateway.db, clock.now() + timedelta(minutes=1), gateway.state.resources))
    for invariant in INVARIANTS:
        assert [problem async for problem in invariant.check(gateway.db)] == []
    assert [one async for one in migrate(gateway.db)] == []

    assert set(unroutable(gateway.commands.sent)) == SCATTERED
    assert {name for name in gateway.commands.names() if name.startswith(("update", "delete"))} == {
        "delete ads.images",
        "delete intents",
        "update accounts",
        "update ads.images",
        "update catalog_word_walks",
        "update orders",
        "update products",
    }


async def test_every_shard_key_has_an_index(gateway: GatewayClient) -> None:
    """Sharding needs an index that starts with the key. A unique index must start with it, too."""
    assert {name async for name, _ in create_indexes(gateway.db)} == {spec.name for spec in COLLECTIONS}
    for spec in SHARDED.values():
        assert spec.shard_key is not None
        keys = [list(dict(index.document["key"]).items()) for index in spec.indexes]
        unique = [key for key, index in zip(keys, spec.indexes, strict=True) if index.document.get("unique")]
        wanted = list(spec.shard_key.items())

        assert wanted == [("_id", "hashed")] or any(key[: len(wanted)] == wanted for key in keys)
        assert all(key[: len(wanted)] == wanted for key in unique)
    assert PRODUCTS.shard_key == {"sku": 1}
