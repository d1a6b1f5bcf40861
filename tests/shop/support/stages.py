"""A cart and two products, and the writes of the shop."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from portico.resolvers.shop.account_payments import AccountPayments, shop_account_id
from portico.resolvers.shop.payments import ACCOUNT, TOKEN, PaymentMethods
from portico.resolvers.writes.settler import Answering, Settler
from portico.schema.kinds import Kind
from portico.testing.stages import Case, Stage
from tests.accounts.support.accounts import balances, open_account
from tests.shop.support.shop import (
    SHOP_JOBS,
    Provider,
    add_input,
    assert_nothing_in_flight,
    new_cart,
    stock_up,
    update_input,
)
from tests.support.harness import assert_invariants
from tests.support.ids import key_in

# The counters of `plenty` and `last`, the status and the lines of the cart, and the number of orders.
State = tuple[tuple[int, int, int], tuple[int, int, int], str, dict[str, int], int]
BEFORE: State = ((8, 2, 0), (1, 0, 0), "ACTIVE", {"plenty": 2}, 0)
CASES = {
    "a first restock": Case("restock", lambda _: {"sku": "unstocked", "quantity": 5}, "StockPayload", BEFORE),
    "a restock": Case(
        "restock",
        lambda _: {"sku": "plenty", "quantity": 5},
        "StockPayload",
        ((13, 2, 0), (1, 0, 0), "ACTIVE", {"plenty": 2}, 0),
    ),
    "a removal from stock": Case(
        "restock",
        lambda _: {"sku": "last", "quantity": -1},
        "StockPayload",
        ((8, 2, 0), (0, 0, 0), "ACTIVE", {"plenty": 2}, 0),
    ),
    "a removal of too much": Case(
        "restock", lambda _: {"sku": "plenty", "quantity": -9}, "InadequateInventory", BEFORE
    ),
    "adding to a line": Case(
        "addItemToCart",
        lambda stage: add_input(stage.cart, "plenty", 3),
        "CartPayload",
        ((5, 5, 0), (1, 0, 0), "ACTIVE", {"plenty": 5}, 0),
    ),
    "adding the last unit": Case(
        "addItemToCart",
        lambda stage: add_input(stage.cart, "last"),
        "CartPayload",
        ((8, 2, 0), (0, 1, 0), "ACTIVE", {"plenty": 2, "last": 1}, 0),
    ),
    "adding too much": Case(
        "addItemToCart", lambda stage: add_input(stage.cart, "last", 2), "InadequateInventory", BEFORE
    ),
    "more of a line": Case(
        "updateCartItem",
        lambda stage: update_input(stage.cart, "plenty", 2, 5),
        "CartPayload",
        ((5, 5, 0), (1, 0, 0), "ACTIVE", {"plenty": 5}, 0),
    ),
    "less of a line": Case(
        "updateCartItem",
        lambda stage: update_input(stage.cart, "plenty", 2, 1),
        "CartPayload",
        ((9, 1, 0), (1, 0, 0), "ACTIVE", {"plenty": 1}, 0),
    ),
    "removing a line": Case(
        "updateCartItem",
        lambda stage: update_input(stage.cart, "plenty", 2, 0),
        "CartPayload",
        ((10, 0, 0), (1, 0, 0), "ACTIVE", {}, 0),
    ),
    "claiming": Case("claimCart", lambda stage: {"cartId": stage.cart}, "CartPayload", BEFORE),
    "discarding": Case(
        "discardCart",
        lambda stage: {"cartId": stage.cart},
        "CartPayload",
        ((10, 0, 0), (1, 0, 0), "EXPIRED", {"plenty": 2}, 0),
    ),
    "a checkout": Case(
        "checkout",
        lambda stage: {"cartId": stage.cart, "payment": {"token": "accept"}},
        "CheckoutPayload",
        ((8, 0, 2), (1, 0, 0), "COMPLETE", {"plenty": 2}, 1),
    ),
    "a checkout that is refused": Case(
        "checkout", lambda stage: {"cartId": stage.cart, "payment": {"token": "decline"}}, "PaymentDeclined", BEFORE
    ),
    "deleting what is available": Case(
        "deleteProduct",
        lambda stage: stage.product("last"),
        "DeletedPayload",
        ((8, 2, 0), (0, 0, 0), "ACTIVE", {"plenty": 2}, 0),
    ),
    "deleting what a cart holds": Case("deleteProduct", lambda stage: stage.product("plenty"), "ProductInUse", BEFORE),
}


class Paying(Stage):
    """Data with a payment provider, whose state is restored as well."""

    provider: Provider

    def use(self, provider: Provider) -> None:
        """Lets the gateway take money by this provider, and from accounts."""
        self.provider = provider
        methods = PaymentMethods({ACCOUNT: AccountPayments(), TOKEN: provider})
        self.gateway.state.resources[PaymentMethods] = methods

    async def saved(self) -> Callable[[], Awaitable[None]]:
        restore, provider = await super().saved(), copy.deepcopy(self.provider)

        async def restored() -> None:
            await restore()
            self.use(copy.deepcopy(provider))

        return restored


class Shop(Paying):
    """A cart with two units of a product, and another product with one unit."""

    collections: Sequence[str] = ("products", "stock", "carts", "orders", "operations", "intents")
    job_names = SHOP_JOBS
    next_run = 31
    before: ClassVar[Any] = BEFORE
    cases: ClassVar[Mapping[str, Case]] = CASES

    async def build(self) -> None:
        self.use(Provider())
        await stock_up(self.gateway, "plenty", 10)
        await stock_up(self.gateway, "last", 1)
        await stock_up(self.gateway, "unstocked", 0)
        self.cart = await new_cart(self.gateway, plenty=2)
        self.products = {one["sku"]: one["nonce"] async for one in self.gateway.db["products"].find({})}

    async def paid(self) -> int:
        """Return how often money was taken."""
        return len(self.provider.taken)

    def product(self, sku: str) -> dict[str, Any]:
        return {"id": Kind.encode_id("Product", sku), "nonce": self.products[sku]}

    async def state(self) -> State:
        counters = {}
        for sku in ("plenty", "last"):
            stock = await self.gateway.stored("stock", {"_id": sku})
            counters[sku] = (stock["available"], stock["reserved"], stock["sold"])
        cart = await self.gateway.stored("carts", {"_id": key_in("Cart", self.cart)})
        lines = {line["sku"]: line["quantity"] for line in cart["items"]}
        orders = await self.gateway.db["orders"].count_documents({})
        return counters["plenty"], counters["last"], cart["status"], lines, orders

    async def assert_sound(self) -> None:
        """Asserts that the doctor reports nothing, not even what an unfinished write explains."""
        await assert_invariants(self.gateway, empty=await self._empty())

    async def assert_settled(self) -> None:
        await assert_nothing_in_flight(self.gateway.db)
        assert await self.gateway.db["products"].find_one({"deleting": {"$exists": True}}) is None
        assert await self.gateway.db["stock"].find_one({"closed.is_final": False}) is None
        await super().assert_settled()
        assert await self.paid() == await self.gateway.db["orders"].count_documents({})
        in_stock = {one["sku"]: one.get("in_stock", False) async for one in self.gateway.db["products"].find({})}
        stocked = {one["_id"]: one["available"] > 0 async for one in self.gateway.db["stock"].find({})}
        assert {sku: stocked.get(sku, False) for sku in in_stock} == in_stock


class ShopWithAccounts(Shop):
    """The same, and two accounts of the buyer: one can pay for the cart. The first payment opens that of the shop."""

    collections = (*Shop.collections, "accounts", "transfers")
    # The balances of the account that can pay and of the shop, and the state of the shop.
    before = ((5000, 0), BEFORE)
    cases: ClassVar[Mapping[str, Case]] = {
        "a checkout by account": Case(
            "checkout",
            lambda stage: {"cartId": stage.cart, "payment": {"accountId": stage.rich}},
            "CheckoutPayload",
            ((3000, 2000), ((8, 0, 2), (1, 0, 0), "COMPLETE", {"plenty": 2}, 1)),
        ),
    }

    async def build(self) -> None:
        await super().build()
        self.rich, self.poor = [await open_account(self.gateway.db, amount) for amount in (5000, 1999)]

    def use(self, provider: Provider) -> None:
        self.provider = provider
        resources = self.gateway.state.resources
        by_account = AccountPayments(Answering(resources.of(Settler)))
        resources[PaymentMethods] = PaymentMethods({ACCOUNT: by_account, TOKEN: provider})

    async def paid(self) -> int:
        paid = {"reference": {"$exists": True}, "state": "SETTLED"}
        return int(await self.gateway.db["transfers"].count_documents(paid))

    async def state(self) -> Any:
        [rich] = await balances(self.gateway.db, self.rich)
        shop = await self.gateway.db["accounts"].find_one({"_id": shop_account_id("USD")})
        return (rich, 0 if shop is None else shop["balance"]), await super().state()


class ShopWithPoorBuyer(ShopWithAccounts):
    """The same. Its case is the only one, so that it is tried in all ways."""

    cases: ClassVar[Mapping[str, Case]] = {
        "a checkout by an account with too little": Case(
            "checkout",
            lambda stage: {"cartId": stage.cart, "payment": {"accountId": stage.poor}},
            "InsufficientFunds",
            ((5000, 0), BEFORE),
        ),
    }
