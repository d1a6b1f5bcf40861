"""Bounds the open offers of each owner to each other owner, so that nobody can fill the list of another.

An offer claims a place before it is made, by one guarded update, and gives it back when it is accepted or cancelled. So
the bound holds however many calls run at once. A crash can leave a claim without an open offer. When the places of a
pair are used up, the next call looks at old claims and removes those.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime, timedelta

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.game.refusals import LimitReached
from portico.resolvers.typed import TypedDict

from .trade_records import OFFERED, TRADES


class Claim(TypedDict):
    """The claim of an open offer."""

    id: ObjectId
    at: datetime


_WithOwners = TypedDict("_WithOwners", {"from": str, "to": str})


class PairDocument(_WithOwners, Versioned):
    """An owner and another owner to whom it has offered a trade. Its `_id` is derived from both."""

    _id: str
    # Oldest first.
    open: list[Claim]


PAIRS = CollectionSpec("game.trade_pairs", document=PairDocument, shard_key={"_id": "hashed"})

MAX_OPEN = 20
# An offer is made within milliseconds of its claim. A claim of this age without an open offer was left by a crash.
_STALE_AFTER = timedelta(minutes=1)


async def claim_place(db: Database, source: str, to: str, *, claim: ObjectId, now: datetime) -> None:
    """Claims a place for an open offer from one owner to another. Idempotent for the claim.

    Raises:   LimitReached.
    Writes:   game.trade_pairs; one guarded update.
    """
    if await _claim(db, source, to, claim, now):
        return
    if await _remove_stale(db, source, to, now) and await _claim(db, source, to, claim, now):
        return
    raise LimitReached(
        f"You already have {MAX_OPEN} open offers to {to!r}. Cancel one, or wait until one is accepted.", MAX_OPEN
    )


async def release_place(db: Database, trade: Document) -> None:
    """Gives back the place of an offer that is no longer open. Idempotent."""
    if "claim" in trade:
        await _release(db, trade["from"]["owner"], trade["to"]["owner"], [trade["claim"]])


async def release_claim(db: Database, source: str, to: str, claim: ObjectId) -> None:
    """Gives back the place of an offer that was refused. Idempotent."""
    await _release(db, source, to, [claim])


async def _release(db: Database, source: str, to: str, claims: list[ObjectId]) -> None:
    await db[PAIRS.name].update_one({"_id": _pair(source, to)}, {"$pull": {"open": {"id": {"$in": claims}}}})


def _pair(source: str, to: str) -> str:
    return hashlib.blake2b(json.dumps([source, to]).encode(), digest_size=20).hexdigest()


async def _claim(db: Database, source: str, to: str, claim: ObjectId, now: datetime) -> bool:
    """Returns whether the pair has the claim."""
    key = _pair(source, to)
    free = {"_id": key, f"open.{MAX_OPEN - 1}": {"$exists": False}, "open.id": {"$ne": claim}}
    update = {"$push": {"open": {"id": claim, "at": now}}, "$setOnInsert": {"from": source, "to": to}}
    try:
        await db[PAIRS.name].update_one(free, update, upsert=True)
    except DuplicateKeyError:
        # The pair exists, and is full or has the claim; or another call has just created it.
        if (await db[PAIRS.name].update_one(free, {"$push": update["$push"]})).matched_count:
            return True
        return await db[PAIRS.name].find_one({"_id": key, "open.id": claim}, {"_id": 1}) is not None
    return True


async def _remove_stale(db: Database, source: str, to: str, now: datetime) -> bool:
    """Removes old claims without an open offer. Returns whether there were any."""
    pair = await db[PAIRS.name].find_one({"_id": _pair(source, to)})
    old = [one["id"] for one in (pair or {}).get("open", ()) if one["at"] <= now - _STALE_AFTER]
    offered = db[TRADES.name].find({"claim": {"$in": old}, "state": OFFERED}, {"claim": 1}, batch_size=len(old) + 1)
    stale = set(old) - {trade["claim"] for trade in await offered.to_list()}
    if stale:
        await _release(db, source, to, list(stale))
    return bool(stale)
