"""Moves of units between the stock and a cart: a hand-over in two phases, with the cart to decide.

A move: {id, op, sku, cart_id, kind, quantity, at}. `op` is the operation that prepared it. Its kind says what it does
to the stock once it is concluded:

    reserve   available → reserved, as it is prepared already; the cart takes the units in
    return    reserved → available; the cart has given the units up
    sell      reserved → sold; the cart has been paid for

1. The move is **prepared**: one guarded update of the stock lists it in `under_way`. Its id is new each time, so no
   other process can prepare it, too.
2. The cart **decides**: one update, guarded by the version of the cart that was read before the move was prepared,
   changes the lines and lists the move in `decided` as taken. A move that is not taken can be refused: listed there as
   not taken, by an update with the same two guards.
3. The move is **concluded**: one update of the stock, guarded by the move's being there, changes the counters and takes
   the move off the list, together. A refused one is undone in the same way.
4. The decision is forgotten.

Who finds an old move looks at the cart, refuses it where nothing is decided, and goes on with 3. A process that has
slept since 1 cannot take the units in then, for a refusal raises the cart's version. Where it reads the cart anew it
sees the refusal, or, after 4, does not find the move in the stock any more: it looks there after it has read the cart,
and a move leaves the stock before its refusal is forgotten. Concluding twice has no effect, whenever it happens: the
move is not there any more, and never comes back.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Literal
from uuid import uuid4

from pymongo import UpdateOne

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InadequateInventory
from portico.resolvers.writes.retries import attempts

from .carts import CARTS
from .stock import STOCK, change, changed_by, tell

Kind = Literal["reserve", "return", "sell"]

_PREPARED: dict[str, dict[str, int]] = {"reserve": {"available": -1, "reserved": 1}}
_CONCLUDED: dict[tuple[str, bool], dict[str, int]] = {
    ("reserve", False): {"available": 1, "reserved": -1},
    ("return", True): {"available": 1, "reserved": -1},
    ("sell", True): {"reserved": -1, "sold": 1},
}


def new_move(kind: Kind, *, sku: str, cart_id: str, quantity: int, now: datetime, operation_id: str) -> Document:
    """A move that nobody knows of yet."""
    return {
        "id": uuid4().hex,
        "op": operation_id,
        "sku": sku,
        "cart_id": cart_id,
        "kind": kind,
        "quantity": quantity,
        "at": now,
    }


async def prepare(db: Database, move: Document, *, now: datetime) -> None:
    """Lists the move in the stock. Raises InadequateInventory where it is to reserve more than there is; Conflict where
    others keep changing the stock.

    Writes:   stock; one guarded update, and one of the product where its last unit goes.
    """
    async for _ in attempts(steps=2):
        if await change(db, _free(move), _preparing(move, now)):
            return
        stock = await db[STOCK.name].find_one({"_id": move["sku"]})
        left = [] if stock is None else [other for other in stock["under_way"] if other["op"] == move["op"]]
        for other in left:
            # An earlier call with the key has been cut off, and what it has reserved is what this one looks for.
            await settle(db, other, now=now)
        available = 0 if stock is None or "closed" in stock else stock["available"]
        if available < move["quantity"] and not left:
            raise InadequateInventory(move["sku"], available)
    raise Conflict("The stock is being changed by others.")


async def prepare_all(db: Database, moves: Sequence[Document], *, now: datetime) -> None:
    """Lists moves that return or sell, in one command."""
    updates = [UpdateOne(_free(move), _preparing(move, now)) for move in moves]
    if updates:
        await db[STOCK.name].bulk_write(updates, ordered=False)


async def is_prepared(db: Database, move: Document) -> bool:
    """Whether the move is listed in the stock."""
    return await db[STOCK.name].find_one(_listed(move), {"_id": 1}) is not None


async def conclude(db: Database, move: Document, *, is_taken: bool, now: datetime) -> None:
    """Does in the stock what the cart has decided. May be repeated.

    Writes:   stock; one guarded update, and one of the product where it has units again.
    """
    await change(db, _listed(move), _concluding(move, now, is_taken=is_taken))


async def finish(db: Database, move: Document, *, is_taken: bool, now: datetime) -> None:
    """Concludes the move as its cart has decided, and lets the cart forget it. May be repeated.

    Writes:   stock, then carts; one guarded update each.
    """
    await conclude(db, move, is_taken=is_taken, now=now)
    await db[CARTS.name].update_one({"_id": move["cart_id"]}, {"$pull": {"decided": {"id": move["id"]}}})


async def settle(db: Database, move: Document, *, now: datetime) -> None:
    """Finishes a move that somebody has left in the stock. Refuses it where its cart has not decided.

    Writes:   carts, then stock, then carts; each guarded.
    """
    undecided = {"_id": move["cart_id"], "decided.id": {"$ne": move["id"]}, "settlement.id": {"$ne": move["id"]}}
    refusal = {"$push": {"decided": {**move, "at": now, "is_taken": False}}, "$inc": {"version": 1}}
    if (await db[CARTS.name].update_one(undecided, refusal)).matched_count:
        await finish(db, move, is_taken=False, now=now)
        return
    cart = await db[CARTS.name].find_one({"_id": move["cart_id"]}, {"decided": 1, "settlement": 1})
    taken = {} if cart is None else decisions(cart)
    await finish(db, move, is_taken=taken.get(move["id"], False), now=now)


def decisions(cart: Document) -> dict[str, bool]:
    """The moves that the cart has decided on, with whether it has taken them."""
    settled = {move["id"]: True for move in cart.get("settlement", ())}
    return settled | {move["id"]: move["is_taken"] for move in cart.get("decided", ())}


async def conclude_all(db: Database, moves: Sequence[Document], *, is_taken: bool, now: datetime) -> None:
    """Does in the stock what the cart has decided of all these moves, in one command. May be repeated."""
    updates = [UpdateOne(_listed(move), _concluding(move, now, is_taken=is_taken)) for move in moves]
    if updates:
        await db[STOCK.name].bulk_write(updates, ordered=False)
    # A sale leaves what is available as it was.
    skus = [move["sku"] for move in moves if move["kind"] != "sell"]
    if not skus:
        return
    async for stock in db[STOCK.name].find({"_id": {"$in": skus}, "flipped_at": {"$exists": True}}, {"_id": 1}):
        await tell(db, stock["_id"])


def _free(move: Document) -> Document:
    if move["kind"] == "reserve":
        return {"_id": move["sku"], "available": {"$gte": move["quantity"]}, "closed": None}
    return {"_id": move["sku"]}


def _listed(move: Document) -> Document:
    return {"_id": move["sku"], "under_way.id": move["id"]}


def _preparing(move: Document, now: datetime) -> list[Document]:
    listed = {"$concatArrays": ["$under_way", [{"$literal": move}]]}
    return changed_by(now, under_way=listed, **_amounts(move, _PREPARED.get(move["kind"], {})))


def _concluding(move: Document, now: datetime, *, is_taken: bool) -> list[Document]:
    others = {"$filter": {"input": "$under_way", "cond": {"$ne": ["$$this.id", move["id"]]}}}
    return changed_by(now, under_way=others, **_amounts(move, _CONCLUDED.get((move["kind"], is_taken), {})))


def _amounts(move: Document, signs: dict[str, int]) -> dict[str, int]:
    return {name: sign * move["quantity"] for name, sign in signs.items()}
