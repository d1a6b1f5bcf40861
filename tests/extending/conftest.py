"""What pytest does not collect here, and a fixture of several modules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, SettableClock
from tests.support.library import serving

# It runs in a process of its own.
collect_ignore = ["last_release"]


@pytest.fixture
async def theater(
    settings: Settings, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GatewayClient]:
    """A gateway that serves `booking`."""
    chosen = replace(settings, domains="accounts,comments,booking")
    async with serving(monkeypatch, chosen, "booking", "tests.extending.booking", clock=clock) as gateway:
        yield gateway
