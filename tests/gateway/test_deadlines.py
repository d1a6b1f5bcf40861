"""One timer for the deadlines of all operations."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from portico.gateway.deadlines import PRECISION_SECONDS, Deadlines


class _Entry:
    def __init__(self) -> None:
        self.expired = 0

    def expire(self) -> None:
        self.expired += 1


@pytest.fixture
def deadlines() -> Deadlines:
    return Deadlines()


async def test_an_entry_expires_once_at_its_deadline_and_not_before(deadlines: Deadlines) -> None:
    early, late = _Entry(), _Entry()
    deadlines.add(early, 0.01)
    deadlines.add(late, 60)

    await asyncio.sleep(4 * PRECISION_SECONDS)

    assert (early.expired, late.expired) == (1, 0)


async def test_a_removed_entry_does_not_expire_and_may_be_removed_again(deadlines: Deadlines) -> None:
    entry = _Entry()
    deadlines.add(entry, 0.01)
    deadlines.remove(entry)
    deadlines.remove(entry)

    await asyncio.sleep(4 * PRECISION_SECONDS)

    assert entry.expired == 0


async def test_an_entry_that_comes_after_the_timer_has_stopped_expires_too(deadlines: Deadlines) -> None:
    entry = _Entry()
    deadlines.add(_Entry(), 0.0)
    await asyncio.sleep(4 * PRECISION_SECONDS)

    deadlines.add(entry, 0.0)
    await asyncio.sleep(4 * PRECISION_SECONDS)

    assert entry.expired == 1


def test_deadlines_hold_in_a_later_event_loop(deadlines: Deadlines) -> None:
    entry = _Entry()

    async def begin() -> None:
        deadlines.add(_Entry(), 60)

    async def expire() -> None:
        deadlines.add(entry, 0.0)
        await asyncio.sleep(4 * PRECISION_SECONDS)

    asyncio.run(begin())
    asyncio.run(expire())

    assert entry.expired == 1


def is_cancelled() -> bool:
    return bool(cast("asyncio.Task[Any]", asyncio.current_task()).cancelling())


async def test_a_limit_raises_timeout_error_and_leaves_no_cancellation(deadlines: Deadlines) -> None:
    with pytest.raises(TimeoutError), deadlines.limit(0.01):
        await asyncio.sleep(60)

    assert not is_cancelled()


async def test_a_limit_that_is_not_reached_changes_nothing(deadlines: Deadlines) -> None:
    with deadlines.limit(10 * PRECISION_SECONDS):
        await asyncio.sleep(0)

    # The deadline passes without a cancellation.
    await asyncio.sleep(14 * PRECISION_SECONDS)
    assert not is_cancelled()


async def test_a_limit_passes_on_a_cancellation_from_elsewhere(deadlines: Deadlines) -> None:
    begun = asyncio.Event()

    async def work() -> None:
        with deadlines.limit(60):
            begun.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(work())
    await begun.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_cancellation_beside_an_expired_limit_is_not_lost(deadlines: Deadlines) -> None:
    async def work() -> None:
        with deadlines.limit(0.01):
            try:
                await asyncio.sleep(60)
            finally:
                task.cancel()

    task = asyncio.create_task(work())

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_the_inner_of_two_limits_ends_only_its_own_block(deadlines: Deadlines) -> None:
    with deadlines.limit(60):
        with pytest.raises(TimeoutError), deadlines.limit(0.01):
            await asyncio.sleep(60)
        assert not is_cancelled()
