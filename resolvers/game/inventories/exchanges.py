"""Goods that move between several stacks: settlements, see `resolvers.writes.settlements`.

The **record** in `game.trades` that decides is a trade, or a move between inventories of one owner. A debit subtracts
when it notes; a credit adds when its note is removed. A trade can be decided twice: the key of its offer is stored in
`key`, and that of its acceptance or cancellation in `decided`.

Before anybody undoes the notes of another attempt, they insert the missing record as ABANDONED, or increase the `round`
of the trade, which is in the guard of the decision.

At every moment, goods are in the quantity of a stack; in the note of a debit whose key is not stored; in the note of a
credit whose key is stored; or in a trade that is OFFERED. `stack_checks` adds these up. A settlement has up to 80
stacks. A stack has notes only while a settlement is in flight, so it stays small, however many offers its owner has
made.

If a stack has too little, other attempts may be holding its goods. The writer ends notes that are decided or old, and
retries while the goods in flight would be enough. Otherwise it answers `NotEnough`. The check of all sums is one
aggregation with the read concern `snapshot`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes import settlements
from portico.resolvers.writes.settlements import Attempt, Noted, Part
from portico.resolvers.writes.settler import AT_ONCE

from . import stacks
from .stack_refusals import NotEnough
from .stacks import DISPLAY, STACKS, Place, Wanted
from .trade_records import ABANDONED, OFFERED, TRADES


@dataclass(frozen=True)
class Line:
    """The change of one stack. A negative delta is a debit."""

    place: Place
    category: str
    item_id: str
    delta: int

    @property
    def stack_id(self) -> str:
        return stacks.stack_id(self.place, self.category, self.item_id)


def debits(place: Place, goods: Sequence[Wanted]) -> list[Line]:
    return [Line(place, one.category, one.item_id, -one.quantity) for one in goods]


def credits_of(place: Place, goods: Sequence[Wanted]) -> list[Line]:
    return [Line(place, one.category, one.item_id, one.quantity) for one in goods]


def new_stack(line: Line, shown: Document) -> Document:
    """Returns an empty stack for a credit, which looks like the stack `shown`."""
    return {
        "_id": line.stack_id,
        **stacks.identity(line.place, line.category, line.item_id),
        **{name: shown.get(name) for name in DISPLAY},
        "quantity": 0,
        "granted": 0,
        "consumed": 0,
        "notes": [],
    }


def attempt_of(
    record: ObjectId,
    lines: Sequence[Line],
    at: datetime,
    *,
    round_: int | None = None,
    new: Sequence[Document] = (),
    key: str | None = None,
) -> Attempt:
    """Returns an attempt to settle the lines.

    Args:     round_: that of an existing trade; None if the decision inserts the record.
              new: the empty stacks to create for credits, as `new_stack` makes them.
              key: that of the attempt of another process.
    """
    missing = {stack["_id"]: stack for stack in new}
    parts = [_part(line, round_, missing.pop(line.stack_id, None)) for line in lines]
    return Attempt(record, parts, at) if key is None else Attempt(record, parts, at, key)


def _part(line: Line, round_: int | None, new: Document | None) -> Part:
    facts = {"delta": line.delta, "round": round_}
    if line.delta < 0:
        return Part(NOTED, line.stack_id, facts, {"quantity": {"$gte": -line.delta}}, {"quantity": line.delta})
    return Part(NOTED, line.stack_id, facts, stacks.has_room(line.delta), new=new)


async def settle(db: Database, attempt: Attempt) -> None:
    """Removes the notes of an attempt that was decided, and adds the credits. Idempotent."""
    await settlements.conclude(db, AT_ONCE, attempt)


async def _prevent(db: Database, note: Document, record: Document | None, now: datetime) -> None:
    """Makes it impossible to decide the attempt of a note. Idempotent."""
    trades = db[TRADES.name]
    if record is None:
        with contextlib.suppress(DuplicateKeyError):
            await trades.insert_one({"_id": note["record"], "state": ABANDONED, "created_at": now})
    elif record["state"] == OFFERED and record["round"] == note["round"]:
        guard = {"_id": record["_id"], "state": OFFERED, "round": note["round"]}
        await trades.update_one(guard, {"$inc": {"round": 1}})


def _given(note: Document) -> dict[str, int]:
    return {"quantity": note["delta"]} if note["delta"] > 0 else {}


def _back(note: Document) -> dict[str, int]:
    return {"quantity": -note["delta"]} if note["delta"] < 0 else {}


NOTED = Noted(STACKS, "notes", TRADES, given=_given, back=_back, prevent=_prevent, keys=("key", "decided"))


async def explain_miss(db: Database, lines: Sequence[Line], *, now: datetime) -> None:
    """Finds out why stacks had too little or no room. Returns if another attempt can succeed.

    That is so if goods come back: a settlement that is in flight has subtracted them, and can still be undone.

    Raises:   NotEnough, InvalidInput (a stack would hold too much).
    """
    found = await stacks.find_by_ids(db, [line.stack_id for line in lines])
    for line in lines:
        stack: Document = found.get(line.stack_id) or {"_id": line.stack_id, "quantity": 0, "notes": []}
        if await settlements.settle_decided(db, NOTED, stack, now=now):
            return
        in_flight = sum(-note["delta"] for note in stack["notes"] if note["delta"] < 0)
        if line.delta < 0 and stack["quantity"] + in_flight < -line.delta:
            raise NotEnough(line.item_id, stack["quantity"])
        if line.delta > 0 and stack["quantity"] + line.delta > stacks.MAX_QUANTITY:
            raise stacks.no_room(line.item_id)


def goods_of(lines: Sequence[Document]) -> list[Wanted]:
    """Returns the lines of a stored trade."""
    return [Wanted(line["category"], line["item_id"], line["quantity"]) for line in lines]


def place_of(stored: Any) -> Place:
    """Returns the inventory at one side of a stored trade."""
    return Place(stored["owner"], stored["inventory"])
