"""A fixture for modules whose tests all end with sound data."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.harness import GatewayClient, assert_invariants


@pytest.fixture
async def sound(gateway: GatewayClient) -> AsyncIterator[None]:
    """Asserts all invariants at the end of the test, as `portico doctor` checks them."""
    yield
    await assert_invariants(gateway)
