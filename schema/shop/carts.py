"""Shopping carts."""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from typing import Annotated, Any

import strawberry

from portico.loaders.shop import carts as loaders
from portico.resolvers import errors
from portico.resolvers.documents import Document, projection_name
from portico.resolvers.shop import cart_edits, carts, refusals, viewer_carts
from portico.resolvers.shop.cart_edits import Buyer
from portico.resolvers.shop.carts import Line
from portico.resolvers.shop.refusals import InadequateInventory
from portico.resolvers.shop.settings import ShopSettings
from portico.resolvers.texts import trimmed
from portico.schema.catalog.products import PRODUCT, Product
from portico.schema.context import Caller, Info, core
from portico.schema.errors import Conflict, InvalidInput, NotFound, UserError, failure, member
from portico.schema.fields import as_type, computed, kept_privately, related, stored
from portico.schema.inputs import described, idempotency_key
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.money import Money
from portico.schema.mutations import mutation
from portico.schema.nodes import is_visible, projection_of
from portico.schema.parts import part_id
from portico.schema.reading import load_one
from portico.schema.viewer import ShowsViewer

_CART_ID = re.compile(r"[0-9a-f]{32}")


def random_key(text: str) -> str:
    """Parses the key of a cart or an order. Raises ValueError."""
    if not _CART_ID.fullmatch(text):
        raise ValueError(text)
    return text


CART = Kind.of(
    "Cart",
    carts.CARTS,
    parse=random_key,
    read=loaders.by_id,
    reads=("owner",),
    visible_to=lambda document, context: carts.is_visible_to(dict(document), context.subject),
)


@strawberry.enum(description="The state of a cart.")
class CartStatus(Enum):
    ACTIVE = strawberry.enum_value("ACTIVE", description="Items can be added and removed.")
    PENDING = strawberry.enum_value("PENDING", description="Locked while the payment is collected.")
    COMPLETE = strawberry.enum_value("COMPLETE", description="Paid for.")
    EXPIRING = strawberry.enum_value(
        "EXPIRING", description="Idle for too long, discarded, or being merged: locked while its items leave it."
    )
    EXPIRED = strawberry.enum_value(
        "EXPIRED",
        description="Idle for too long, discarded, or merged into another cart: its items are in stock again or there.",
    )


def line_money(description: str, *, of_all: bool = False) -> Any:
    """Declares a field for the price of one unit of a line, or of all units."""

    def amount(line: Line) -> dict[str, Any]:
        units = line["quantity"] if of_all else 1
        return {"amount": line["price"] * units, "currency": line["currency"]}

    return computed(amount, "price", "quantity", "currency", description=description)


@strawberry.type(description="A line of a cart.")
class CartItem:
    id: strawberry.ID = part_id("CartItem", lambda line: f"{line['cart']}.{line['sku']}", "cart", "sku")
    sku: str = stored(description="The merchant's own key of the product.")
    quantity: int = stored(description="Whole units, at least 1.")
    unit_price: Money = line_money("The retail price when the item was added last.")
    line_total: Money = line_money("The price of all units of the line.", of_all=True)
    title: str = stored(description="The title when the item was added last.")
    product: Product | None = related("Product", "sku", description="Null after the product is deleted.")


@strawberry.type(
    description="A shopping cart. Its id is unguessable. Every caller with the id can use a cart without an owner. The "
    "signed-in viewer who creates or claims a cart is its owner; only the owner can use it."
)
class Cart(Node):
    id: strawberry.ID = node_id("Cart", "_id")
    status: CartStatus = stored(description="The state of the cart.")
    items: list[CartItem] = computed(
        lambda cart: [{**line, "cart": cart["_id"]} for line in cart["items"]],
        "_id",
        "items",
        length=carts.MAX_LINES,
        compared=True,
        description="Its lines, in the order in which they were added.",
    )
    total: Money = computed(
        lambda cart: {"amount": carts.total_of(dict(cart)), "currency": cart["currency"]},
        "items",
        "currency",
        compared=True,
        description="The amount to pay at checkout, at the prices when the items were added.",
    )
    last_modified: datetime = stored(description="When a buyer changed it last.")
    expires_at: datetime | None = stored(
        description="When an idle cart expires and its items return to stock. Null unless the cart is active."
    )


