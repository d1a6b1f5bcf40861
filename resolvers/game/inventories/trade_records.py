"""Trades between two inventories, and moves between inventories of one owner: the records that decide settlements.

      OFFERED --accept--> ACCEPTED --all notes removed--> SETTLED
         |
         +--cancel--> CANCELLED

A missing record means that its settlement is open. So a record is deleted only long after it was concluded, and only
if no stack has a note of it; see `trade_history`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Projection, Versioned
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.typed import TypedDict

from .stacks import Place, Viewer, stack_id

TRADE, MOVE = "TRADE", "MOVE"
OFFERED, ACCEPTED, SETTLED, CANCELLED = "OFFERED", "ACCEPTED", "SETTLED", "CANCELLED"
MOVED, ABANDONED = "MOVED", "ABANDONED"
# States that never change again.
CONCLUDED = (SETTLED, CANCELLED, MOVED, ABANDONED)
MAX_LINES = 20


class Side(TypedDict):
    """One of the two inventories of a trade."""

    owner: str
    inventory: str


class Goods(TypedDict):
    """What one side gives."""

    category: str
    item_id: str
    quantity: int


_WithSides = TypedDict("_WithSides", {"from": NotRequired[Side], "to": NotRequired[Side]})


class TradeDocument(_WithSides, Versioned):
    """A record. Its `_id` is derived from the operation and the number of the attempt. One that is ABANDONED has few of
    these fields.
    """

    _id: ObjectId
    # TRADE, or MOVE, which no read shows; missing if ABANDONED.
    kind: NotRequired[str]
    # Of a trade: OFFERED, ACCEPTED, SETTLED or CANCELLED. A move is MOVED. ABANDONED means that the attempt that would
    # have inserted the record crashed, and can insert it no more.
    state: str
    # The owners of both sides.
    owners: NotRequired[list[str]]
    # What `from` gives. While the trade is OFFERED, it holds them.
    offers: NotRequired[list[Goods]]
    # What `to` gives.
    wants: NotRequired[list[Goods]]
    # The keys of the settlements that inserted it, and that accepted or cancelled it; see `exchanges`.
    key: NotRequired[str]
    decided: NotRequired[str]
    # The operation that accepted or cancelled it, if it can be repeated.
    decided_by: NotRequired[str]
    # Of a trade: its place among the open offers of both owners, see `trade_bounds`.
    claim: NotRequired[ObjectId]
    # When it was accepted or cancelled.
    concluded_at: NotRequired[datetime]
    # The owners, set again with the state that concludes the trade, so that the change names them to subscriptions.
    concluded_for: NotRequired[list[str]]
    # Increased to make attempts to accept or cancel it impossible.
    round: NotRequired[int]
    # Of a trade: the ids of the stacks that an acceptance reads, those that give and those that receive.
    stacks: NotRequired[list[str]]
    created_at: datetime
    # When it had expired and its goods found no room in their inventory; missing if that was not so.
    no_room_at: NotRequired[datetime]
    # When it was accepted; removed once it is SETTLED.
    open_since: NotRequired[datetime]
    # How often another process has looked at it to finish or undo its settlement.
    looks: NotRequired[int]


TRADES = CollectionSpec(
    "game.trades",
    document=TradeDocument,
    indexes=[
        IndexModel([("open_since", ASCENDING)], sparse=True),
        # The trades of an owner, latest first.
        IndexModel(
            [("owners", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)],
            partialFilterExpression={"kind": TRADE},
        ),
        # The same, in one state.
        IndexModel(
            [("owners", ASCENDING), ("state", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)],
            partialFilterExpression={"kind": TRADE},
        ),
        # Offers that expire, and records that were concluded long ago.
        IndexModel([("state", ASCENDING), ("created_at", ASCENDING)]),
        IndexModel([("claim", ASCENDING)], sparse=True),
    ],
    shard_key={"_id": "hashed"},
)
_LATEST = Sort((("created_at", -1),))


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, TradeDocument]:
    """Returns the trades with these ids, without moves."""
    query = {"_id": {"$in": list(ids)}, "kind": TRADE}
    found = await TRADES.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {trade["_id"]: trade for trade in found}


def stacks_of(trade: Mapping[str, Any], viewer: Viewer) -> list[str]:
    """Returns the ids of the viewer's stacks that a trade takes from or gives to."""
    sides = (trade["from"], trade["to"])
    places = [Place(side["owner"], side["inventory"]) for side in sides if viewer.owns(side["owner"])]
    goods = [*trade["offers"], *trade["wants"]]
    return [stack_id(place, one["category"], one["item_id"]) for place in places for one in goods]


def listing(owner: str, state: str | None = None) -> Listing:
    """Returns the trades that the owner has offered or was offered, latest first; with a state, only those in it."""
    wanted = {"owners": owner, "kind": TRADE}
    return Listing(wanted if state is None else {**wanted, "state": state}, _LATEST)
