"""Slots of writers of hits. Each has a write-ahead log of one entry, the flush. So every hit is counted exactly once.

1. **Seal**: one update of the slot, guarded by owner and `seq`, stores the flush and increments `seq`. It is the
   decision: its hits will be counted, whatever crashes.
2. **Apply** (`apply`): inserts the ids of the events, each with the number of this flush. An id that is there already
   with another flush was sent before, and is not counted. If that flush may not be counted yet, it is counted now, so
   that the caller who has sent the id again finds it in every counter. Then every counter of the slot is incremented,
   guarded by `seq` below that of the flush. A counter that does not exist is inserted.
3. The next flush is sealed only after all of that has succeeded. So a counter whose `seq` is at least that of a flush
   has it, and one with a lower `seq` lacks it.

A caller gets the answer after step 2, so an acknowledged hit is in every counter.

Applying a flush again changes nothing, also by another process and however late. If the owner is gone, a job takes the
slot over, applies the flush and releases the slot. A process that was suspended can no longer seal, because the owner
has changed; what it still applies has been applied.

Source: the write-ahead log of databases, and sequence numbers as of the retryable writes of MongoDB.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from bson import Int64, ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel, ReturnDocument
from pymongo.errors import BulkWriteError, DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.errors import Conflict
from portico.resolvers.import_outcomes import rejected_rows
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import DAMAGED

from .batches import FIRST, insert_new
from .hit_counters import HIT_DAYS, HIT_MONTHS, add, increments_of


class Count(TypedDict):
    """The hits of a page in a minute."""

    series: ObjectId
    minute: datetime
    hits: int


class Event(TypedDict):
    """A hit with an `eventId`."""

    _id: ObjectId
    series: ObjectId
    minute: datetime


class Flush(TypedDict):
    """What a slot is about to count."""

    counts: list[Count]
    events: list[Event]


class SlotDocument(Versioned):
    """A slot. Its `_id` is its number, from 0."""

    _id: int
    # The random token of the process that writes; None if it was released.
    owner: str | None
    # Until when another process leaves the slot to its owner.
    until: datetime
    # Int64, the number of the latest flush.
    seq: int
    # The latest flush; None if it is known to be counted.
    flush: Flush | None


class HitId(Versioned):
    """The id of a hit that was recorded, with the flush that counts it."""

    _id: ObjectId
    slot: int
    seq: int
    at: datetime


HIT_SLOTS = CollectionSpec(
    "analytics.hit_slots",
    document=SlotDocument,
    # Slots of processes that are gone.
    indexes=[IndexModel([("until", ASCENDING)])],
)
HIT_IDS = CollectionSpec(
    "analytics.hit_ids", document=HitId, indexes=[IndexModel([("at", ASCENDING)])], shard_key={"_id": "hashed"}
)
# Each flush extends the lease of its slot to this time.
LEASE = timedelta(seconds=30)
# Flushes of a slot with another `seq` cannot be numbered, so no process writes in it.
_NUMBERED: Document = {"seq": {"$type": "long"}}
# A flush: its slot and its `seq`.
_Number = tuple[int, int]


@dataclass
class Slot:
    """A slot that this process owns, as it knows it. All flushes up to `seq` are counted unless `flush` is set."""

    number: int
    owner: str
    seq: int
    flush: Document | None

    def guard(self) -> Document:
        return {"_id": self.number, "owner": self.owner}


async def take(db: Database, *, now: datetime) -> Slot:
    """Takes a slot that nobody uses, whose flushes are all counted, or creates one.

    Raises Conflict if others keep creating it.

    Writes:   one update, or one insert.
    """
    slots, owner = db[HIT_SLOTS.name], uuid4().hex
    lease = {"owner": owner, "until": now + LEASE}
    async for _ in attempts():
        unused = {"until": {"$lte": now}, "flush": None, **_NUMBERED}
        found = await slots.find_one_and_update(unused, {"$set": lease}, return_document=ReturnDocument.AFTER)
        if found is not None:
            return _slot_of(found)
        last = await slots.find_one({"_id": {"$gte": 0}}, {"_id": 1}, sort=[("_id", DESCENDING)])
        fresh = {"_id": 0 if last is None else last["_id"] + 1, **lease, "seq": Int64(0), "flush": None}
        try:
            await slots.insert_one(fresh)
        except DuplicateKeyError:
            continue
        return _slot_of(fresh)
    raise Conflict("Too many gateways begin to count hits. Try again.")


async def read(db: Database, number: int) -> Slot | None:
    """Returns the slot with this number. Returns None if there is none."""
    found: Any = await db[HIT_SLOTS.name].find_one({"_id": number})
    return None if found is None else _slot_of(found)


async def take_over(db: Database, ended: Document, *, now: datetime) -> Slot | None:
    """Takes a slot whose lease has ended, as it was read. Returns None if another process was faster."""
    guard = {"_id": ended["_id"], "owner": ended["owner"], "until": ended["until"]}
    lease = {"owner": uuid4().hex, "until": now + LEASE}
    update = {"$set": lease}
    found = await db[HIT_SLOTS.name].find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
    return None if found is None else _slot_of(found)


async def look(db: Database, slot: Slot, *, now: datetime) -> Slot | None:
    """Returns the slot as it is, after a write whose outcome is unknown.

    Returns None if another process has taken it, or if it is damaged. It looks by a write, because a server that has
    lost its primary role can answer reads.
    """
    own, lease = {**slot.guard(), **_NUMBERED}, {"$set": {"until": now + LEASE}}
    found = await db[HIT_SLOTS.name].find_one_and_update(own, lease, return_document=ReturnDocument.AFTER)
    return None if found is None else _slot_of(found)


async def seal(db: Database, slot: Slot, flush: Document, *, now: datetime) -> bool:
    """Stores the next flush of the slot. Returns False if the slot has changed: nothing was stored.

    Args:     slot: all its flushes are counted.
    Writes:   one update.
    """
    seq = Int64(slot.seq + 1)
    changes = {"seq": seq, "flush": flush, "until": now + LEASE}
    done = await db[HIT_SLOTS.name].update_one({**slot.guard(), "seq": Int64(slot.seq)}, {"$set": changes})
    if not done.matched_count:
        return False
    slot.seq, slot.flush = seq, flush
    return True


async def release(db: Database, slot: Slot) -> None:
    """Gives up a slot. If its flush is counted, forgets the flush; otherwise a job counts it."""
    counted = {} if slot.flush else {"flush": None}
    guard = {**slot.guard(), "seq": Int64(slot.seq)}
    await db[HIT_SLOTS.name].update_one(guard, {"$set": {"owner": None, "until": FIRST, **counted}})


async def apply(db: Database, slot: Slot, *, now: datetime) -> None:
    """Counts the flush of the slot, unless it is counted already. Idempotent, also long after other flushes.

    If other flushes have recorded some of its events first, these are counted as well.

    Raises:   errors of DAMAGED, if a counter of the slot is damaged. The others are incremented nevertheless.
    Writes:   analytics.hit_ids; one insert. analytics.hit_days and analytics.hit_months; one update for each page and
              day, and for each page and month, in one command each.
    """
    if slot.flush is None:
        return
    own, others = await _claim(db, slot, slot.flush, now=now)
    for other, flush in await _uncounted(db, slot, others):
        # If the other slot or one of its counters is damaged, the job counts the flush after the repair.
        with contextlib.suppress(*DAMAGED):
            theirs, _ = await _claim(db, other, flush, now=now)
            await _count(db, other, flush, theirs)
    await _count(db, slot, slot.flush, own)
    slot.flush = None


def hits_of(flush: Document, own: Iterable[ObjectId]) -> list[tuple[ObjectId, datetime, int]]:
    """Returns the hits of a flush, as (series, minute, count): all without an id, and those with these ids.

    Raises an error of DAMAGED.
    """
    events = {event["_id"]: (event["series"], event["minute"], 1) for event in flush["events"]}
    counts = [(count["series"], count["minute"], count["hits"]) for count in flush["counts"]]
    return [*counts, *(events[key] for key in own)]


async def _count(db: Database, slot: Slot, flush: Document, own: Iterable[ObjectId]) -> None:
    """Increments the counters of the slot by its flush, with these of its events."""
    failure: BulkWriteError | None = None
    hits = hits_of(flush, own)
    specs: Sequence[CollectionSpec] = (HIT_DAYS, HIT_MONTHS)
    for spec, counters in zip(specs, increments_of(hits, slot.number), strict=True):
        try:
            await add(db, spec, counters, Int64(slot.seq))
        except BulkWriteError as error:
            # A damaged counter does not keep the others from being incremented.
            rejected_rows(error)
            failure = error
    if failure is not None:
        raise failure


async def _claim(
    db: Database, slot: Slot, flush: Document, *, now: datetime
) -> tuple[Sequence[ObjectId], set[_Number]]:
    """Records the ids of the events of the flush.

    Returns:  those that belong to this flush, because no earlier one has recorded them; and the numbers of the flushes
              that have recorded the others.
    """
    own: list[ObjectId] = []
    others: set[_Number] = set()
    remaining = [event["_id"] for event in flush["events"]]
    async for _ in attempts():
        if not remaining:
            return own, others
        claims = [{"_id": key, "slot": slot.number, "seq": Int64(slot.seq), "at": now} for key in remaining]
        new = await insert_new(db, HIT_IDS, claims)
        own += new
        remaining = [key for key in remaining if key not in new]
        known = await _flushes_of(db, remaining) if remaining else {}
        own += [key for key in remaining if known.get(key) == (slot.number, slot.seq)]
        others |= {known[key] for key in remaining if key in known} - {(slot.number, slot.seq)}
        # Only a server that has lost its primary role does not know an id that was refused as a duplicate.
        remaining = [key for key in remaining if key not in known]
    raise Conflict("The ids of hits keep changing. Try again.")


async def _flushes_of(db: Database, ids: Sequence[ObjectId]) -> Mapping[ObjectId, _Number]:
    """Returns the slot and the number of the flush that has recorded each id."""
    chosen, shown = {"_id": {"$in": list(ids)}}, {"slot": 1, "seq": 1}
    found = await db[HIT_IDS.name].find(chosen, shown, batch_size=len(ids) + 1).to_list()
    return {one["_id"]: (one["slot"], one["seq"]) for one in found}


async def _uncounted(db: Database, own: Slot, flushes: set[_Number]) -> list[tuple[Slot, Document]]:
    """Returns those of the flushes that may not be counted, with their slots: only the latest one of a slot."""
    numbers = {number for number, _ in flushes} - {own.number}
    if not numbers:
        return []
    found = db[HIT_SLOTS.name].find({"_id": {"$in": list(numbers)}, "flush": {"$ne": None}})
    return [(_slot_of(one), one["flush"]) async for one in found if (one["_id"], one["seq"]) in flushes]


def _slot_of(document: Document) -> Slot:
    return Slot(document["_id"], document["owner"], document["seq"], document["flush"])
