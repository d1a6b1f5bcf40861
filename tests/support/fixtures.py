"""Fixtures for the modules of several domains, and fixtures that a module has with settings of its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.writes.settler import Settler
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, running
from tests.support.settling import Never


@pytest.fixture
async def sound(gateway: GatewayClient) -> AsyncIterator[None]:
    """Asserts all invariants at the end of the test, as `portico doctor` checks them."""
    yield
    await assert_invariants(gateway)


@pytest.fixture
def unsettled(gateway: GatewayClient) -> GatewayClient:
    """The gateway, which leaves what its calls decide to the jobs, like a process that ends after its answers."""
    gateway.state.resources[Settler] = Never()
    return gateway


@pytest.fixture
async def other(settings: Settings, clock: SettableClock, gateway: GatewayClient) -> AsyncIterator[GatewayClient]:
    """Another gateway on the same database, with the same clock."""
    assert gateway.settings is settings
    async with running(settings, clock=clock) as found:
        yield found


def settings_with(**changes: Any) -> Any:
    """Returns a fixture: the settings of a test with these changes."""

    @pytest.fixture
    def settings(settings: Settings) -> Settings:
        return replace(settings, **changes)

    return settings


def gateway_with(**changes: Any) -> Any:
    """Returns a fixture: a running gateway with these settings."""

    @pytest.fixture
    async def gateway(settings: Settings, clock: SettableClock) -> AsyncIterator[GatewayClient]:
        async with running(replace(settings, **changes), clock=clock) as client:
            yield client

    return gateway
