"""Fixtures of the tests of the game."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.game.support.smithy import Smithy
from tests.support.harness import GatewayClient, SettableClock


@pytest.fixture
async def smithy(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Smithy]:
    # Otherwise, a last step could go out before a test looks.
    monkeypatch.setattr("portico.resolvers.game.world.turn_ends._LINGER", 2)
    smithy = await Smithy.of(gateway.db, clock)
    yield smithy
    await smithy.rooms.close()
    await smithy.settler.close()
