"""Orders, and the checkout of carts."""

from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.resolvers import errors
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import Document
from portico.resolvers.shop import addresses, cancelling, carts, order_edits, orders, refusals
from portico.resolvers.shop.checkout import checkout as check_out
from portico.resolvers.shop.orders import OrderDocument
from portico.resolvers.shop.payments import ACCOUNT, TOKEN, PaymentMethods
from portico.resolvers.shop.refusals import EmptyCart, PaymentDeclined
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.catalog.products import Product
from portico.schema.connections import Connection, Edge, Paged, edge_of
from portico.schema.context import Caller, Context, Info
from portico.schema.errors import InvalidInput, NotFound, UserError, failure, member
from portico.schema.fields import as_document, as_type, computed, reads, related, stored
from portico.schema.inputs import After, Before, First, Last, Span, described, idempotency_key
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.money import Money
from portico.schema.mutations import mutation
from portico.schema.parts import part_id
from portico.schema.reading import load_one
from portico.schema.viewer import ShowsViewer

from .carts import Cart, CartInactive, buyer_of, line_money, random_key

DEFAULT_ORDERS = 20


def _is_visible(document: OrderDocument, context: Context) -> bool:
    return carts.is_visible_to(dict(document), context.subject) or is_merchant(context)


def is_merchant(context: Context) -> bool:
    """Returns whether the caller may see and change the orders of others."""
    return context.caller is not None and context.caller.has(MERCHANT)


ORDER = Kind.of("Order", orders.ORDERS, parse=random_key, reads=("owner",), visible_to=_is_visible)


def _sees_all(context: Context, wanted: Mapping[str, Any]) -> bool:
    return is_merchant(context) or (context.subject is not None and wanted.get("owner") == context.subject)


PAGES = Paged.of(ORDER, orders.ORDERS, counts=_sees_all)


@strawberry.enum(description="The state of an order.")
class OrderStatus(Enum):
    PLACED = strawberry.enum_value("PLACED", description="Paid for. It can be shipped or cancelled.")
    SHIPPED = strawberry.enum_value("SHIPPED", description="On its way. It can no longer be cancelled.")
    DELIVERED = strawberry.enum_value("DELIVERED", description="Delivered. This is final.")
    CANCELLED = strawberry.enum_value(
        "CANCELLED", description="Cancelled: its units are in stock again, and its money goes back. This is final."
    )


@strawberry.type(description="A line of an order.")
class OrderItem:
    sku: str = stored(description="The merchant's own key of the product.")
    title: str = stored(description="The title when the item was added to the cart.")
    quantity: int = stored(description="Whole units, at least 1.")
    unit_price: Money = line_money("The price of one unit.")
    line_total: Money = line_money("The price of all units of the line.", of_all=True)
    product: Product | None = related("Product", "sku", description="Null after the product is deleted.")


@strawberry.type(description="A status that an order has or had.")
class OrderStatusChange:
    id: strawberry.ID = part_id(
        "OrderStatusChange", lambda change: f"{change['order']}.{change['status']}", "order", "status"
    )
    status: OrderStatus = stored(description="The status.")
    at: datetime = stored(description="Since when.")


@strawberry.type(description="A postal address.")
class Address:
    name: str = stored(description="The recipient.")
    line1: str = stored(description="The street and the number, or what takes their place.")
    line2: str | None = stored(description="A further line, for example the floor.")
    city: str = stored(description="The city.")
    region: str | None = stored(description="The state or the province.")
    postal_code: str | None = stored(description="The postal code.")
    country: str = stored(description="The ISO 3166-1 code of the country, for example `DE`.")


