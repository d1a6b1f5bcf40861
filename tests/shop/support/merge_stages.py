"""A cart of the viewer, and one without an owner that is merged into it."""

from __future__ import annotations

from portico.testing.stages import Case, Stage
from tests.shop.support.shop import SHOP_JOBS, assert_nothing_in_flight, cart_of_nobody, new_cart, stock_up
from tests.support.ids import key_in

# The available and reserved units of `plenty` and `last`, the status and the lines of the viewer's cart, and the status
# of the other one. Nobody can buy one of these units meanwhile: none is left.
State = tuple[tuple[int, int], tuple[int, int], str, dict[str, int], str]
BEFORE: State = ((0, 5), (0, 1), "ACTIVE", {"plenty": 2}, "ACTIVE")
AFTER: State = ((0, 5), (0, 1), "ACTIVE", {"plenty": 5, "last": 1}, "EXPIRED")


class Merging(Stage):
    """Two carts that have all units of two products."""

    collections = ("stock", "carts", "orders", "products", "operations")
    job_names = SHOP_JOBS
    next_run = 31
    before = BEFORE
    cases = {  # noqa: RUF012 - nothing changes it
        "merging": Case("claimCart", lambda stage: {"cartId": stage.other}, "CartPayload", AFTER),
    }

    async def build(self) -> None:
        await stock_up(self.gateway, "plenty", 5)
        await stock_up(self.gateway, "last", 1)
        self.cart = await new_cart(self.gateway, plenty=2)
        self.other = await cart_of_nobody(self.gateway, plenty=3, last=1)

    async def state(self) -> State:
        stocks = {one["_id"]: (one["available"], one["reserved"]) async for one in self.gateway.db["stock"].find({})}
        carts = {one["_id"]: one async for one in self.gateway.db["carts"].find({})}
        mine, other = carts[key_in("Cart", self.cart)], carts[key_in("Cart", self.other)]
        lines = {line["sku"]: line["quantity"] for line in mine["items"]}
        return stocks["plenty"], stocks["last"], mine["status"], lines, other["status"]

    async def assert_settled(self) -> None:
        await assert_nothing_in_flight(self.gateway.db)
        await super().assert_settled()