@strawberry.type
class CartQuery:
    @strawberry.field(description="The cart with this id, if the caller can use it.")
    async def cart(self, info: Info, id: Annotated[strawberry.ID, described("The cart's id.")]) -> Cart | None:
        try:
            key = Kind.key_in(info.context, "Cart", id)
        except errors.NotFound:
            return None
        projection = projection_of(core(info), CART)
        name = ("Cart", projection_name(projection))
        cart = await info.context.loader(name, lambda: loaders.by_id(info.context.db, projection)).load(key)
        is_shown = cart is not None and await is_visible(info.context, CART, cart)
        return as_type(Cart, cart) if is_shown else None


@strawberry.type
class CartViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The viewer's last changed cart that is active or being paid for.")
    async def cart(self, info: Info) -> Cart | None:
        context, projection = info.context, projection_of(core(info), CART)
        name = ("the viewer's cart", projection_name(projection))
        mine = context.loader(name, lambda: loaders.of_owner(context.db, projection))
        return as_type(Cart, await mine.load(self.caller.subject))


@strawberry.input(
    description="A new, empty cart, or the active one of the viewer. Without a token, choose a random idempotency key: "
    "every caller without a token who repeats the key gets the same cart, until the cart has an owner."
)
class CreateCartInput:
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="Units of a product to add to a cart.")
class AddItemToCartInput:
    cart_id: strawberry.ID = strawberry.field(description="The cart.")
    sku: str = strawberry.field(description="The product.")
    quantity: int = strawberry.field(default=1, description="Units to add; a line can have at most 1,000.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A new quantity for a line of a cart.")
class UpdateCartItemInput:
    cart_id: strawberry.ID = strawberry.field(description="The cart.")
    sku: str = strawberry.field(description="The product.")
    old_quantity: int = strawberry.field(
        description="The quantity that you last saw. If the line has another quantity, you get a Conflict, which has "
        "the current cart. Calls that were sent in quick succession are put in order: the call waits for a third of a "
        "second until the line has this quantity."
    )
    new_quantity: int = strawberry.field(description="The new quantity; 0 removes the line.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A cart to claim.")
class ClaimCartInput:
    cart_id: strawberry.ID = strawberry.field(description="A cart that has no owner, or an older one of the viewer.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A cart to give up.")
class DiscardCartInput:
    cart_id: strawberry.ID = strawberry.field(description="The cart.")
    idempotency_key: str | None = idempotency_key()


@strawberry.type
class CartOfConflict:
    """The fields that the shop adds to a conflict."""

    about: strawberry.Private[Mapping[str, Any] | None]

    @strawberry.field(description="The current cart, if the conflict is about a line of a cart.")
    async def current_cart(self, info: Info) -> Cart | None:
        return None if self.about is None else as_type(Cart, await load_one(info, CART, self.about["cart"]))

    @strawberry.field(description="The title of the product of that line. Null after the product is deleted.")
    def product_title(self) -> str | None:
        return None if self.about is None else self.about["title"]


@strawberry.type(description="The cart after the write.")
class CartPayload(ShowsViewer):
    cart: Cart = strawberry.field(description="The current cart.")
    about: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        description="The product whose stock the call has changed, even if the cart has none of it any more."
    )
    async def product(self, info: Info) -> Product | None:
        return None if self.about is None else as_type(Product, await load_one(info, PRODUCT, self.about["sku"]))


@member(refusals.CartInactive)
@strawberry.type(description="The cart is being paid for, is paid for, or has expired.")
class CartInactive(UserError):
    status: CartStatus = strawberry.field(description="The cart's status.")


