"""Fixtures of several modules of the shop."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.shop.support.payment_service import PaymentService, running_payment_service


@pytest.fixture
async def service() -> AsyncIterator[PaymentService]:
    async with running_payment_service() as found:
        yield found