@strawberry.type(description="A paid cart, with its lines, its total and its status.")
class Order(Node):
    id: strawberry.ID = node_id("Order", "_id")
    placed_at: datetime = stored(description="When the checkout began.")
    status: OrderStatus = stored(description="The state of the order.")
    history: list[OrderStatusChange] = computed(
        lambda order: [{**change, "order": order["_id"]} for change in order["history"]],
        "_id",
        "history",
        length=3,
        description="Each status that the order has had, the present one last.",
    )
    items: list[OrderItem] = stored(length=20, description="The items of the order.")
    total: Money = computed(
        lambda order: {"amount": order["total"], "currency": order["currency"]},
        "total",
        "currency",
        description="The amount paid.",
    )
    payment_reference: str = stored(description="The reference of the payment: of the provider, or of the transfer.")
    tracking_number: str | None = stored(
        description="The carrier's number of the parcel, if the merchant has given it."
    )
    refunded_at: datetime | None = stored(
        "refund.at", description="When the money of a cancelled order was given back. Null until then."
    )
    refund_reference: str | None = stored(
        "refund.reference", description="The reference of the refund: of the provider, or of the transfer."
    )

    @reads("owner", "address", description="Where it is sent, if anywhere. For the owner of the order and a MERCHANT.")
    @staticmethod
    def address(root: strawberry.Parent[OrderDocument], info: Info) -> Address | None:
        is_owner = root["owner"] is not None and root["owner"] == info.context.subject
        address = root.get("address")
        return as_type(Address, address) if address is not None and (is_owner or is_merchant(info.context)) else None


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


@strawberry.type
class OrderQuery:
    @strawberry.field(description="The order with this id, if the caller can see it.")
    async def order(self, info: Info, id: Annotated[strawberry.ID, described("The order's id.")]) -> Order | None:
        try:
            key = Kind.key_in(info.context, ORDER.name, id)
        except errors.NotFound:
            return None
        found = await load_one(info, ORDER, key)
        return None if found is None else as_type(Order, found)

    @strawberry.field(description="The orders of all buyers, latest first. For a MERCHANT.")
    async def orders(
        self,
        info: Info,
        status: Annotated[OrderStatus | None, described("Only orders with this status.")] = None,
        first: First = DEFAULT_ORDERS,
        after: After = None,
        last: Last = None,
        before: Before = None,
    ) -> Connection[Order] | None:
        info.context.require_caller(MERCHANT)
        listing = orders.all_orders(None if status is None else status.name)
        return Connection(
            page=await PAGES.spanned(info, listing, Span(first, after, last, before), default=DEFAULT_ORDERS)
        )


@strawberry.input(description="A postal address. Each text has at most 200 characters, the postal code 20.")
class AddressInput:
    name: str = strawberry.field(description="The recipient.")
    line1: str = strawberry.field(description="The street and the number, or what takes their place.")
    line2: str | None = strawberry.field(default=None, description="A further line, for example the floor.")
    city: str = strawberry.field(description="The city.")
    region: str | None = strawberry.field(default=None, description="The state or the province.")
    postal_code: str | None = strawberry.field(default=None, description="The postal code.")
    country: str = strawberry.field(description="The ISO 3166-1 code of the country, for example `DE`.")

    def document(self) -> addresses.Address:
        return {
            "name": self.name,
            "line1": self.line1,
            "line2": self.line2,
            "city": self.city,
            "region": self.region,
            "postal_code": self.postal_code,
            "country": self.country,
        }


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
            return {"method": ACCOUNT, "account_id": Kind.key_in(context, "Account", self.account_id)}
        return {"method": TOKEN, "token": self.token}


@strawberry.input(description="A cart to pay for.")
class CheckoutInput:
    cart_id: strawberry.ID = strawberry.field(description="The cart.")
    payment: PaymentInput = strawberry.field(description="The payment method.")
    address: AddressInput | None = strawberry.field(default=None, description="Where the order is sent, if anywhere.")
    idempotency_key: str = idempotency_key(is_required=True)


@strawberry.type(description="The complete cart, and its order.")
class CheckoutPayload(ShowsViewer):
    cart: Cart = strawberry.field(description="The current cart.")
    order: Order = strawberry.field(description="The new order.")

    @strawberry.field(description="The new order as a row of `viewer.orders`; null for an anonymous caller.")
    def order_edge(self, info: Info) -> Edge[Order] | None:
        return _edge_of(info, self.order)


def _edge_of(info: Info, shown: Order) -> Edge[Order] | None:
    """Returns the order as a row of `viewer.orders`; None if it is somebody else's."""
    subject, order = info.context.subject, as_document(shown)
    if subject is None or order["owner"] != subject:
        return None
    return edge_of(info.context, orders.ORDERS.name, orders.orders_of(subject), order)


