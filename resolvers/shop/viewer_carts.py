"""The carts of viewers: each signed-in viewer has one active cart. Carts are created and claimed here.

`carts` is sharded by `_id`, so no unique index keeps an owner's active cart unique. Instead:

* **Create**: the id of a new cart is derived from the owner and the cart that they had before. Concurrent calls derive
  the same id, so one of them inserts the cart, and the others find it.
* **Look**: a call that has created or claimed a cart then looks for another active one of the owner. It can be there if
  one call creates a cart while another one claims a cart. Each writes before it looks, so at least one sees both carts,
  and merges them (see `cart_merging`): a cart that nobody has changed yet goes into the other one, otherwise the older
  one goes into the newer one.

Two carts of a viewer stay active in two cases: the payment for one is refused after another was created, and a merge
has left lines that do not fit. `viewer.cart` is then the one that was changed last.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Any

from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.together import both
from portico.resolvers.writes.marks import is_repeatable, mark_applied, was_applied
from portico.resolvers.writes.retries import attempts

from . import cart_merging, moves
from .cart_closing import close
from .cart_edits import ATTEMPTS, LONGEST_PAUSE, Buyer, require_active, update_cart
from .carts import (
    ACTIVE,
    CARTS,
    EXPIRING,
    expiring,
    find_cart,
    find_current,
    find_latest,
    require_cart,
    touched,
)

DEFAULT_CURRENCY = "USD"


async def create_cart(db: Database, buyer: Buyer) -> Document:
    """Creates an empty cart. A signed-in viewer owns it; if they have an active cart, they get that one.

    Returns:  the cart.
    Raises:   Conflict (others kept creating and buying carts of the viewer).
    Writes:   carts; one insert. If the viewer has claimed another cart at the same moment, a merge.
    """
    if buyer.viewer is None:
        made = await _insert(db, buyer, _anonymous_id(buyer.operation_id))
        return made or await require_cart(db, _anonymous_id(buyer.operation_id), None)
    async for _ in attempts(ATTEMPTS, longest=LONGEST_PAUSE):
        own, latest = await both(find_current(db, buyer.viewer), find_latest(db, buyer.viewer))
        if latest is not None and was_applied(latest, buyer.operation_id):
            return latest
        # The latest one may have been created between the two reads.
        for present in (own, latest):
            if present is not None and present["status"] == ACTIVE:
                return present
        made = await _open(db, buyer, latest)
        other = None if made is None else await find_current(db, buyer.viewer, besides=made["_id"])
        if made is not None and other is None:
            return made
        if made is not None and other is not None and made["version"] == 0:
            united = await _pass_on(db, buyer, made, other, {})
            if united is not None:
                return united
    raise Conflict("Other callers are changing your carts. Try again.")


def _anonymous_id(operation_id: str) -> str:
    """Derives an unguessable id: every operation id has 122 random bits that no client sees."""
    return hashlib.blake2b(f"{operation_id}/cart".encode(), digest_size=16).hexdigest()


def next_id(owner: str, former: str) -> str:
    """Returns the id of the cart that this owner gets after the former one. Only the owner can use the cart."""
    return hashlib.blake2b(f"{owner}\0{former}/next".encode(), digest_size=16).hexdigest()


async def _open(db: Database, buyer: Buyer, latest: Document | None) -> Document | None:
    """Creates the cart that comes after the latest one. Returns it, or the one that another call has created.

    Carts that have come after it, and are no longer active, are passed over. Returns None after many of them.
    """
    assert buyer.viewer is not None
    key = "" if latest is None else latest["_id"]
    for _ in range(ATTEMPTS):
        key = next_id(buyer.viewer, key)
        made = await _insert(db, buyer, key) or await find_cart(db, key)
        if made is not None and made["status"] == ACTIVE:
            return made
    return None


async def _insert(db: Database, buyer: Buyer, key: str) -> Document | None:
    """Inserts an empty cart. Returns it; None if there is one with this key."""
    cart = {
        "_id": key,
        "owner": buyer.viewer,
        "status": ACTIVE,
        "items": [],
        "currency": DEFAULT_CURRENCY,
        **touched(buyer.now, buyer.cart_lifetime),
        "version": 0,
        "holding": True,
    }
    if buyer.viewer is not None and is_repeatable(buyer.operation_id):
        cart["applied"] = [buyer.operation_id]
    try:
        await db[CARTS.name].insert_one(cart)
    except DuplicateKeyError:
        return None
    return cart


async def claim_cart(db: Database, buyer: Buyer, *, cart_id: str) -> Document:
    """Makes the viewer the owner of a cart without an owner, or merges it into the viewer's cart.

    The viewer's cart is the active one that they have changed last. An older one of theirs is merged into it, too.

    Returns:  the viewer's cart.
    Raises:   NotFound, CartInactive, Conflict (others kept changing the cart, or the viewer's cart cannot hold all
              lines).
    Writes:   carts; one guarded update. If it merges, the cart is closed, and the viewer's cart takes its
              lines; the jobs finish that after a crash.
    """
    assert buyer.viewer is not None
    async for _ in attempts(ATTEMPTS, longest=LONGEST_PAUSE):
        cart = await require_cart(db, cart_id, buyer.viewer)
        if "into" in cart:
            return await _merge(db, buyer, cart)
        if was_applied(cart, buyer.operation_id):
            return await _unite(db, buyer, cart)
        own = await find_current(db, buyer.viewer, besides=cart_id)
        if cart["owner"] is not None and (own is None or _age(own) < _age(cart) or cart["status"] != ACTIVE):
            return cart
        require_active(cart)
        values = {"owner": buyer.viewer, **touched(buyer.now, buyer.cart_lifetime)}
        if own is None:
            marked = mark_applied(buyer.operation_id)
            claimed = await update_cart(db, cart, {"$set": values, "$inc": {"version": 1}, **marked})
            united = None if claimed is None else await _unite(db, buyer, claimed)
        else:
            _require_room(own, cart)
            united = await _pass_on(db, buyer, cart, own, values)
        if united is not None:
            return united
    raise Conflict("Other callers are changing the cart. Try again.")


def _age(cart: Document) -> tuple[datetime, str]:
    return cart["last_modified"], cart["_id"]


async def _unite(db: Database, buyer: Buyer, claimed: Document) -> Document:
    """Merges the claimed cart with those that other calls have given the viewer at the same moment.

    Returns:  the viewer's cart.
    Raises:   Conflict (others kept changing the carts).
    """
    assert buyer.viewer is not None
    async for _ in attempts(ATTEMPTS, longest=LONGEST_PAUSE):
        if "into" in claimed:
            claimed = await _merge(db, buyer, claimed)
        other = await find_current(db, buyer.viewer, besides=claimed["_id"])
        if other is None or claimed["status"] != ACTIVE:
            return claimed
        is_older = other["version"] == 0 or _age(other) < _age(claimed)
        older, newer = (other, claimed) if is_older else (claimed, other)
        if _unfit(newer, older):
            return claimed
        united = await _pass_on(db, buyer, older, newer, {})
        claimed = united or await require_cart(db, claimed["_id"], buyer.viewer)
    raise Conflict("Other callers are changing your carts. Try again.")


async def _pass_on(
    db: Database, buyer: Buyer, cart: Document, own: Document, values: dict[str, Any]
) -> Document | None:
    """Gives up a cart in favor of the viewer's own one. Returns the latter; None if the former has changed."""
    lock = values | {"status": EXPIRING, "into": own["_id"], **expiring(buyer.now)}
    locked = await update_cart(db, cart, {"$set": lock, "$inc": {"version": 1}})
    return None if locked is None else await _merge(db, buyer, locked)


def _unfit(own: Document, cart: Document) -> Document | None:
    """Returns the first line of the other cart that the viewer's cart cannot hold as well; None if there is none."""
    content = own
    for line in cart["items"]:
        grown = cart_merging.combined(content, line)
        if grown is None:
            unfit: Document = line
            return unfit
        content = grown
    return None


def _require_room(own: Document, cart: Document) -> None:
    """Raises Conflict if the viewer's cart cannot hold the lines of the other cart as well."""
    line = _unfit(own, cart)
    if line is not None:
        text = f"Your cart cannot hold {line['title']!r} as well: it is full, or in another currency."
        raise Conflict(text, about={"cart": own["_id"], "title": line["title"]})


async def _merge(db: Database, buyer: Buyer, cart: Document) -> Document:
    """Passes the lines of a locked cart on. Returns the cart that has them. Idempotent."""
    if cart["status"] == EXPIRING:
        cart = await close(db, cart, now=buyer.now)
    arrived = [moves.arriving(move) for move in cart["settlement"]]
    await cart_merging.take(db, arrived, now=buyer.now, values=touched(buyer.now, buyer.cart_lifetime))
    own = await require_cart(db, cart["into"], buyer.viewer)
    return await cart_merging.find_taker(db, own, arrived)
