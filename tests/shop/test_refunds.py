"""Refunds by a payment provider that fails: the money of a cancelled order goes back once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.shop.settings import ShopSettings
from tests.shop.support.order_stages import assert_no_refund_is_open
from tests.shop.support.payment_service import PaymentService
from tests.shop.support.shop import new_order, order_input, stock_of, stock_up
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, running

PRICE = 1000
# An answer that no client understands.
STRANGE = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nnope"


@pytest.fixture
async def shop(settings: Settings, clock: SettableClock, service: PaymentService) -> AsyncIterator[GatewayClient]:
    """Yield a gateway whose provider is the service."""
    own = ShopSettings(payment_url=service.url, payment_seconds=1.0)
    async with running(replace(settings, log_level="error", slices={ShopSettings: own}), clock=clock) as gateway:
        yield gateway


async def _order(shop: GatewayClient) -> tuple[str, str]:
    sku = await stock_up(shop, price=PRICE)
    return (await new_order(shop, **{sku: 2}))["order"]["id"], sku


async def _assert_refunded_once(shop: GatewayClient, service: PaymentService, sku: str) -> None:
    refunds = [found for found in service.outcomes.values() if found["status"] == "refunded"]
    assert [found["amount"] for found in refunds] == [2 * PRICE]
    assert await stock_of(shop, sku) == (10, 0, 0)
    await assert_no_refund_is_open(shop)
    await assert_invariants(shop)


async def test_the_provider_gets_one_request_with_the_charge_and_a_key(
    shop: GatewayClient, service: PaymentService
) -> None:
    order, sku = await _order(shop)

    cancelled = (await shop.result("cancelOrder", order_input(order)))["order"]
    again = await shop.result("cancelOrder", order_input(order))

    assert again["__typename"] == "OrderStatusConflict"
    asked = service.asked[-1]
    assert (asked.method, asked.path) == ("POST", "/v1/refunds")
    assert asked.body == {"charge": "ch-1", "amount": 2 * PRICE, "currency": "USD"}
    assert (cancelled["status"], cancelled["refundedAt"] is not None) == ("CANCELLED", True)
    await _assert_refunded_once(shop, service, sku)


@pytest.mark.parametrize("minutes", [1, 10])
async def test_a_job_looks_up_a_refund_whose_answer_was_lost(
    shop: GatewayClient, service: PaymentService, minutes: int
) -> None:
    order, sku = await _order(shop)
    service.strange = STRANGE
    cancelled = (await shop.result("cancelOrder", order_input(order)))["order"]
    assert (cancelled["status"], cancelled["refundedAt"]) == ("CANCELLED", None)

    service.strange = b""
    await shop.run_jobs("finish-orders", minutes=minutes)
    await shop.run_jobs("finish-orders", minutes=minutes)

    await _assert_refunded_once(shop, service, sku)


async def test_a_refund_that_the_provider_never_got_is_requested_with_another_key(
    shop: GatewayClient, service: PaymentService
) -> None:
    order, sku = await _order(shop)
    service.strange = STRANGE
    await shop.result("cancelOrder", order_input(order))
    key = service.asked[-1].headers["idempotency-key"]

    service.strange = b""
    shop.clock.advance(hours=26)
    for _ in range(2):
        await shop.run_jobs("finish-orders")
        shop.clock.advance(hours=2)

    assert service.asked[-1].headers["idempotency-key"] != key
    await _assert_refunded_once(shop, service, sku)
