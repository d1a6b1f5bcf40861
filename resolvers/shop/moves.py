"""Moves of units between the stock and a cart: a two-phase protocol in which the cart decides.

A move is {id, op, sku, cart_id, kind, quantity, at}. `op` is the operation that prepared it. The kind says how it
changes the stock:

    reserve   available → reserved, when it is prepared; the cart gets the units
    return    reserved → available, when it is concluded; the cart has given the units back
    sell      reserved → sold, when it is concluded; the cart is paid for
    pass      nothing; it becomes a reservation by the cart that gets the units, when it is concluded. See
              `cart_merging`
    restore   sold → available, when it is concluded; the order of the cart is cancelled. Here the order decides in
              place of the cart, see `cancelling`

The steps:

1. **Prepare**: one guarded update of the stock adds the move to `under_way`. Its id is new, so no other process can
   prepare the same move.
2. **Decide**: one update of the cart changes the lines and adds the move to `decided` as taken. It is guarded by the
   cart version that was read. A process that finds an undecided move can refuse it instead: if the cart lists no
   decision on the move, it adds the move to `decided` as not taken, increments the version, and raises `refused_until`
   to the time of the move. A cart takes no move that is as old as that.
3. **Conclude**: one update of the stock changes the counters and removes the move from `under_way`. It is guarded by
   the presence of the move. A refused move is rolled back in the same way.
4. **Forget**: the cart removes the decision.

      prepared --taken by the cart--> decided --> concluded -----> forgotten
         |                                                             ^
         +------refused-------------> decided --> rolled back ---------+

A process that finds an old move looks at its cart, refuses the move if it is undecided, and continues with step 3.
This is correct, because:

* A process that was suspended after step 1 cannot take a refused move: `refused_until` stays when the refusal is
  forgotten. So it does not matter whether the process has read the cart before step 1, at the same time, or after it.
* A call that reads the cart again goes on with its move only if it finds the move in the stock. Otherwise, it prepares
  another one, with a later time.
* To conclude a move twice has no effect: the move is no longer listed, and its id is never used again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from secrets import token_hex
from typing import Any, Literal

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.shop.refusals import InadequateInventory
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settler import AT_ONCE, Answering

from .carts import CARTS
from .orders import ORDERS, place_due
from .stock import STOCK, change, changed_by, notify_product, take_some

# The end of the id of a reservation that has gone on to another cart, once for each time.
GOING_ON = "-on"
Kind = Literal["reserve", "return", "sell", "restore", "pass"]

# What shows the decisions of a cart, and is needed to write its order.
_DECIDED = dict.fromkeys(("decided", "settlement", "status", "due", "checkout", "items"), 1)
_PREPARED: dict[str, dict[str, int]] = {"reserve": {"available": -1, "reserved": 1}}
_CONCLUDED: dict[tuple[str, bool], dict[str, int]] = {
    ("reserve", False): {"available": 1, "reserved": -1},
    ("return", True): {"available": 1, "reserved": -1},
    ("sell", True): {"reserved": -1, "sold": 1},
    ("restore", True): {"available": 1, "sold": -1},
}


def new_move(kind: Kind, *, sku: str, cart_id: str, quantity: int, now: datetime, operation_id: str) -> Document:
    """Returns a move with a new id. Writes nothing."""
    return {
        "id": token_hex(16),
        "op": operation_id,
        "sku": sku,
        "cart_id": cart_id,
        "kind": kind,
        "quantity": quantity,
        "at": now,
    }


async def prepare(db: Database, move: Document, *, now: datetime) -> None:
    """Prepares the move in the stock.

    Raises:   InadequateInventory (it reserves more than is available), Conflict (others kept changing the stock).
    Writes:   stock; one guarded update. If it takes the last unit, also an update of the product.
    """
    async for _ in attempts(steps=2):
        if await change(db, _free(move), _preparing(move, now)):
            return
        stock = await db[STOCK.name].find_one({"_id": move["sku"]})
        left = [] if stock is None else [other for other in stock["under_way"] if other["op"] == move["op"]]
        for other in left:
            # An interrupted call with the same key has reserved the units that this call needs.
            await settle(db, other, now=now)
        available = 0 if stock is None or "closed" in stock else stock["available"]
        if available < move["quantity"] and not left:
            raise InadequateInventory(move["sku"], available)
    raise Conflict("Other callers are changing the stock. Try again.")


async def prepare_all(db: Database, moves: Sequence[Document], *, now: datetime) -> None:
    """Prepares moves that return or sell, in one command."""
    if moves:
        await STOCK.change_all(db, [(_free(move), _preparing(move, now)) for move in moves])


async def is_prepared(db: Database, move: Document) -> bool:
    """Returns whether the move is listed in the stock."""
    return await db[STOCK.name].find_one(_listed(move), {"_id": 1}) is not None


async def conclude(db: Database, move: Document, *, is_taken: bool, now: datetime) -> None:
    """Applies the decision of the cart to the stock. Idempotent.

    Writes:   stock; one guarded update. If units become available again, also an update of the product.
    """
    await change(db, _listed(move), _concluding(move, now, is_taken=is_taken))


async def finish(
    db: Database, move: Document, *, is_taken: bool, now: datetime, answering: Answering = AT_ONCE
) -> None:
    """Concludes the move as its cart has decided, and removes the decision from the cart. Idempotent.

    What is reserved counts as reserved before the conclusion, so the answer need not wait for it.

    Writes:   stock, then carts; one guarded update each.
    """
    forgetting = {"_id": move["cart_id"]}, {"$pull": {"decided": {"id": move["id"]}}}
    forgotten = {CARTS.name: [forgetting]}
    if (move["kind"], is_taken) not in _CONCLUDED:
        concluding = _listed(move), _concluding(move, now, is_taken=is_taken)
        if answering.later(db, {STOCK.name: [concluding]}, forgotten):
            return
    await conclude(db, move, is_taken=is_taken, now=now)
    if not answering.later(db, forgotten):
        await db[CARTS.name].update_one(*forgetting)


async def prepare_early(db: Database, move: Document, *, keeps: int, now: datetime) -> bool:
    """Prepares a reservation by one update, if the stock has more than these units besides. Returns whether it did."""
    return await take_some(db, _free(move), move["quantity"] + keeps, _preparing(move, now))


async def settle(db: Database, move: Document, *, now: datetime) -> None:
    """Finishes a move that was left in the stock. Refuses it if its cart has not decided.

    Writes:   carts or orders, then stock, then carts; each guarded. If it is sold, also its order.
    """
    if move["kind"] == "restore":
        await conclude(db, move, is_taken=await _is_restored(db, move), now=now)
        return
    undecided = {"_id": move["cart_id"], "decided.id": {"$ne": move["id"]}, "settlement.id": {"$ne": move["id"]}}
    refused = {**move, "at": now, "is_taken": False}
    refusal = {"$push": {"decided": refused}, "$inc": {"version": 1}, "$max": {"refused_until": move["at"]}}
    if (await db[CARTS.name].update_one(undecided, refusal)).matched_count:
        await finish(db, move, is_taken=False, now=now)
        return
    cart = await db[CARTS.name].find_one({"_id": move["cart_id"]}, _DECIDED)
    taken = {} if cart is None else decisions(cart)
    if cart is not None and move["kind"] == "sell":
        await place_due(db, cart)
    await finish(db, move, is_taken=taken.get(move["id"], False), now=now)


def arriving(move: Document) -> Document:
    """Returns the reservation that a concluded pass has become, in the stock of its SKU."""
    return {**move, "id": f"{move['id']}-in", "kind": "reserve", "cart_id": move["into"]}


def going_on(move: Document) -> Document:
    """Returns the reservation that a refused one has become, if its cart has refused it in favor of another cart."""
    named = {name: value for name, value in move.items() if name not in {"rest", "is_taken"}}
    return {**named, "id": f"{move['id']}{GOING_ON}", "cart_id": move["rest"]}


async def _is_restored(db: Database, move: Document) -> bool:
    """Returns whether the order has taken the move. Refuses the move if the order has not decided.

    The fence keeps a process that was suspended from deciding for this move later.
    """
    undecided = {"_id": move["order_id"], "returned.id": {"$ne": move["id"]}}
    refused = await db[ORDERS.name].update_one(undecided, {"$inc": {"fence": 1}})
    return not refused.matched_count and move["id"] in await _restored(db, [move])


async def _restored(db: Database, moves: Sequence[Document]) -> set[str]:
    """Returns the ids of the moves that the orders of these moves have taken. Sends no command if none restores."""
    ids = list({move["order_id"] for move in moves if move["kind"] == "restore"})
    found = await db[ORDERS.name].find({"_id": {"$in": ids}}, {"returned.id": 1}).to_list() if ids else []
    return {move["id"] for order in found for move in order.get("returned", ())}


def decisions(cart: Document) -> dict[str, bool]:
    """Returns the ids of the moves that the cart has decided on, with whether it has taken them."""
    settled = {move["id"]: True for move in cart.get("settlement", ())}
    return settled | {move["id"]: move["is_taken"] for move in cart.get("decided", ())}


async def find_sold(db: Database, moves: Sequence[Any]) -> list[Any]:
    """Returns which of these moves of stocks sell, and are decided. Sends no command if none sells."""
    selling = [move for move in moves if move["kind"] == "sell"]
    if not selling:
        return []
    query = {"_id": {"$in": list({move["cart_id"] for move in selling})}}
    found = await db[CARTS.name].find(query, {"settlement.id": 1}).to_list()
    taken = {move["id"] for cart in found for move in cart.get("settlement", ())}
    return [move for move in selling if move["id"] in taken]


async def conclude_decided(db: Database, sku: str, *, now: datetime) -> bool:
    """Concludes the moves of a SKU that are decided. Returns whether there were any, or no cart holds a unit by now."""
    stock = await db[STOCK.name].find_one({"_id": sku}, {"under_way": 1, "reserved": 1})
    if stock is None or not (stock["under_way"] or stock["reserved"]):
        return True
    if not stock["under_way"]:
        return False
    carts = list({move["cart_id"] for move in stock["under_way"]})
    decided: dict[str, bool] = {}
    for cart in await db[CARTS.name].find({"_id": {"$in": carts}}, _DECIDED).to_list():
        await place_due(db, cart)
        decided |= decisions(cart)
    decided |= dict.fromkeys(await _restored(db, stock["under_way"]), True)
    for is_taken in (True, False):
        ended = [move for move in stock["under_way"] if decided.get(move["id"]) is is_taken]
        await conclude_all(db, ended, is_taken=is_taken, now=now)
    return any(move["id"] in decided for move in stock["under_way"])


async def conclude_all(
    db: Database, moves: Sequence[Document], *, is_taken: bool, now: datetime, answering: Answering = AT_ONCE
) -> None:
    """Applies the decision of the cart on all these moves to the stock, in one command. Idempotent.

    The answer does not wait for sales: readers of the stock see those that are decided.
    """
    changes = [(_listed(move), _concluding(move, now, is_taken=is_taken)) for move in moves]
    # A sale does not change `available`, nor does what is passed on.
    skus = [move["sku"] for move in moves if move["kind"] not in {"sell", "pass"}]
    if changes and not (not skus and answering.later(db, {STOCK.name: changes})):
        await STOCK.change_all(db, changes)
    if not skus:
        return
    async for stock in db[STOCK.name].find({"_id": {"$in": skus}, "flipped_at": {"$exists": True}}, {"_id": 1}):
        await notify_product(db, stock["_id"])


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
    others: Document = {"$filter": {"input": "$under_way", "cond": {"$ne": ["$$this.id", move["id"]]}}}
    amounts = _CONCLUDED.get((move["kind"], is_taken), {})
    if move["kind"] == "pass" and is_taken:
        others = {"$concatArrays": [others, [{"$literal": {**arriving(move), "at": now}}]]}
    elif "rest" in move and not is_taken:
        others, amounts = {"$concatArrays": [others, [{"$literal": {**going_on(move), "at": now}}]]}, {}
    update = changed_by(now, under_way=others, **_amounts(move, amounts))
    if move["kind"] == "restore" and is_taken:
        update[0]["$set"] |= _written_off(move["quantity"])
    return update


def _written_off(units: int) -> Document:
    """Returns the counters after a restore: the units of a product that was deleted in the meantime are gone."""
    is_gone = {"$eq": ["$closed.is_final", True]}
    return {
        "available": {"$add": ["$available", {"$cond": [is_gone, 0, units]}]},
        "restocked": {"$subtract": ["$restocked", {"$cond": [is_gone, units, 0]}]},
    }


def _amounts(move: Document, signs: dict[str, int]) -> dict[str, int]:
    return {name: sign * move["quantity"] for name, sign in signs.items()}
