"""The jobs that count what gateways have left behind, and that forget the ids of hits."""

from __future__ import annotations

from datetime import datetime, timedelta

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.sweeps import sweep

from . import hit_slots
from .batches import delete_older
from .hit_slots import HIT_IDS, HIT_SLOTS


async def settle_hits(db: Database, *, now: datetime) -> int:
    """Counts the flushes of slots whose lease has ended, and frees the slots. Returns how many."""

    async def settle(document: Document) -> int:
        slot = await hit_slots.take_over(db, document, now=now)
        if slot is None:
            return 0
        await hit_slots.apply(db, slot, now=now)
        await hit_slots.release(db, slot)
        return 1

    return await sweep(db, HIT_SLOTS, {"until": {"$lte": now}, "flush": {"$ne": None}}, settle)


async def forget_hit_ids(db: Database, *, now: datetime, days: float | None) -> int:
    """Deletes the ids of hits that were recorded longer ago than this many days. Returns how many."""
    return 0 if days is None else await delete_older(db, HIT_IDS, "at", now - timedelta(days=days))
