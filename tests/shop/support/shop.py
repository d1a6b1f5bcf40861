"""A shop for tests: products in stock, carts, and a payment provider."""

from __future__ import annotations

import itertools
from datetime import datetime, timedelta
from typing import Any

from portico.gateway.clock import SystemClock
from portico.resolvers.documents import Database, Document
from portico.resolvers.shop import stock
from portico.resolvers.shop.cart_edits import Buyer
from portico.resolvers.shop.checkout import checkout
from portico.resolvers.shop.payments import TOKEN, Charge, PaymentMethods, PaymentUnknown, Refund
from portico.resolvers.shop.refusals import PaymentDeclined, RefundRefused
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import Kind
from tests.accounts.support.accounts import OWNER
from tests.catalog.support.catalog import add_products, pricing, product
from tests.support.harness import MUTATIONS, GatewayClient, assert_invariants, new_key
from tests.support.ids import key_in

Given = dict[str, Any]
# All jobs that write to the shop.
SHOP_JOBS = (
    "finish-products",
    "finish-stock",
    "expire-carts",
    "finish-checkouts",
    "finish-orders",
    "finish-transfers",
    "relate-products",
)
_numbers = itertools.count(1)


class Provider:
    """A payment provider in memory. As the protocol requires, it charges a reference once, and keeps its outcome.

    The token selects what it does: `accept`, `decline`, `hang` (the outcome is unknown until `is_back`), or `lost` (it
    charges, but the first answer is lost).
    """

    def __init__(self) -> None:
        self.is_back = False
        self.outcomes: dict[str, str] = {}
        self.taken: dict[str, int] = {}
        self.asked = 0
        # What it does about refunds: `given`, `refused` or `hang`; and what it has given back, by reference.
        self.refunds = "given"
        self.given: dict[str, tuple[str, int]] = {}

    def accepts(self, payment: Document) -> bool:
        return bool(payment["method"] == TOKEN)

    async def charge(self, db: Database, charge: Charge, *, now: datetime) -> str:  # noqa: ARG002 - the protocol's
        self.asked += 1
        token = charge.payment["token"]
        is_known = charge.reference in self.outcomes
        if token == "hang" and not self.is_back:
            raise PaymentUnknown
        outcome = self.outcomes.setdefault(charge.reference, "refused" if token == "decline" else "paid")
        if outcome == "refused":
            raise PaymentDeclined
        self.taken.setdefault(charge.reference, charge.amount)
        assert self.taken[charge.reference] == charge.amount
        if token == "lost" and not is_known:
            raise PaymentUnknown
        return f"paid-{charge.reference}"

    async def refund(self, db: Database, refund: Refund, *, now: datetime) -> str:  # noqa: ARG002 - the protocol's
        if self.refunds == "hang":
            raise PaymentUnknown
        outcome = self.outcomes.setdefault(refund.reference, self.refunds)
        if outcome == "refused":
            raise RefundRefused
        self.given.setdefault(refund.reference, (refund.payment_reference, refund.amount))
        return f"refunded-{refund.reference}"

    def taken_in_all(self) -> int:
        """Returns the money that it has taken and not given back."""
        return sum(self.taken.values()) - sum(amount for _, amount in self.given.values())


async def stock_up(gateway: GatewayClient, sku: str | None = None, units: int = 10, price: int = 1000) -> str:
    """Creates a product with this many available units. Returns its SKU."""
    sku = sku or f"stocked-{next(_numbers)}"
    await add_products(gateway.db, [product(sku=sku, title=f"Title of {sku}", pricing=pricing(price, price))])
    if units:
        await stock.restock(
            gateway.db, sku=sku, quantity=units, now=SystemClock().now(), operation_id=random_operation_id()
        )
    return sku


async def restock(gateway: GatewayClient, sku: str, units: int) -> Any:
    return await gateway.result("restock", {"sku": sku, "quantity": units, "idempotencyKey": new_key()})


async def new_cart(gateway: GatewayClient, **units: int) -> str:
    """Gives the caller a cart with these units of each SKU, besides the active one that they may have. Returns its id.

    `createCart` would return the active one.
    """
    cart = await cart_of_nobody(gateway, **units)
    await gateway.db["carts"].update_one({"_id": key_in("Cart", cart)}, {"$set": {"owner": OWNER}})
    return cart


async def full_cart(
    gateway: GatewayClient, quantity: int = 2, *, units: int = 10, price: int = 1000
) -> tuple[str, str]:
    """Gives the caller a cart with so many of the units of a new product. Returns the id of the cart and the SKU."""
    sku = await stock_up(gateway, units=units, price=price)
    return await new_cart(gateway, **{sku: quantity}), sku


