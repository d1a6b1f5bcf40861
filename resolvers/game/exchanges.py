"""Settlements: goods that move between several stacks, whatever crashes.

A settlement has a **record** in `game.trades` that decides it: a trade, or a move between inventories of one owner. It
has a **key**, random and used by one attempt of one process, and takes three steps:

1. *prepare*: one bulk of guarded updates leaves a note {key, delta} in each stack. A debit subtracts in the same
   update; its delta is negative. A credit only notes.
2. *decide*: one insert or one guarded update stores the key in the record.
3. *settle*: one bulk removes each note. The update that removes the note of a credit adds its delta.

      no notes --1--> noted --2--> decided --3--> settled
                        |
                        +--undo: remove the notes; refund the debits

Every interleaving is correct, even if processes stop or are suspended between any two steps:

* Only the attempt that made a key makes its notes, each of them once. A note can be removed once, and the update that
  removes it moves the goods. So each credit and each refund happens at most once.
* A record stores a key once and for good. Credits are given only for a stored key, and debits are refunded only for a
  key that can no longer be stored. So goods are never both credited and refunded.
* Before anybody undoes the notes of another attempt, they make its decision impossible: they insert the missing record
  as ABANDONED, or increase the `round` of the trade, which is in the guard of the decision. So a process that resumes
  late cannot decide, and removes its own notes.

At every moment, goods are in the quantity of a stack; in the note of a debit whose key is not stored; in the note of a
credit whose key is stored; or in a trade that is OFFERED. `stack_checks` adds these up.

A settlement has up to 80 stacks. A stack has notes only while a settlement is in flight, so it stays small, however
many offers its owner has made. A read that decides whether to finish or undo what another process began is itself a
write: see `look_at`.

If a stack has too little, other attempts may be holding its goods. The writer finishes or undoes notes that are older
than five seconds, and retries while the goods in flight would be enough. Otherwise it answers `NotEnough`. The check of
all sums is one aggregation with the read concern `snapshot`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import uuid4

from bson import ObjectId
from pymongo import UpdateOne
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.refusals import NotEnough
from portico.resolvers.writes.sweeps import STALE_AFTER

from . import stacks
from .stacks import DISPLAY, STACKS, Place, Wanted
from .trade_records import ABANDONED, OFFERED, TRADES, look_at


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


@dataclass(frozen=True)
class Attempt:
    """One attempt to settle. `round` is that of an existing trade, and None if the decision inserts the record."""

    record: ObjectId
    lines: Sequence[Line]
    at: datetime
    round: int | None = None
    key: str = field(default_factory=lambda: uuid4().hex)


async def prepare(db: Database, attempt: Attempt, *, new: Sequence[Document] = ()) -> bool:
    """Notes all lines, and subtracts the debits. If one stack has too little or no room, undoes the others.

    Args:     new: the empty stacks to create for credits, as `new_stack` makes them.
    Returns:  whether everything is noted.
    Writes:   game.stacks; one bulk of guarded updates, and one more to undo them.
    """
    if not attempt.lines:
        return True
    created = [UpdateOne({"_id": one["_id"]}, {"$setOnInsert": one}, upsert=True) for one in new]
    noted = [UpdateOne(_allowing(line), _noting(attempt, line)) for line in attempt.lines]
    result = await db[STACKS.name].bulk_write([*created, *noted], ordered=True)
    # An upsert that finds its stack counts as matched.
    if result.matched_count + result.upserted_count == len(created) + len(noted):
        return True
    await undo(db, attempt.key, attempt.lines)
    return False


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


def _allowing(line: Line) -> Document:
    allowed = {"quantity": {"$gte": -line.delta}} if line.delta < 0 else stacks.has_room(line.delta)
    return {"_id": line.stack_id, **allowed}


def _noting(attempt: Attempt, line: Line) -> Document:
    note = {
        "key": attempt.key,
        "delta": line.delta,
        "at": attempt.at,
        "record": attempt.record,
        "round": attempt.round,
    }
    update: Document = {"$push": {"notes": note}}
    if line.delta < 0:
        update["$inc"] = {"quantity": line.delta}
    return update


async def settle(db: Database, key: str, lines: Sequence[Line]) -> None:
    """Removes the notes of a key that was decided, and adds the credits. Idempotent."""
    await _remove(db, [(line.stack_id, key, line.delta, max(line.delta, 0)) for line in lines])


async def undo(db: Database, key: str, lines: Sequence[Line]) -> None:
    """Removes the notes of a key that can no longer be decided, and refunds the debits. Idempotent."""
    await _remove(db, [(line.stack_id, key, line.delta, max(-line.delta, 0)) for line in lines])


async def _remove(db: Database, notes: Sequence[tuple[str, str, int, int]]) -> None:
    """Removes notes, each a stack, a key and a delta, and adds so much to the quantity in the same update."""
    updates = []
    for stack, key, delta, added in notes:
        noted = {"_id": stack, "notes": {"$elemMatch": {"key": key, "delta": delta}}}
        update: Document = {"$pull": {"notes": {"key": key, "delta": delta}}}
        if added:
            update["$inc"] = {"quantity": added}
        updates.append(UpdateOne(noted, update))
    if updates:
        await db[STACKS.name].bulk_write(updates, ordered=False)


async def resolve_stale(db: Database, stack: Document, *, now: datetime) -> int:
    """Settles or undoes the notes of a stack that are older than five seconds. Returns how many. Idempotent.

    Raises:   KeyError and other errors of a damaged note.
    """
    stale = [note for note in stack["notes"] if note["at"] <= now - STALE_AFTER]
    for note in stale:
        is_decided = await _decided(db, note, now)
        added = max(note["delta"] if is_decided else -note["delta"], 0)
        await _remove(db, [(stack["_id"], note["key"], note["delta"], added)])
    return len(stale)


async def _decided(db: Database, note: Document, now: datetime) -> bool:
    """Returns whether the key of a note was decided. If it is open, makes its decision impossible first."""
    trades = db[TRADES.name]
    record = await look_at(db, note["record"])
    if record is None:
        with contextlib.suppress(DuplicateKeyError):
            await trades.insert_one({"_id": note["record"], "state": ABANDONED, "created_at": now})
        record = await look_at(db, note["record"])
    elif record["state"] == OFFERED and record["round"] == note["round"]:
        guard = {"_id": record["_id"], "state": OFFERED, "round": note["round"]}
        await trades.update_one(guard, {"$inc": {"round": 1}})
        record = await look_at(db, note["record"])
    assert record is not None, "records of notes are not deleted"
    return note["key"] in (record.get("key"), record.get("decided"))


async def explain_miss(db: Database, lines: Sequence[Line], *, now: datetime) -> None:
    """Finds out why stacks had too little or no room. Returns if another attempt can succeed.

    That is so if goods come back: a settlement that is in flight has subtracted them, and can still be undone.

    Raises:   NotEnough, InvalidInput (a stack would hold too much).
    """
    found = await stacks.find_by_ids(db, [line.stack_id for line in lines])
    for line in lines:
        stack: Document = found.get(line.stack_id) or {"_id": line.stack_id, "quantity": 0, "notes": []}
        if await resolve_stale(db, stack, now=now):
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
