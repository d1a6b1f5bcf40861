"""The demo's stock, and orders of another buyer in every state."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import datetime, timedelta

from portico.gateway.demo.loading import OPERATION, Demo
from portico.gateway.domains.catalog.demo import products
from portico.resolvers.accounts import accounts, transfers
from portico.resolvers.documents import Database
from portico.resolvers.shop import bought_together, cancelling, cart_edits, order_edits, stock, viewer_carts
from portico.resolvers.shop.account_payments import AccountPayments
from portico.resolvers.shop.addresses import Address
from portico.resolvers.shop.cart_edits import Buyer
from portico.resolvers.shop.checkout import checkout
from portico.resolvers.shop.orders import ORDERS
from portico.resolvers.shop.payments import ACCOUNT, PaymentMethods
from portico.resolvers.shop.settings import ShopSettings

_AT_ONCE = 25
# The buyer of the orders, and the money in their account, in minor units of US dollars.
BUYER, _MONEY = "ada", 100_000
_ADDRESS: Address = {
    "name": "Ada Byron",
    "line1": "12 St James's Square",
    "line2": None,
    "city": "London",
    "region": None,
    "postal_code": "SW1Y 4JH",
    "country": "GB",
}
# What is ordered, and what becomes of the order. The latest order comes last.
_ORDERS = (
    (("LP-0005", "LP-0008", "BD-0002"), "DELIVERED"),
    (("LP-0006",), "CANCELLED"),
    (("LP-0003",), "SHIPPED"),
    (("LP-0007",), "PLACED"),
)
_AGO = timedelta(days=2)


async def load(demo: Demo) -> None:
    demo.say(f"stock: {await stock_up(demo.db, now=demo.now):,} products")
    demo.say(f"orders: {await place_orders(demo.db, now=demo.now):,} in different states")
    if demo.resources.of(ShopSettings).payment_url is None:
        demo.say("payments: by account. To pay by token, set PORTICO_PAYMENT_URL, e.g. to the address of")
        demo.say("`portico payment-service`: see docs/shop.md.")


async def stock_up(db: Database, *, now: datetime) -> int:
    """Stocks the demo's products, except a few that are sold out. Returns how many it stocked. Idempotent."""
    units = [(product["sku"], _units(number)) for number, product in enumerate(products())]
    stocked = [(sku, count) for sku, count in units if count]
    for start in range(0, len(stocked), _AT_ONCE):
        some = stocked[start : start + _AT_ONCE]
        await asyncio.gather(
            *(
                stock.restock(db, sku=sku, quantity=count, now=now, operation_id=f"{OPERATION}{sku}")
                for sku, count in some
            )
        )
    return len(stocked)


def _units(number: int) -> int:
    """Returns the units of a product; every twelfth is sold out."""
    return 0 if (number + 1) % 12 == 0 else 10 + number * 7 % 20


async def place_orders(db: Database, *, now: datetime) -> int:
    """Places the orders and brings each into its state. Returns how many. Idempotent."""
    if await db[ORDERS.name].count_documents({"owner": BUYER}, limit=len(_ORDERS)) < len(_ORDERS):
        operation_id = f"{OPERATION}{BUYER}"
        account = await accounts.open_account(
            db, owner=BUYER, name="Everyday", currency="USD", now=now, operation_id=operation_id
        )
        await transfers.deposit(
            db, account_id=account["_id"], amount=_MONEY, currency="USD", now=now, operation_id=operation_id
        )
        payment = {"method": ACCOUNT, "account_id": account["_id"]}
        for number, (skus, status) in enumerate(_ORDERS):
            placed = now - _AGO + timedelta(hours=number)
            await _place_order(db, skus, status, payment, now=placed)
    await bought_together.relate_products(db)
    return len(_ORDERS)


async def _place_order(
    db: Database, skus: Sequence[str], status: str, payment: dict[str, object], *, now: datetime
) -> None:
    sku = skus[0]

    def buyer(step: str, viewer: str | None = BUYER) -> Buyer:
        return Buyer(viewer, now, timedelta(days=3), f"{OPERATION}{sku}.{step}")

    methods = PaymentMethods({ACCOUNT: AccountPayments()})
    # A cart without an owner for each order: a viewer has one at a time, so repeated steps could find another one.
    cart = (await viewer_carts.create_cart(db, buyer("cart", None)))["_id"]
    for one in skus:
        await cart_edits.add_item(db, buyer(f"line {one}"), cart_id=cart, sku=one, quantity=1)
    bought = await checkout(db, buyer("order"), methods, cart_id=cart, payment=payment, address=_ADDRESS)
    step = {"order_id": bought.order["_id"], "now": now + timedelta(minutes=5), "operation_id": f"{OPERATION}{sku}"}
    if status == "CANCELLED":
        await cancelling.cancel(db, methods, viewer=BUYER, is_merchant=False, **step)
    if status in {"SHIPPED", "DELIVERED"}:
        await order_edits.ship(db, tracking_number="RR 123 456 785 GB", **step)
    if status == "DELIVERED":
        arrived = {"now": now + timedelta(days=1), "operation_id": f"{OPERATION}{sku}.delivery"}
        await order_edits.deliver(db, **{**step, **arrived})
