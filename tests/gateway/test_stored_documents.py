"""The stored documents have the keys and the types that their collections declare."""

from __future__ import annotations

from typing import Any

import pytest

from portico.resolvers.documents import CollectionSpec
from portico.testing.stages import Stage
from tests.support.domains import COLLECTIONS
from tests.support.everything import create_everything
from tests.support.harness import GatewayClient, SettableClock
from tests.support.kits import kits
from tests.support.shapes import differences

STAGES = [pytest.param(stage, id=f"{name}: {stage.__name__}") for name, kit in kits().items() for stage in kit.stages]
TYPED: dict[str, CollectionSpec] = {spec.name: spec for spec in COLLECTIONS if spec.document is not None}


async def assert_typed(gateway: GatewayClient) -> set[str]:
    """Asserts that every stored document is one of its collection's type. Returns the names of the collections."""
    wrong: set[str] = set()
    met: set[str] = set()
    for name, spec in TYPED.items():
        async for document in gateway.db[name].find():
            met.add(name)
            found: Any = list(differences(document, spec.document, name))
            wrong.update(found)
    assert sorted(wrong) == []
    return met


async def test_what_the_kits_create_is_stored_as_typed(gateway: GatewayClient) -> None:
    await create_everything(gateway)

    await assert_typed(gateway)


@pytest.mark.parametrize("name", kits())
async def test_what_mutations_and_crashes_leave_is_stored_as_typed(gateway: GatewayClient, name: str) -> None:
    kit = kits()[name]
    for mutation, create in kit.inputs.items():
        given, _ = await create(gateway)
        await kit.call(gateway, mutation, {**given, "idempotencyKey": mutation})
        await assert_typed(gateway)
    for leaves in kit.leftovers.values():
        for leave in leaves:
            await leave(gateway)

    await assert_typed(gateway)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_is_stored_as_typed(gateway: GatewayClient, clock: SettableClock, stage: type[Stage]) -> None:
    await stage(gateway, clock).build()

    await assert_typed(gateway)


@pytest.mark.usefixtures("demo")
async def test_the_demo_is_stored_as_typed(gateway: GatewayClient) -> None:
    await assert_typed(gateway)