@strawberry.type(description="The order after the change. Its items lead to the stock of the products.")
class OrderPayload(ShowsViewer):
    order: Order = strawberry.field(description="The current order.")

    @strawberry.field(description="The order as a row of `viewer.orders`; null if the order is not the viewer's.")
    def order_edge(self, info: Info) -> Edge[Order] | None:
        return _edge_of(info, self.order)


@strawberry.input(description="An order that is on its way.")
class ShipOrderInput:
    order_id: strawberry.ID = strawberry.field(description="The order.")
    tracking_number: str | None = strawberry.field(
        default=None, description="The carrier's number of the parcel, up to 100 characters."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="An order that has arrived.")
class DeliverOrderInput:
    order_id: strawberry.ID = strawberry.field(description="The order.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="An order to cancel.")
class CancelOrderInput:
    order_id: strawberry.ID = strawberry.field(description="The order.")
    idempotency_key: str | None = idempotency_key()


@member(refusals.OrderStatusConflict)
@strawberry.type(description="The status of the order does not allow the change.")
class OrderStatusConflict(UserError):
    order: Order = strawberry.field(description="The current order.")


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
    CheckoutPayload
    | CartInactive
    | EmptyCart
    | PaymentDeclined
    | PaymentPending
    | InsufficientFunds
    | NotFound
    | InvalidInput,
    strawberry.union("CheckoutResult", description="The result of a checkout."),
]
ShipOrderResult = Annotated[
    OrderPayload | OrderStatusConflict | NotFound | InvalidInput,
    strawberry.union("ShipOrderResult", description="The result of shipping an order."),
]
DeliverOrderResult = Annotated[
    OrderPayload | OrderStatusConflict | NotFound,
    strawberry.union("DeliverOrderResult", description="The result of delivering an order."),
]
CancelOrderResult = Annotated[
    OrderPayload | OrderStatusConflict | NotFound,
    strawberry.union("CancelOrderResult", description="The result of cancelling an order."),
]


@strawberry.type
class OrderMutation:
    @mutation(settles=True, description="Pays for the items of the cart and creates an order.")
    async def checkout(self, info: Info, input: CheckoutInput) -> CheckoutResult | None:
        done = await check_out(
            info.context.db,
            buyer_of(info),
            info.context.resources.of(PaymentMethods),
            cart_id=Kind.key_in(info.context, "Cart", input.cart_id),
            payment=input.payment.document(info.context),
            address=None if input.address is None else input.address.document(),
        )
        return CheckoutPayload(cart=as_type(Cart, done.cart), order=as_type(Order, done.order))

    @mutation(role=MERCHANT, description="Marks a placed order as shipped. For a MERCHANT.")
    async def ship_order(self, info: Info, input: ShipOrderInput) -> ShipOrderResult | None:
        shipped = await order_edits.ship(
            info.context.db,
            order_id=Kind.key_in(info.context, "Order", input.order_id),
            tracking_number=input.tracking_number,
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return OrderPayload(order=as_type(Order, shipped))

    @mutation(role=MERCHANT, description="Marks a shipped order as delivered. For a MERCHANT.")
    async def deliver_order(self, info: Info, input: DeliverOrderInput) -> DeliverOrderResult | None:
        delivered = await order_edits.deliver(
            info.context.db,
            order_id=Kind.key_in(info.context, "Order", input.order_id),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return OrderPayload(order=as_type(Order, delivered))

    @mutation(
        description="Cancels an order that is not shipped yet. Its units return to stock, and its money goes back to "
        "where it came from: `refundedAt` says when it did. For the buyer and a MERCHANT."
    )
    async def cancel_order(self, info: Info, input: CancelOrderInput) -> CancelOrderResult | None:
        cancelled = await cancelling.cancel(
            info.context.db,
            info.context.resources.of(PaymentMethods),
            order_id=Kind.key_in(info.context, "Order", input.order_id),
            viewer=info.context.subject,
            is_merchant=is_merchant(info.context),
            now=info.context.now,
            operation_id=info.context.operation_id,
        )
        return OrderPayload(order=as_type(Order, cancelled))
