"""Orders, and how a cart becomes one."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, cast

import strawberry

from portico.loaders.shop import orders as loaders
from portico.resolvers import errors
from portico.resolvers.documents import Document
from portico.resolvers.payments import ACCOUNT, TOKEN, PaymentMethods
from portico.resolvers.shop import carts, orders
from portico.resolvers.shop.checkout import checkout as check_out
from portico.schema.accounts.accounts import InsufficientFunds
from portico.schema.connections import Connection, Paged
from portico.schema.context import Caller, Info
from portico.schema.errors import NotFound, UserError, member
from portico.schema.fields import computed, stored
from portico.schema.inputs import After, First, idempotency_key
from portico.schema.money import Money
from portico.schema.mutations import mutation
from portico.schema.nodes import Kind, Node, key_in, node_id

from .carts import Cart, CartInactive, buyer_of, line_money, random_key

DEFAULT_ORDERS = 20

ORDER = Kind(
    name="Order",
    path="_id",
    parse=random_key,
    read=loaders.by_id,
    types=("Order",),
    type_name=lambda _document: "Order",
    discriminator=("owner",),
    visible_to=lambda document, context: carts.is_visible_to(dict(document), context.subject),
)
_PAGED = Paged("Order", loaders.pages)


@strawberry.type(description="A line of an order.")
class OrderItem:
    sku: str = stored(description="The merchant's own key of the product.")
    title: str = stored(description="The title when the item was put into the cart.")
    quantity: int = stored(description="Whole units, at least 1.")
    unit_price: Money = line_money("What one unit cost.")
    line_total: Money = line_money("What all units of the line cost.", of_all=True)


@strawberry.type(description="A paid cart: its lines and its total are one document.")
class Order(Node):
    id: strawberry.ID = node_id("Order", "_id")
    placed_at: datetime = stored(description="When the checkout began.")
    items: list[OrderItem] = stored(length=20, description="What was bought.")
    total: Money = computed(
        lambda order: {"amount": order["total"], "currency": order["currency"]},
        "total",
        "currency",
        description="What was paid.",
    )
    payment_reference: str = stored(description="What the payment is called by those who collected it.")


@strawberry.type
class OrderViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="What the viewer has bought, latest first.")
    async def orders(self, info: Info, first: First = DEFAULT_ORDERS, after: After = None) -> Connection[Order]:
        listing = orders.orders_of(self.caller.subject)
        return Connection(page=await _PAGED.page(info, listing, first=first, default=DEFAULT_ORDERS, after=after))


@strawberry.input(one_of=True, description="Exactly one way to pay.")
class PaymentInput:
    account_id: strawberry.ID | None = strawberry.field(
        default=strawberry.UNSET, description="An account of the viewer's, debited by a transfer."
    )
    token: str | None = strawberry.field(
        default=strawberry.UNSET, description="A token for the payment provider that the gateway is configured with."
    )

    def document(self) -> Document:
        """Raises NotFound."""
        if isinstance(self.account_id, str):
            return {"method": ACCOUNT, "account_id": key_in("Account", self.account_id)}
        return {"method": TOKEN, "token": self.token}


@strawberry.input(description="A cart to be paid for.")
class CheckoutInput:
    cart_id: strawberry.ID = strawberry.field(description="The cart.")
    payment: PaymentInput = strawberry.field(description="How it is paid.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The cart, which is complete, and its order.")
class CheckoutPayload:
    cart: Cart = strawberry.field(description="As it is now.")
    order: Order = strawberry.field(description="What was bought.")


@member(errors.EmptyCart)
@strawberry.type(description="There is nothing in the cart.")
class EmptyCart(UserError):
    pass


@member(errors.PaymentDeclined)
@strawberry.type(description="The payment was refused. The cart is active again, with everything in it.")
class PaymentDeclined(UserError):
    pass


@member(errors.PaymentPending)
@strawberry.type(
    description="The provider has not answered. The cart stays pending; the same idempotency key asks again."
)
class PaymentPending(UserError):
    cart: Cart = strawberry.field(description="The cart, which stays locked.")


CheckoutResult = Annotated[
    CheckoutPayload | CartInactive | EmptyCart | PaymentDeclined | PaymentPending | InsufficientFunds | NotFound,
    strawberry.union("CheckoutResult", description="What came of a checkout."),
]


@strawberry.type
class OrderMutation:
    @mutation(description="Pays for what is in the cart, and makes an order of it.")
    async def checkout(self, info: Info, input: CheckoutInput) -> CheckoutResult | None:
        done = await check_out(
            info.context.db,
            buyer_of(info),
            info.context.resources.of(PaymentMethods),
            cart_id=key_in("Cart", input.cart_id),
            payment=input.payment.document(),
        )
        return CheckoutPayload(cart=cast("Cart", done.cart), order=cast("Order", done.order))
