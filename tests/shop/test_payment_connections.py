"""The connections to a payment provider when many buyers pay at once."""

from __future__ import annotations

import asyncio

from portico.gateway.clock import SystemClock
from portico.gateway.payments.provider import opened
from portico.gateway.payments.provider_connections import MOST
from portico.resolvers.documents import Database
from portico.resolvers.payments import TOKEN, Charge
from portico.resolvers.shop.settings import ShopSettings
from tests.support.payment_service import PaymentService, running_payment_service
from tests.support.sockets import until

BUYERS = 4 * MOST


def patient(service: PaymentService) -> ShopSettings:
    """Settings with a timeout that no slow machine reaches."""
    return ShopSettings(payment_url=service.url, payment_seconds=600.0)


def charge_of(buyer: int) -> Charge:
    payment = {"method": TOKEN, "token": "accept"}
    return Charge(f"cart-{buyer}", payment, payer=None, amount=100, currency="USD", begun=SystemClock().now())


async def test_buyers_who_pay_at_once_are_all_charged_on_few_connections_that_stay_open(db: Database) -> None:
    charges = [charge_of(buyer) for buyer in range(BUYERS)]

    async with running_payment_service() as service, opened(patient(service)) as payments:
        paid = await asyncio.gather(*(payments.charge(db, one, now=one.begun) for one in charges))

        assert len(set(paid)) == BUYERS
        assert {key for key, _ in service.taken()} == {one.reference for one in charges}
        assert service.connections <= MOST


async def test_a_buyer_who_gives_up_leaves_the_connections_to_the_others(db: Database) -> None:
    async with running_payment_service() as service, opened(patient(service)) as payments:
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
