"""What the domain shop tells the tests that run on every domain."""

from __future__ import annotations

from portico.testing.kits import Kit, read_budgets
from tests.shop.support import cases, failures, leftovers, merge_stages, order_stages, seeds, stages
from tests.support.selections import INVALID, NOT_FOUND

_CART = (
    "cart { id status items { sku quantity title unitPrice { amount currency } lineTotal { amount } product { sku } } "
    "total { amount currency } lastModified expiresAt }"
)
_STOCK = "product { sku stock { available reserved sold } }"
_ORDER = (
    "order { id placedAt status history { status at } items { sku quantity title lineTotal { amount } } "
    "total { amount } paymentReference address { name city } trackingNumber refundedAt }"
)
_CHANGED = "... on OrderStatusConflict { order { id status } }"
_INACTIVE = "... on CartInactive { status }"
_SHORT = "... on InadequateInventory { sku available }"
MUTATIONS = {
    "restock": f"... on StockPayload {{ {_STOCK} }} {_SHORT} {INVALID}",
    "createCart": f"... on CartPayload {{ {_CART} }} {NOT_FOUND}",
    "addItemToCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_SHORT} {INVALID}",
    "updateCartItem": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {_SHORT} {INVALID}",
    "claimCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {NOT_FOUND}",
    "discardCart": f"... on CartPayload {{ {_CART} }} {_INACTIVE} {NOT_FOUND}",
    "checkout": f"... on CheckoutPayload {{ {_CART} {_ORDER} }} {_INACTIVE} {NOT_FOUND} "
    "... on PaymentPending { cart { id status } }",
    "shipOrder": f"... on OrderPayload {{ {_ORDER} }} {_CHANGED} {INVALID}",
    "deliverOrder": f"... on OrderPayload {{ {_ORDER} }} {_CHANGED} {NOT_FOUND}",
    "cancelOrder": f"... on OrderPayload {{ {_ORDER} }} {_CHANGED} {NOT_FOUND}",
}


KIT = Kit(
    adds=("createCart", "Cart"),
    mutations=MUTATIONS,
    inputs=cases.CASES,
    # A new cart has no required input.
    untried=("createCart",),
    failures=failures.FAILURES,
    unfailed={
        # A cart that its buyer may no longer see.
        ("createCart", "NotFound"),
        # A conflict or a pending payment is temporary.
        ("createCart", "Conflict"),
        ("updateCartItem", "Conflict"),
        ("claimCart", "Conflict"),
        ("discardCart", "Conflict"),
        ("checkout", "PaymentPending"),
    },
    leftovers={
        "finish-stock": (
            leftovers.move_in_stock,
            leftovers.move_in_cart,
            leftovers.flipped_stock,
            leftovers.closed_stock,
        ),
        "expire-carts": (leftovers.idle_cart, leftovers.expiring_cart),
        "delete-carts": (leftovers.old_cart,),
        "finish-checkouts": (leftovers.pending_cart, leftovers.sold_cart),
        "finish-orders": (leftovers.cancelled_order,),
        "relate-products": (leftovers.uncounted_order,),
    },
    budgets=read_budgets(__file__),
    scattered={
        "find stock under_way",
        "find stock flipped_at",
        "find stock closed.at closed.is_final",
        "find stock _id",
        "find carts _id",
        "find orders _id",
        "find orders due",
        "find orders uncounted",
        "find orders items.sku",
        "find orders $or upgrade_failed",
        "find carts decided",
        "find carts decided.0 due last_modified status",
        "find carts due status",
        "find carts expires_at status",
        "find carts holding items.sku",
        "aggregate carts holding items.sku",
        "aggregate orders items.sku status",
    },
    stages=(stages.Shop, stages.ShopWithAccounts, stages.ShopWithPoorBuyer, order_stages.Orders, merge_stages.Merging),
    seed=seeds.seed,
)
