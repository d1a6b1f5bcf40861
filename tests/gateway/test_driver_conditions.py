"""A call that is cancelled while it waits for the driver leaves the driver's locks in order."""

from __future__ import annotations

import asyncio
from types import ModuleType
from typing import Any

import pytest
from pymongo.asynchronous import pool, topology
from pymongo.lock import _async_create_condition, _async_create_lock

from portico.gateway.mongo.conditions import patch_driver

SECONDS = 0.01


@pytest.fixture(autouse=True)
def _patched() -> None:
    patch_driver()


async def wait(module: ModuleType, condition: Any, seconds: float = SECONDS) -> bool:
    async with condition:
        # mypy knows no private name of a module.
        notified: bool = await getattr(module, "_async_cond_wait")(condition, seconds)  # noqa: B009
        return notified


@pytest.mark.parametrize("cancellations", [1, 2, 3])
@pytest.mark.parametrize("module", [pool, topology])
async def test_a_cancelled_wait_releases_no_lock_of_another_task_and_keeps_none(
    module: ModuleType, cancellations: int
) -> None:
    condition = _async_create_condition(_async_create_lock())
    waiting = asyncio.create_task(wait(module, condition))
    await asyncio.sleep(0)
    async with condition:
        # The wait is over, and the task wants the lock back, which this task has.
        await asyncio.sleep(3 * SECONDS)
        for _ in range(cancellations):
            waiting.cancel()
            await asyncio.sleep(0)

        assert condition.locked()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await asyncio.sleep(3 * SECONDS)
    assert not condition.locked()


@pytest.mark.parametrize("module", [pool, topology])
async def test_a_wait_ends_when_it_is_notified_or_after_its_time(module: ModuleType) -> None:
    condition = _async_create_condition(_async_create_lock())

    async def notify() -> None:
        async with condition:
            condition.notify_all()

    waiting = asyncio.create_task(wait(module, condition, 60))
    await asyncio.sleep(0)
    await notify()

    assert await waiting is True
    assert await wait(module, condition) is False
    assert not condition.locked()
