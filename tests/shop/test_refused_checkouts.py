"""A checkout whose refusal no caller has received: a retry gets the refusal, whatever the cart contains by then.

A refusal is final for its call. A job, or a call that crashes, may learn of the refusal and unlock the cart, and the
buyer may add more items. A retry of the first call must not buy the changed cart for another total.
"""

from __future__ import annotations

from typing import Any, Literal

import pytest

from tests.accounts.support.accounts import balances, deposit, deposit_input, open_account
from tests.shop.support.shop import (
    Provider,
    add_input,
    assert_nothing_in_flight,
    cart_of,
    checkout_input,
    full_cart,
    quantities,
)
from tests.shop.support.stages import Paying
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_stops
from tests.support.ids import key_in
from tests.support.interruptions import crashing, stopping

PRICE = 1000
Kind = Literal["account", "token"]
REFUSALS = {"account": "InsufficientFunds", "token": "PaymentDeclined"}
# The number of changes after which a call crashes that has locked the cart and learns no outcome. A payment by account
# has not stored its refusal by then. A payment by token needs no crash: the provider does not answer.
UNKNOWN = {"account": 3, "token": None}


class Scene(Paying):
    """A cart, and a call that pays for it from an account with too little money, or by a card that will be declined."""

    collections = ("products", "stock", "carts", "orders", "operations", "accounts", "transfers")
    job_names = ("finish-transfers", "finish-checkouts")
    job_seconds = 40
    kind: Kind

    async def build(self) -> None:
        self.use(Provider())
        self.cart, self.sku = await full_cart(self.gateway, price=PRICE)
        self.account = await open_account(self.gateway.db, 2 * PRICE - 1)
        paid_by = {"accountId": self.account} if self.kind == "account" else {"token": "hang"}
        self.given = checkout_input(self.cart, payment=paid_by, idempotencyKey="the call")

    async def stored(self) -> Any:
        return await self.gateway.stored("carts", {"_id": key_in("Cart", self.cart)})

    async def call(self, *, stop: int | None = None) -> bool:
        """Sends the call. Returns whether it crashed after this number of changes."""
        with crashing(self.gateway, stop) as faulty:
            await self.ask("checkout", self.given)
        return bool(faulty.has_crashed)

    async def provider_decides(self) -> None:
        cart = await self.stored()
        if cart["status"] == "PENDING":
            self.provider.outcomes[cart["checkout"]["reference"]] = "refused"
        self.provider.is_back = True

    async def jobs(self, *, stop: int | None = None) -> bool:
        """Runs the jobs. Returns whether they crashed after this number of changes."""
        with crashing(self.gateway, stop) as faulty, stopping():
            await self.run_jobs()
        return bool(faulty.has_crashed)

    async def assert_refused(self) -> None:
        """Let the buyer change the cart and get money, and assert that a retry still gets the refusal."""
        await self.gateway.result("addItemToCart", add_input(self.cart, self.sku))
        await deposit(self.gateway, deposit_input(self.account, 10 * PRICE))

        answered = [await self.gateway.result("checkout", self.given) for _ in range(2)]

        assert [one["__typename"] for one in answered] == [REFUSALS[self.kind]] * 2
        assert answered[0] == answered[1]
        found = await cart_of(self.gateway, self.cart)
        assert (found["status"], quantities(found)) == ("ACTIVE", {self.sku: 3})
        assert self.provider.taken == {}
        assert await balances(self.gateway.db, self.account) == [12 * PRICE - 1]
        await assert_nothing_in_flight(self.gateway.db)


@pytest.fixture(params=REFUSALS)
def scene(gateway: GatewayClient, clock: SettableClock, request: pytest.FixtureRequest) -> Scene:
    scene = Scene(gateway, clock)
    scene.kind = request.param
    return scene


@pytest.mark.sample(3)
@pytest.mark.parametrize("cut_off", ["call", "repetition", "jobs"])
async def test_a_retry_gets_the_refusal_whatever_crashed(scene: Scene, cut_off: str) -> None:
    for stop in some_stops(2):
        await scene.restore()
        version = (await scene.stored())["version"]
        crashed = await scene.call(stop=stop if cut_off == "call" else UNKNOWN[scene.kind])
        assert cut_off == "call" or (await scene.stored())["status"] == "PENDING"
        await scene.provider_decides()
        scene.clock.advance(seconds=40)
        if cut_off == "repetition":
            crashed = await scene.call(stop=stop)
        elif cut_off == "jobs":
            crashed = await scene.jobs(stop=stop)
        await scene.jobs()
        if (await scene.stored())["version"] != version:
            await scene.assert_refused()
        if not crashed:
            break
    await assert_invariants(scene.gateway)
    assert stop >= 2


async def test_a_cart_keeps_few_refusals_and_all_unanswered_ones(gateway: GatewayClient, provider: Provider) -> None:
    cart, _ = await full_cart(gateway, 1)
    given = checkout_input(cart, "decline")
    refused = await gateway.result("checkout", given)
    # The state after a call that crashed before it stored its answer.
    await gateway.db["operations"].update_many({}, {"$set": {"state": "running"}, "$unset": {"outcome": ""}})

    for _ in range(20):
        await gateway.result("checkout", checkout_input(cart, "decline"))

    gateway.clock.advance(seconds=31)
    stored = await gateway.stored("carts")
    assert len(stored["refused"]) < 20
    asked = provider.asked
    assert await gateway.result("checkout", given) == refused
    assert provider.asked == asked
