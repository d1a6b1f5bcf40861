"""The connections to a payment provider when many buyers pay at once."""

from __future__ import annotations

import asyncio
import contextlib
import itertools

import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.domains.shop.payments.methods import opened
from portico.gateway.domains.shop.payments.provider_connections import MOST
from portico.resolvers.documents import Database
from portico.resolvers.shop.payments import TOKEN, Charge
from portico.resolvers.shop.settings import ShopSettings
from tests.shop.support.payment_service import PaymentService
from tests.support.sockets import until

BUYERS = 4 * MOST


def patient(service: PaymentService) -> ShopSettings:
    """Settings with a timeout that no slow machine reaches."""
    return ShopSettings(payment_url=service.url, payment_seconds=600.0)


def charge_of(buyer: int) -> Charge:
    payment = {"method": TOKEN, "token": "accept"}
    return Charge(f"cart-{buyer}", payment, payer=None, amount=100, currency="USD", begun=SystemClock().now())


async def test_buyers_who_pay_at_once_are_all_charged_on_few_connections_that_stay_open(
    db: Database, service: PaymentService
) -> None:
    charges = [charge_of(buyer) for buyer in range(BUYERS)]

    async with opened(patient(service)) as payments:
        paid = await asyncio.gather(*(payments.charge(db, one, now=one.begun) for one in charges))

        assert len(set(paid)) == BUYERS
        assert {key for key, _ in service.taken()} == {one.reference for one in charges}
        assert service.connections <= MOST


async def test_a_buyer_who_gives_up_leaves_the_connections_to_the_others(db: Database, service: PaymentService) -> None:
    async with opened(patient(service)) as payments:
        hanging = [charge_of(buyer) for buyer in range(MOST)]
        for one in hanging:
            one.payment["token"] = "hang"
        calls = [asyncio.create_task(payments.charge(db, one, now=one.begun)) for one in hanging]
        next_call = asyncio.create_task(payments.charge(db, charge_of(MOST), now=SystemClock().now()))
        await until(lambda: len(service.asked) == MOST)
        for call in calls:
            call.cancel()

        assert await next_call == "ch-1"
        assert len(service.asked) == MOST + 1


@pytest.mark.parametrize("is_connected", [False, True], ids=["first request", "later request"])
async def test_a_buyer_who_gives_up_at_any_moment_leaves_a_connection_that_works(
    db: Database, service: PaymentService, *, is_connected: bool
) -> None:
    """A cancelled request must not keep its place in a pool of connections, whatever it waited for."""
    for steps in itertools.count():
        async with opened(patient(service)) as payments:
            if is_connected:
                await payments.charge(db, charge_of(2 * steps), now=SystemClock().now())
            leaving = charge_of(2 * steps + 1)
            call = asyncio.create_task(payments.charge(db, leaving, now=leaving.begun))
            for _ in range(steps):
                await asyncio.sleep(0)
            call.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await call

            async with asyncio.timeout(10):
                assert await payments.charge(db, leaving, now=leaving.begun)
        if not call.cancelled():
            break
    assert steps > 5
