"""Bounds how much a member may do in a minute or an hour, over all workers.

A count is a capped counter: one guarded update, which fails at the bound. It waits for the primary alone, because a
failover that loses the latest counts only lets a member do a little more.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import NotRequired

from pymongo import ASCENDING, IndexModel, WriteConcern
from pymongo.errors import DuplicateKeyError, PyMongoError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.errors import OperationRefused
from portico.resolvers.together import Begun
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import is_repeatable


class RateKey(TypedDict):
    """The member, the action, and the minute with which the period begins."""

    of: str
    what: str
    minute: datetime


class RateDocument(Versioned):
    """What a member has done in one period."""

    _id: RateKey
    # How often; never above the bound.
    used: int
    # The latest repeatable operations that were counted; missing if there was none.
    operations: NotRequired[list[str]]
    # When MongoDB deletes it.
    expires_at: datetime


RATES = CollectionSpec(
    "social.rates",
    document=RateDocument,
    indexes=[IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0)],
    shard_key={"_id": "hashed"},
)


@dataclass(frozen=True)
class Action:
    """What is counted by itself, and over which period."""

    name: str
    period: timedelta = timedelta(minutes=1)

    @property
    def period_name(self) -> str:
        return "a minute" if self.period == timedelta(minutes=1) else "an hour"


POSTS = Action("posts")
COMMENTS = Action("comments")
GRAPH = Action("changes of circles and blocks")
VOTES = Action("votes")
# Each change of a name rewrites all copies of it.
NAMES = Action("changes of the name", timedelta(hours=1))
# A repeated call can find its mark among this many calls of the same period.
_OPERATIONS_KEPT = 64
_PRIMARY = WriteConcern(w=1)


class RateLimited(OperationRefused):
    """The member has done too much in this minute or hour. Nothing was written. `retryAfter` is in seconds."""

    code = "RATE_LIMITED"


async def count(
    db: Database, member: str, action: Action, *, rate: int | None, now: datetime, operation_id: str
) -> bool:
    """Counts one action of the member. A repeated call in the same period counts once.

    Call this only if the action has not taken effect yet. Otherwise, a call that is repeated later counts again.

    Args:     rate: the most in a period; None, for imports, counts nothing.
    Returns:  whether this call has counted.
    Raises:   RateLimited.
    Writes:   social.rates; one guarded upsert.
    """
    if rate is None:
        return False
    begin, key = _period(member, action, now)
    below = {**key, "used": {"$lt": rate}}
    change: Document = {"$inc": {"used": 1}, "$setOnInsert": {"expires_at": begin + 2 * action.period}}
    if is_repeatable(operation_id):
        below["operations"] = {"$ne": operation_id}
        change["$push"] = {"operations": {"$each": [operation_id], "$slice": -_OPERATIONS_KEPT}}
    counts = db[RATES.name].with_options(write_concern=_PRIMARY)
    try:
        await counts.update_one(below, change, upsert=True)
    except DuplicateKeyError:
        # The document exists. Either it is not below the bound or has the mark, or another call has just inserted it.
        if (await counts.update_one(below, change)).matched_count:
            return True
        if await counts.find_one({**key, "operations": operation_id}, {"_id": 1}) is not None:
            return False
        seconds = math.ceil((begin + action.period - now).total_seconds())
        message = f"A member may make at most {rate:,} {action.name} in {action.period_name}. Retry in {seconds} s."
        raise RateLimited(message, retryAfter=seconds) from None
    return True


def _period(member: str, action: Action, now: datetime) -> tuple[datetime, Document]:
    """Returns the begin of the current period, and the filter of its count.

    Each period begins at a whole multiple of itself within the hour.
    """
    begin = now - timedelta(minutes=now.minute, seconds=now.second, microseconds=now.microsecond) % action.period
    return begin, {"_id": {"of": member, "what": action.name, "minute": begin}}


class Counting:
    """A count that goes out while the call reads what it needs. Await `counted` before the action."""

    def __init__(
        self, db: Database, member: str, action: Action, *, rate: int | None, now: datetime, operation_id: str
    ) -> None:
        self._db = db
        self._key = _period(member, action, now)[1]
        self._operation_id = operation_id
        counting = count(db, member, action, rate=rate, now=now, operation_id=operation_id)
        self._counting = Begun(counting)

    async def counted(self) -> None:
        """Returns when the action is counted. Raises RateLimited."""
        await self._counting.result()

    async def ended(self) -> None:
        """Returns when the command has ended, whatever its result."""
        await self._counting.ended()

    async def take_back(self) -> None:
        """Takes the count back, for a call that does not act. Leaves the count of an earlier call of the operation."""
        if await self._counting.ended() is not None or not await self._counting.result():
            return
        mine: Document = {**self._key, "used": {"$gt": 0}}
        change: Document = {"$inc": {"used": -1}}
        if is_repeatable(self._operation_id):
            mine["operations"] = self._operation_id
            change["$pull"] = {"operations": self._operation_id}
        # If this fails, the member can do a little less in this period.
        with contextlib.suppress(PyMongoError):
            await self._db[RATES.name].with_options(write_concern=_PRIMARY).update_one(mine, change)


@asynccontextmanager
async def counting(
    db: Database, member: str, action: Action, *, rate: int | None, now: datetime, operation_id: str
) -> AsyncIterator[Counting]:
    """Counts one action of the member while the block checks it. If the block refuses it, takes the count back."""
    counter = Counting(db, member, action, rate=rate, now=now, operation_id=operation_id)
    try:
        yield counter
    except PyMongoError:
        # The action may have taken effect.
        raise
    except Exception:
        await counter.take_back()
        raise
    finally:
        await counter.ended()