def add_input(cart: str, sku: str, quantity: int = 1, **fields: Any) -> Given:
    return {"cartId": cart, "sku": sku, "quantity": quantity, **fields}


def update_input(cart: str, sku: str, old: int, new: int, **fields: Any) -> Given:
    return {"cartId": cart, "sku": sku, "oldQuantity": old, "newQuantity": new, **fields}


def checkout_input(cart: str, pays: str = "accept", **fields: Any) -> Given:
    return {"cartId": cart, "payment": {"token": pays}, "idempotencyKey": new_key(), **fields}


def paid_by(cart: str, account: str) -> Given:
    """A `CheckoutInput` with a payment from an account."""
    return checkout_input(cart, payment={"accountId": account})


def address_input(**fields: Any) -> Given:
    return {"name": "Ada Byron", "line1": "12 St James's Square", "city": "London", "country": "GB", **fields}


async def anonymously(gateway: GatewayClient, mutation: str, given: Given) -> Any:
    """Calls the mutation without a token. Returns its union member."""
    return (await gateway.data(MUTATIONS[mutation], {"input": given}, token=None))[mutation]


async def stock_of(gateway: GatewayClient, sku: str) -> tuple[int, int, int]:
    """Returns the available, reserved and sold units."""
    text = "query ($sku: String!) { product(sku: $sku) { stock { available reserved sold } } }"
    found = (await gateway.data(text, {"sku": sku}))["product"]["stock"]
    return found["available"], found["reserved"], found["sold"]


async def cart_of_nobody(gateway: GatewayClient, **units: int) -> str:
    """Creates a cart without an owner, with these units of each SKU. Returns its id."""
    created = await anonymously(gateway, "createCart", {})
    for sku, quantity in units.items():
        added = await anonymously(gateway, "addItemToCart", add_input(created["cart"]["id"], sku, quantity))
        assert added["__typename"] == "CartPayload", added
    found: str = created["cart"]["id"]
    return found


async def new_order(gateway: GatewayClient, **units: int) -> Any:
    """Buys these units of each SKU. Returns the payload of the checkout."""
    return await gateway.payload("checkout", checkout_input(await new_cart(gateway, **units)))


async def buy_as(gateway: GatewayClient, token: str | None, **fields: Any) -> str:
    """Buys a unit of a new product as the caller with this token, or with none. Returns the id of the order."""
    cart = (await gateway.payload("createCart", {}, token=token))["cart"]["id"]
    await gateway.payload("addItemToCart", add_input(cart, await stock_up(gateway)), token=token)
    bought = await gateway.payload("checkout", checkout_input(cart, **fields), token=token)
    return str(bought["order"]["id"])


def new_buyer(owner: str = OWNER) -> Buyer:
    """Returns a caller of the functions that change carts, without an operation record."""
    return Buyer(owner, SystemClock().now(), timedelta(hours=4), random_operation_id())


async def order_of(gateway: GatewayClient, sku: str, units: int, *, owner: str = OWNER) -> str:
    """Buys units for this owner without an operation record. Returns the id of the order."""
    provider = gateway.state.resources[PaymentMethods] = Provider()
    cart = key_in("Cart", await new_cart(gateway, **{sku: units}))
    payment = {"method": TOKEN, "token": "accept"}
    done = await checkout(gateway.db, new_buyer(owner), provider, cart_id=cart, payment=payment)
    return Kind.encode_id("Order", done.order["_id"])


def order_input(order: str, **fields: Any) -> Given:
    return {"orderId": order, "idempotencyKey": new_key(), **fields}


async def cart_of(gateway: GatewayClient, cart: str, **options: Any) -> Any:
    text = "query ($id: ID!) { cart(id: $id) { status items { sku quantity } total { amount } expiresAt } }"
    return (await gateway.data(text, {"id": cart}, **options))["cart"]


def quantities(cart: Any) -> dict[str, int]:
    return {line["sku"]: line["quantity"] for line in cart["items"]}


async def assert_nothing_in_flight(db: Database) -> None:
    """Asserts that no move is in flight in the stock or in a cart, and no cart is locked."""
    assert await db["stock"].find_one({"$or": [{"under_way": {"$ne": []}}, {"flipped_at": {"$exists": True}}]}) is None
    assert await db["carts"].find_one({"decided": {"$exists": True, "$ne": []}}) is None
    assert await db["carts"].find_one({"status": {"$in": ["PENDING", "EXPIRING"]}}) is None


async def assert_settled(gateway: GatewayClient) -> None:
    """Asserts that nothing is in flight in the shop, and that all invariants hold."""
    await assert_nothing_in_flight(gateway.db)
    await assert_invariants(gateway)
