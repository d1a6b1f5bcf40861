"""Fixtures of several modules of the comments."""

from __future__ import annotations

import pytest

from tests.comments.support.discussions import open_on_product
from tests.support.harness import GatewayClient


@pytest.fixture
async def discussion(gateway: GatewayClient, storage: str) -> str:
    """The id of a discussion on a new product, in the storage that the test is tried on."""
    return await open_on_product(gateway, storage)
