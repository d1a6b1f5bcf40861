"""Cancels offers that nobody has accepted for long, and deletes trades that were concluded long ago."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.problems import Problem
from portico.resolvers.writes.marks import random_operation_id
from portico.resolvers.writes.sweeps import sweep

from . import trade_edits
from .stacks import STACKS, Viewer
from .trade_records import CONCLUDED, OFFERED, TRADES

# Processes that were suspended for so long must not find their records gone; see `exchanges`.
_SHORTEST = timedelta(days=1)
# The inventory has no room for the goods. It can take its owner long to make some.
_RETRY_AFTER = timedelta(days=1)
_BATCH = 1_000
_GAME_MASTER = Viewer(None, is_game_master=True)


async def expire_trades(db: Database, *, expire_after: timedelta, now: datetime) -> int:
    """Cancels offers of this age, so that their goods go back. Returns how many.

    An offer whose goods the inventory has no room for is tried again a day later.
    """

    async def cancel(trade: Document) -> int:
        operation_id = random_operation_id()
        try:
            await trade_edits.cancel_trade(
                db, viewer=_GAME_MASTER, trade_id=trade["_id"], now=now, operation_id=operation_id
            )
        except InvalidInput:
            await db[TRADES.name].update_one({"_id": trade["_id"], "state": OFFERED}, {"$set": {"no_room_at": now}})
            return 0
        except (Conflict, NotFound):
            # Another call was faster, or the goods are in flight. The next run tries again.
            return 0
        return 1

    is_due = {"no_room_at": {"$not": {"$gt": now - _RETRY_AFTER}}}
    expired = {"state": OFFERED, "created_at": {"$lte": now - expire_after}, **is_due}
    return await sweep(db, TRADES, expired, cancel, fields=(), at_once=4)


async def find_stuck_offers(db: Database) -> AsyncIterator[Problem]:
    """Yields expired offers whose goods cannot go back, because the inventory has no room."""
    stuck = {"state": OFFERED, "no_room_at": {"$exists": True}}
    found = db[TRADES.name].find(stuck, {"from": 1, "no_room_at": 1})
    async for problem in Problem.all_in(found, _stuck_in, Problem.named("trade")):
        yield problem


async def _stuck_in(batch: list[Document]) -> AsyncIterator[Problem]:
    for trade in batch:
        owner, name = trade["from"]["owner"], trade["from"]["inventory"]
        text = (
            f"it has expired, but the inventory {name!r} of {owner!r} had no room for its goods at "
            f"{trade['no_room_at'].isoformat(timespec='seconds')}Z. Consume some, or move some to another inventory"
        )
        yield Problem(f"trade {trade['_id']}", text)


async def prune_trades(db: Database, *, kept: timedelta, now: datetime) -> int:
    """Deletes up to 1,000 records that were concluded so long ago. Returns how many.

    The notes are read after the records. A record that was concluded before that has its notes until its settlement is
    done, so the record of a settlement in flight is never deleted.
    """
    before = now - max(kept, _SHORTEST)
    concluded: Document = {"state": {"$in": list(CONCLUDED)}, "created_at": {"$lte": before}}
    old = {**concluded, "concluded_at": {"$not": {"$gt": before}}}
    found = [record["_id"] for record in await db[TRADES.name].find(old, {"_id": 1}, limit=_BATCH).to_list()]
    if not found:
        return 0
    noted: list[Document] = [
        {"$match": {"notes.at": {"$exists": True}}},
        {"$unwind": "$notes"},
        {"$group": {"_id": "$notes.record"}},
    ]
    held = [note["_id"] async for note in await db[STACKS.name].aggregate(noted)]
    over = [record for record in found if record not in held]
    return (await db[TRADES.name].delete_many({**old, "_id": {"$in": over}})).deleted_count
