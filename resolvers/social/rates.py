"""Bounds how much a member may do in a minute, over all workers.

A document counts what a member has done in one minute:

    _id         {of, what, minute}
    used        how often; never above the bound
    operations  the latest repeatable operations that were counted
    expires_at  when MongoDB deletes it

A count is a capped counter: one guarded update, which fails at the bound.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta

from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import RateLimited
from portico.resolvers.writes import idempotency

RATES = CollectionSpec(
    "social.rates",
    indexes=[IndexModel([("expires_at", ASCENDING)], expireAfterSeconds=0)],
    shard_key={"_id": "hashed"},
)

# What is counted, each by itself.
POSTS = "posts"
COMMENTS = "comments"
GRAPH = "changes of circles and blocks"
_WINDOW = timedelta(minutes=1)
# A repeated call can find its mark among this many calls of the same minute.
_OPERATIONS_KEPT = 64


async def count(db: Database, member: str, what: str, *, rate: int | None, now: datetime, operation_id: str) -> None:
    """Counts one action of the member. A repeated call in the same minute counts once.

    Call this only if the action has not taken effect yet. Otherwise, a call that is repeated later counts again.

    Args:     what: POSTS, COMMENTS or GRAPH.  rate: the most in a minute; None, for imports, counts nothing.
    Raises:   RateLimited.
    Writes:   social.rates; one guarded upsert.
    """
    if rate is None:
        return
    minute = now.replace(second=0, microsecond=0)
    key = {"_id": {"of": member, "what": what, "minute": minute}}
    below = {**key, "used": {"$lt": rate}}
    change: Document = {"$inc": {"used": 1}, "$setOnInsert": {"expires_at": minute + 2 * _WINDOW}}
    if idempotency.is_repeatable(operation_id):
        below["operations"] = {"$ne": operation_id}
        change["$push"] = {"operations": {"$each": [operation_id], "$slice": -_OPERATIONS_KEPT}}
    try:
        await db[RATES.name].update_one(below, change, upsert=True)
    except DuplicateKeyError:
        # The document exists. Either it is not below the bound or has the mark, or another call has just inserted it.
        if (await db[RATES.name].update_one(below, change)).matched_count:
            return
        if await db[RATES.name].find_one({**key, "operations": operation_id}, {"_id": 1}) is not None:
            return
        seconds = math.ceil((minute + _WINDOW - now).total_seconds())
        message = f"A member may make at most {rate:,} {what} in a minute. Retry in {seconds} s."
        raise RateLimited(message, seconds) from None
