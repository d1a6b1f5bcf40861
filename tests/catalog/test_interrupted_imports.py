"""An import of products goes on with what an interrupted one has begun, and takes nothing from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from portico.gateway.domains.catalog.records import product_record
from portico.gateway.imports import runs
from portico.gateway.mongo.faults import Crash
from portico.resolvers.catalog.product_edits import created_by
from portico.resolvers.catalog.product_rules import document_of
from portico.resolvers.documents import Database
from portico.schema.kinds import Kind
from tests.catalog.support.cases import id_and_nonce_of
from tests.catalog.support.catalog import add_categories, product
from tests.catalog.support.slugs import SLUGS
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.importing import Imported, category, lines, run, write
from tests.support.interruptions import interrupted, stopping

Line = dict[str, Any]


class Importing:
    """Imports of products at the time of the gateway."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock, file: Path) -> None:
        self.gateway = gateway
        self.clock = clock
        self.file = file

    async def run(self, *records: Line, db: Database | None = None) -> Imported:
        file = write(self.file, lines(records))
        return await run(self.gateway.db if db is None else db, "products", file, clock=self.clock)

    async def crash(self, *records: Line) -> None:
        """Import, and stop after the slugs are claimed."""

        async def crash() -> None:
            raise Crash

        with stopping():
            await self.run(*records, db=interrupted(self.gateway.db, "products", "insert_many", crash))


@pytest.fixture
def importing(
    gateway: GatewayClient, clock: SettableClock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Importing:
    monkeypatch.setattr(runs, "PAUSES", (0.01, 0.01))
    return Importing(gateway, clock, tmp_path / "records.jsonl")


async def test_another_product_with_the_slug_does_not_keep_an_import_from_going_on(importing: Importing) -> None:
    one, other = product(sku="A", slug="blue"), product(sku="B", slug="blue")
    await importing.crash(one)
    importing.clock.advance(seconds=6)

    done = await importing.run(one, other)

    assert (done.counts, done.reasons) == ({"created": 1, "failed": 1}, [(2, "The slug 'blue' is taken.")])
    await importing.gateway.run_jobs(seconds=61)
    await assert_invariants(importing.gateway)


async def test_the_jobs_settle_what_an_import_that_goes_on_does_not_have(importing: Importing) -> None:
    gateway = importing.gateway
    await add_categories(gateway.db, [category("jazz", "Jazz"), category("blues", "Blues")])
    one, other = product(sku="A", slug="blue", categories=["blues"]), product(sku="B", categories=["jazz"])

    async def store_the_other_and_crash() -> None:
        jazz = await gateway.stored("categories", {"slug": "jazz"})
        await gateway.payload("deleteCategory", {"id": Kind.encode_id("Category", jazz["_id"])})
        creation = (await gateway.stored(SLUGS, {"_id": "blue"}))["creation"]
        described = document_of(product_record(other).fields, [jazz["_id"]])
        await gateway.db["products"].insert_one(dict(created_by(creation, described)))
        raise Crash

    with stopping():
        await importing.run(
            one, other, db=interrupted(gateway.db, "products", "insert_many", store_the_other_and_crash)
        )
    importing.clock.advance(seconds=6)

    assert (await importing.run(one)).counts == {"created": 1}

    await gateway.run_jobs(seconds=6)
    await assert_invariants(gateway)
    assert await gateway.db["products"].distinct("sku") == ["A"]


async def test_no_import_goes_on_with_a_product_that_was_deleted(importing: Importing) -> None:
    gateway, one = importing.gateway, product(sku="A", slug="blue")

    async def delete() -> None:
        importing.clock.advance(seconds=6)
        await gateway.payload("deleteProduct", await id_and_nonce_of(gateway, "A"))

    # The command that confirms the slug of the stored product.
    stalled = interrupted(gateway.db, SLUGS, "bulk_write", delete, skip=1)
    assert (await importing.run(one, db=stalled)).counts == {"created": 1}
    await importing.run(one)
    await gateway.run_jobs(seconds=61)
    await importing.run(one)

    restocked = await gateway.result("restock", {"sku": "A", "quantity": 1, "idempotencyKey": "r"})
    assert restocked["__typename"] == "StockPayload"
    await assert_invariants(gateway)
