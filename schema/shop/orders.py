"""Orders, and the checkout of carts."""

from datetime import datetime
from typing import Annotated

import strawberry

from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import Document
from portico.resolvers.shop import carts, orders, refusals
from portico.resolvers.shop.checkout import checkout as check_out
from portico.resolvers.shop.payments import ACCOUNT, TOKEN, PaymentMethods
from portico.resolvers.shop.refusals import EmptyCart, PaymentDeclined
from portico.schema.connections import Connection, Edge, edge_of
from portico.schema.context import Caller, Context, Info
from portico.schema.errors import NotFound, UserError, failure, member
from portico.schema.fields import as_document, as_type, computed, stored
from portico.schema.inputs import After, Before, First, Last, Span, idempotency_key
from portico.schema.money import Money
from portico.schema.mutations import mutation
from portico.schema.nodes import Node, key_in, node_id
from portico.schema.reading import document_kind, document_pages
from portico.schema.viewer import ShowsViewer

from .carts import Cart, CartInactive, buyer_of, line_money, random_key

DEFAULT_ORDERS = 20

ORDER = document_kind(
    "Order",
    orders.ORDERS,
    parse=random_key,
    reads=("owner",),
    visible_to=lambda document, context: carts.is_visible_to(dict(document), context.subject),
)
PAGES = document_pages(ORDER, orders.ORDERS)


@strawberry.type(description="A line of an order.")
class OrderItem:
    sku: str = stored(description="The merchant's own key of the product.")
    title: str = stored(description="The title when the item was added to the cart.")
    quantity: int = stored(description="Whole units, at least 1.")
    unit_price: Money = line_money("The price of one unit.")
    line_total: Money = line_money("The price of all units of the line.", of_all=True)


@strawberry.type(description="A paid cart, with its lines and its total.")
class Order(Node):
    id: strawberry.ID = node_id("Order", "_id")
    placed_at: datetime = stored(description="When the checkout began.")
    items: list[OrderItem] = stored(length=20, description="The items of the order.")
    total: Money = computed(
        lambda order: {"amount": order["total"], "currency": order["currency"]},
        "total",
        "currency",
        description="The amount paid.",
    )
    payment_reference: str = stored(description="The reference of the payment: of the provider, or of the transfer.")


@strawberry.type
class OrderViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The viewer's orders, latest first.")
    async def orders(
        self, info: Info, first: First = DEFAULT_ORDERS, after: After = None, last: Last = None, before: Before = None
    ) -> Connection[Order] | None:
        listing = orders.orders_of(self.caller.subject)
        return Connection(
            page=await PAGES.spanned(info, listing, Span(first, after, last, before), default=DEFAULT_ORDERS)
        )


@strawberry.input(one_of=True, description="Exactly one payment method.")
class PaymentInput:
    account_id: strawberry.ID | None = strawberry.field(
        default=strawberry.UNSET, description="One of the viewer's accounts, debited by a transfer."
    )
    token: str | None = strawberry.field(
        default=strawberry.UNSET, description="A token for the payment provider that the gateway is configured with."
    )

    def document(self, context: Context) -> Document:
        """Returns the payment as stored with the cart. Raises NotFound."""
        if isinstance(self.account_id, str):
            return {"method": ACCOUNT, "account_id": key_in(context, "Account", self.account_id)}
        return {"method": TOKEN, "token": self.token}


@strawberry.input(description="A cart to pay for.")
class CheckoutInput:
    cart_id: strawberry.ID = strawberry.field(description="The cart.")
    payment: PaymentInput = strawberry.field(description="The payment method.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The complete cart, and its order.")
class CheckoutPayload(ShowsViewer):
    cart: Cart = strawberry.field(description="The current cart.")
    order: Order = strawberry.field(description="The new order.")

    @strawberry.field(description="The new order as a row of `viewer.orders`; null for an anonymous caller.")
    def order_edge(self, info: Info) -> Edge[Order] | None:
        subject, order = info.context.subject, as_document(self.order)
        if subject is None:
            return None
        return edge_of(info.context, orders.ORDERS.name, orders.orders_of(subject), order)


failure("The cart is empty.")(EmptyCart)


failure("The payment was refused. The cart is active again, with all its items.")(PaymentDeclined)


@member(refusals.PaymentPending)
@strawberry.type(
    description="The outcome of the payment is not known yet. The cart stays pending. Repeat the call with the same "
    "idempotency key."
)
class PaymentPending(UserError):
    cart: Cart = strawberry.field(description="The cart, which stays locked.")


CheckoutResult = Annotated[
    CheckoutPayload | CartInactive | EmptyCart | PaymentDeclined | PaymentPending | InsufficientFunds | NotFound,
    strawberry.union("CheckoutResult", description="The result of a checkout."),
]


@strawberry.type
class OrderMutation:
    @mutation(settles=True, description="Pays for the items of the cart and creates an order.")
    async def checkout(self, info: Info, input: CheckoutInput) -> CheckoutResult | None:
        done = await check_out(
            info.context.db,
            buyer_of(info),
            info.context.resources.of(PaymentMethods),
            cart_id=key_in(info.context, "Cart", input.cart_id),
            payment=input.payment.document(info.context),
        )
        return CheckoutPayload(cart=as_type(Cart, done.cart), order=as_type(Order, done.order))