failure("Stock does not have that many units.", sku="The SKU in question.", available="How many units are available.")(
    InadequateInventory
)


CreateCartResult = Annotated[
    CartPayload | NotFound | Conflict,
    strawberry.union("CreateCartResult", description="The result of creating a cart."),
]
AddItemToCartResult = Annotated[
    CartPayload | CartInactive | InadequateInventory | NotFound | InvalidInput,
    strawberry.union("AddItemToCartResult", description="The result of adding to a cart."),
]
UpdateCartItemResult = Annotated[
    CartPayload | CartInactive | InadequateInventory | NotFound | Conflict | InvalidInput,
    strawberry.union("UpdateCartItemResult", description="The result of changing a line of a cart."),
]
ClaimCartResult = Annotated[
    CartPayload | CartInactive | NotFound | Conflict,
    strawberry.union("ClaimCartResult", description="The result of claiming a cart."),
]


def buyer_of(info: Info) -> Buyer:
    context = info.context
    lifetime = context.resources.of(ShopSettings).cart_lifetime
    return Buyer(context.subject, context.now, lifetime, context.operation_id, context.answering)


DiscardCartResult = Annotated[
    CartPayload | CartInactive | NotFound | Conflict,
    strawberry.union("DiscardCartResult", description="The result of discarding a cart."),
]


@strawberry.type
class CartMutation:
    @mutation(
        description="Creates an empty cart. A signed-in viewer is its owner. A viewer who has an active cart gets that "
        "one, with its items."
    )
    async def create_cart(self, info: Info, input: CreateCartInput | None = None) -> CreateCartResult | None:  # noqa: ARG002
        created = await viewer_carts.create_cart(info.context.db, buyer_of(info))
        return CartPayload(cart=as_type(Cart, created))

    @mutation(
        settles=True,
        description="Adds units to the cart and takes them from stock, or does neither. The whole line gets the "
        "current price and title.",
    )
    async def add_item_to_cart(self, info: Info, input: AddItemToCartInput) -> AddItemToCartResult | None:
        changed = await cart_edits.add_item(
            info.context.db,
            buyer_of(info),
            cart_id=Kind.key_in(info.context, "Cart", input.cart_id),
            sku=input.sku,
            quantity=input.quantity,
        )
        return CartPayload(cart=as_type(Cart, changed), about={"sku": trimmed(input.sku)})

    @mutation(
        settles=True, description="Changes the quantity of a line, and takes the difference from stock or returns it."
    )
    async def update_cart_item(self, info: Info, input: UpdateCartItemInput) -> UpdateCartItemResult | None:
        changed = await cart_edits.update_item(
            info.context.db,
            buyer_of(info),
            cart_id=Kind.key_in(info.context, "Cart", input.cart_id),
            sku=input.sku,
            old_quantity=input.old_quantity,
            new_quantity=input.new_quantity,
        )
        return CartPayload(cart=as_type(Cart, changed), about={"sku": trimmed(input.sku)})

    @mutation(
        description="Makes a cart without an owner the viewer's. If the viewer has an active cart, merges the cart "
        "into it, and returns the viewer's cart. Also merges an older cart of the viewer. For a signed-in viewer."
    )
    async def claim_cart(self, info: Info, input: ClaimCartInput) -> ClaimCartResult | None:
        info.context.require_caller()
        claimed = await viewer_carts.claim_cart(
            info.context.db, buyer_of(info), cart_id=Kind.key_in(info.context, "Cart", input.cart_id)
        )
        return CartPayload(cart=as_type(Cart, claimed))

    @mutation(description="Gives the cart up: its status becomes EXPIRED, and its items return to stock at once.")
    async def discard_cart(self, info: Info, input: DiscardCartInput) -> DiscardCartResult | None:
        discarded = await cart_edits.discard_cart(
            info.context.db, buyer_of(info), cart_id=Kind.key_in(info.context, "Cart", input.cart_id)
        )
        return CartPayload(cart=as_type(Cart, discarded))
