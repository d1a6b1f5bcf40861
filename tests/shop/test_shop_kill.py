"""A gateway that is killed while it fills carts and checks out: the next gateway settles all calls."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

from portico.gateway.settings import Settings
from tests.accounts.support.accounts import assert_money, open_account
from tests.shop.support.shop import (
    Given,
    add_input,
    assert_nothing_in_flight,
    assert_settled,
    new_cart,
    stock_of,
    stock_up,
    update_input,
)
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient, SettableClock, new_key, run_jobs, running
from tests.support.killed_servers import Call, responses_until_killed, without_uvloop
from tests.support.processes import environment, portico, served

ROUNDS = 40 if IS_SOAK else 1
BUYERS = 8
DEPOSITED = 1_000_000
WARM_UP = "{ viewer { cart { id } } }"
anyio_backend = without_uvloop()


async def calls_of_a_round(gateway: GatewayClient, sku: str, account: str) -> list[tuple[str, Given]]:
    """Return calls that each succeed once in any order, since each has its own cart."""
    calls: list[tuple[str, Given]] = []
    for _ in range(BUYERS):
        paid, filled, changed = [await new_cart(gateway, **{sku: 2}) for _ in range(3)]
        payment = {"payment": {"accountId": account}, "cartId": paid}
        calls += [
            ("checkout", {**payment, "idempotencyKey": new_key()}),
            ("addItemToCart", add_input(filled, sku, 3, idempotencyKey=new_key())),
            ("updateCartItem", update_input(changed, sku, 2, 1, idempotencyKey=new_key())),
        ]
    return calls


async def test_the_next_gateway_settles_the_calls_of_a_killed_gateway(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(random.random())
    units = ROUNDS * BUYERS * 10
    calls: list[tuple[str, Given]] = []
    unanswered = 0
    async with running(settings, clock=clock) as gateway:
        sku = await stock_up(gateway, units=units, price=100)
        account = await open_account(gateway.db, DEPOSITED)
        for number in range(ROUNDS):
            batch = await calls_of_a_round(gateway, sku, account)
            with served(tmp_path / str(number), environment(settings)) as server:
                sent = [Call(MUTATIONS[mutation], given, gateway.token()) for mutation, given in batch]
                responses = await responses_until_killed(server, sent, rng, warm_up=WARM_UP)
                unanswered += responses.count(None)
            calls += batch
    assert unanswered > 0

    # The keys, checkouts and leases of the killed gateways expire.
    clock.advance(seconds=61)
    async with running(settings, clock=clock) as gateway:
        # A job run takes a limited number of checkouts.
        while await run_jobs(gateway, clock):
            pass
        await assert_settled(gateway)

        answers = [(await gateway.result(*call))["__typename"] for call in calls]

        assert set(answers) == {"CheckoutPayload", "CartPayload"}
        sold, added, left = [ROUNDS * BUYERS * number for number in (2, 5, 1)]
        assert await stock_of(gateway, sku) == (units - sold - added - left, added + left, sold)
        orders: list[Any] = await gateway.db["orders"].find({}).to_list()
        assert len(orders) == len({order["cart_id"] for order in orders}) == ROUNDS * BUYERS
        mine = await gateway.data("{ viewer { accounts { balance { amount } } } }")
        assert mine["viewer"]["accounts"] == [{"balance": {"amount": DEPOSITED - sold * 100}}]
        await assert_nothing_in_flight(gateway.db)
        await assert_money(gateway, DEPOSITED)
    checked = await asyncio.to_thread(portico, "doctor", env=environment(settings))
    assert (checked.returncode, checked.stderr) == (0, "")
