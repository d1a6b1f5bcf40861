"""The stored documents have the keys and the types that their collections declare.

The tests of idempotency check the same after each mutation.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from portico.testing.kits import Left
from portico.testing.stages import Stage
from tests.support.domains import COLLECTIONS
from tests.support.everything import create_everything
from tests.support.harness import GatewayClient, SettableClock
from tests.support.kits import kits
from tests.support.stored import assert_typed

STAGES = [pytest.param(stage, id=f"{name}: {stage.__name__}") for name, kit in kits().items() for stage in kit.stages]
LEAVING = [
    pytest.param(leave, id=f"{job}: {leave.__name__}")
    for kit in kits().values()
    for job, leaves in kit.leftovers.items()
    for leave in leaves
]
# The collections that `create_everything` leaves empty, and why.
NOT_CREATED: dict[str, str] = {}


def test_every_collection_declares_the_type_of_its_documents() -> None:
    assert [spec.name for spec in COLLECTIONS if spec.document is None] == []


async def test_what_the_kits_create_is_stored_as_typed(gateway: GatewayClient) -> None:
    await create_everything(gateway)

    met = await assert_typed(gateway.db)

    assert {spec.name for spec in COLLECTIONS} - met == NOT_CREATED.keys()


@pytest.mark.parametrize("leave", LEAVING)
async def test_what_a_crash_leaves_is_stored_as_typed(
    gateway: GatewayClient, leave: Callable[[GatewayClient], Awaitable[Left]]
) -> None:
    await leave(gateway)

    assert await assert_typed(gateway.db)


@pytest.mark.parametrize("stage", STAGES)
async def test_a_stage_is_stored_as_typed(gateway: GatewayClient, clock: SettableClock, stage: type[Stage]) -> None:
    await stage(gateway, clock).build()

    assert await assert_typed(gateway.db)


@pytest.mark.usefixtures("demo")
async def test_the_demo_is_stored_as_typed(gateway: GatewayClient) -> None:
    assert await assert_typed(gateway.db)
