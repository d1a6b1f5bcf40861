"""Orders that were paid by token and by account, and their changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from portico.testing.stages import Case
from tests.accounts.support.accounts import open_account
from tests.shop.support.shop import (
    SHOP_JOBS,
    Provider,
    assert_nothing_in_flight,
    new_cart,
    new_order,
    order_input,
    paid_by,
    stock_up,
)
from tests.shop.support.stages import Paying
from tests.support.harness import GatewayClient
from tests.support.ids import key_in

# The available and the sold units, the statuses of the orders, the money that the provider has taken, and the balance
# of the buyer's account. An order has two units, and each costs 10.00.
State = tuple[tuple[int, int], dict[str, str], int, int]
STATUSES = {"by token": "PLACED", "by account": "PLACED", "shipped": "SHIPPED"}
BEFORE: State = ((4, 6), STATUSES, 4_000, 3_000)


def _with(name: str, status: str, *, units: tuple[int, int] = (4, 6), taken: int = 4_000, left: int = 3_000) -> State:
    return units, {**STATUSES, name: status}, taken, left


def _of(name: str) -> Callable[[Any], dict[str, Any]]:
    return lambda stage: {"orderId": stage.orders[name]}


CASES = {
    "a shipment": Case("shipOrder", _of("by token"), "OrderPayload", _with("by token", "SHIPPED")),
    "a delivery": Case("deliverOrder", _of("shipped"), "OrderPayload", _with("shipped", "DELIVERED")),
    "a delivery that is too early": Case("deliverOrder", _of("by token"), "OrderStatusConflict", BEFORE),
    "cancelling what was paid by token": Case(
        "cancelOrder", _of("by token"), "OrderPayload", _with("by token", "CANCELLED", units=(6, 4), taken=2_000)
    ),
    "cancelling what was paid by account": Case(
        "cancelOrder", _of("by account"), "OrderPayload", _with("by account", "CANCELLED", units=(6, 4), left=5_000)
    ),
    "cancelling what is shipped": Case("cancelOrder", _of("shipped"), "OrderStatusConflict", BEFORE),
}


class Orders(Paying):
    """Three orders of two units each: one paid by token, one by account, and one that is shipped."""

    collections = ("products", "stock", "carts", "orders", "accounts", "transfers", "operations")
    job_names = SHOP_JOBS
    next_run = 31
    before = BEFORE
    cases = CASES
    least = (1, 1)

    async def build(self) -> None:
        self.use(Provider())
        await stock_up(self.gateway, "record", 10)
        self.account = await open_account(self.gateway.db, 5_000)
        by_account = paid_by(await new_cart(self.gateway, record=2), self.account)
        self.orders = {
            "by token": (await new_order(self.gateway, record=2))["order"]["id"],
            "by account": (await self.gateway.result("checkout", by_account))["order"]["id"],
            "shipped": (await new_order(self.gateway, record=2))["order"]["id"],
        }
        await self.gateway.result("shipOrder", order_input(self.orders["shipped"]))
        await self.settled()

    async def settled(self) -> None:
        """Waits until everything that followed the answers is done."""
        await self.run_jobs(seconds=31)

    async def state(self) -> State:
        db = self.gateway.db
        stock = await self.gateway.stored("stock", {"_id": "record"})
        orders = {one["_id"]: one async for one in db["orders"].find({})}
        statuses = {name: orders[key_in("Order", order)]["status"] for name, order in self.orders.items()}
        account = await self.gateway.stored("accounts", {"_id": key_in("Account", self.account)})
        units = (stock["available"], stock["sold"])
        return units, statuses, self.provider.taken_in_all(), account["balance"]

    async def assert_settled(self) -> None:
        await assert_nothing_in_flight(self.gateway.db)
        await assert_no_refund_is_open(self.gateway)
        await super().assert_settled()


async def assert_no_refund_is_open(gateway: GatewayClient) -> None:
    """Asserts that every cancelled order has given its money back, and no job has to continue."""
    wrong = {"status": "CANCELLED", "$or": [{"refund.reference": {"$exists": False}}, {"due": {"$exists": True}}]}
    assert await gateway.db["orders"].find_one(wrong) is None
