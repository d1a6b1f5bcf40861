"""Every plain field of a product can be created, edited, cleared, imported and read."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pytest

from portico.resolvers.catalog.product_fields import PLAIN
from portico.schema.errors import camel_case
from tests.catalog.support.catalog import product
from tests.support.harness import GatewayClient, assert_invariants, create_product
from tests.support.importing import put

VALUES = {str: ("one", "other"), datetime: ("2020-02-01T00:00:00.000Z", "2021-02-01T00:00:00.000Z")}


@pytest.mark.parametrize("name", PLAIN)
async def test_a_plain_field_is_created_edited_cleared_and_imported(
    gateway: GatewayClient, tmp_path: Path, name: str
) -> None:
    one, other = VALUES[PLAIN[name].kind]
    field = camel_case(name)

    async def read(sku: str) -> list[str | None]:
        found = await gateway.data(f"query ($sku: String!) {{ product(sku: $sku) {{ nonce {field} }} }}", {"sku": sku})
        return [found["product"]["nonce"], found["product"][field]]

    async def edit(value: str | None) -> str:
        nonce, _ = await read("A")
        given = {"id": created["id"], "nonce": nonce, field: value}
        return str((await gateway.result("updateProduct", given))["__typename"])

    created = await create_product(gateway, sku="A", **{field: one})
    assert (await read("A"))[1] == one
    assert (await edit(other), (await read("A"))[1]) == ("ProductPayload", other)
    if PLAIN[name].is_required:
        assert (await edit(None), (await read("A"))[1]) == ("InvalidInput", other)
    else:
        assert (await edit(None), (await read("A"))[1]) == ("ProductPayload", None)
    await put(gateway.db, "products", tmp_path / "records.jsonl", [product(sku="B", **{field: one})])
    assert (await read("B"))[1] == one
    await put(gateway.db, "products", tmp_path / "records.jsonl", [product(sku="B", **{field: other})])
    assert (await read("B"))[1] == other
    await assert_invariants(gateway)
