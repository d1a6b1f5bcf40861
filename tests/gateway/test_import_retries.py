"""Records that others may have interfered with are tried again. A failed import leaves nothing under way."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.imports import runs
from portico.gateway.imports.runs import BadRecord, Import
from portico.resolvers.documents import Database
from portico.resolvers.errors import Conflict
from tests.catalog.support.catalog import add_products, product
from tests.content.support.photos import picture
from tests.support.documents import only
from tests.support.domains import IMPORTERS
from tests.support.harness import GatewayClient
from tests.support.importing import lines, write


async def test_records_that_are_tried_again_hold_up_no_others(
    gateway: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BATCH", 2)
    monkeypatch.setattr(runs, "PAUSES", (0.01, 0.01))
    await add_products(gateway.db, [product(sku="a"), product(sku="b")])
    (tmp_path / "photo.png").write_bytes(picture())
    stored: list[str] = []

    async def put_all(db: Database, records: Sequence[Any], **given: Any) -> Any:
        stored.extend(record.name for record in records)
        return await IMPORTERS["images"].put(db, records, **given)

    importer = replace(IMPORTERS["images"], put=put_all)
    owners = ["none", "a", "missing", "b"]
    given = [{"product": owner, "file": "photo.png", "alt": owner} for owner in owners]
    bad: list[BadRecord] = []
    work = Import(gateway.db, importer, SystemClock(), bad.append, lambda _: None, gateway.state.resources)

    done = await work.run([write(tmp_path / "images.jsonl", lines(given))])

    assert (done.counts, [one.line for one in bad]) == ({"created": 2, "failed": 2}, [1, 3])
    assert sorted(stored[:4]) == sorted(owners)
    assert sorted(stored[4:]) == ["missing", "missing", "none", "none"]


async def test_the_last_record_of_a_key_wins_if_the_first_one_is_tried_again(
    gateway: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "PAUSES", (0.01, 0.01))
    refuses = True

    async def put_all(db: Database, records: Sequence[Any], **given: Any) -> Any:
        nonlocal refuses
        if refuses:
            refuses = False
            return [Conflict("Somebody else changed the product in the meantime.")] * len(records)
        return await IMPORTERS["products"].put(db, records, **given)

    importer = replace(IMPORTERS["products"], put=put_all)
    given = [product(sku="a", title="One"), product(sku="a", title="Two")]
    work = Import(gateway.db, importer, SystemClock(), print, print, gateway.state.resources)

    done = await work.run([write(tmp_path / "products.jsonl", lines(given))])

    assert done.counts == {"created": 1, "changed": 1}
    assert (await only(gateway.db["products"], {"sku": "a"}))["title"] == "Two"


async def test_a_failed_import_waits_for_the_batches_in_flight(
    gateway: GatewayClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runs, "BATCH", 1)
    (tmp_path / "photo.png").write_bytes(picture())
    ended: list[str] = []

    async def put_all(_db: Database, records: Sequence[Any], **_: Any) -> Any:
        (record,) = records
        await asyncio.sleep(0.05 if record.name == "slow" else 0)
        ended.append(record.name)
        raise RuntimeError(record.name)

    given = [{"product": owner, "file": "photo.png", "alt": owner} for owner in ("one", "two", "slow")]
    importer = replace(IMPORTERS["images"], put=put_all, is_parallel=True)
    work = Import(gateway.db, importer, SystemClock(), print, print, gateway.state.resources)

    with pytest.raises(RuntimeError, match="one"):
        await work.run([write(tmp_path / "images.jsonl", lines(given))])

    assert ended == ["one", "two", "slow"]
