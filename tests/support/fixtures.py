"""Fixtures for the modules of several domains."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, running


@pytest.fixture
async def sound(gateway: GatewayClient) -> AsyncIterator[None]:
    """Asserts all invariants at the end of the test, as `portico doctor` checks them."""
    yield
    await assert_invariants(gateway)


@pytest.fixture
async def other(settings: Settings, clock: SettableClock, gateway: GatewayClient) -> AsyncIterator[GatewayClient]:
    """Another gateway on the same database, with the same clock."""
    assert gateway.settings is settings
    async with running(settings, clock=clock) as found:
        yield found
