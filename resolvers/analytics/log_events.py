"""Log events: one document for each request that a web server logged. The collection and its pages.

Apart from `uncounted`, events are never changed. An `eventId` is unique over all callers, and MongoDB keeps that only
for the shard key, so the collection is sharded by `_id`, and its lists are read from all shards.
"""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Document, Versioned
from portico.resolvers.paging import Listing, Sort

from .periods import require_range

# What pageCounts reads, which needs nothing else of an event. On shards, it also needs the shard key.
_COUNTED = [("time", ASCENDING), ("path", ASCENDING), ("visitor", ASCENDING), ("_id", ASCENDING)]

UNCOUNTED = "uncounted"


def _in_order(*paths: str) -> IndexModel:
    """Returns an index of the events with these values, by time."""
    return IndexModel([(path, ASCENDING) for path in (*paths, "time", "_id")])


class LogEventDocument(Versioned):
    """A log event. The `_id` of an event with an `eventId` is derived from it."""

    _id: ObjectId
    # Where the request came from: an address or a name.
    host: str
    # None if it is not known.
    user: str | None
    # The visitor: `u:` and the user, or `h:` and the host. Events with the same value are one visitor.
    visitor: str
    # When the request came.
    time: datetime
    # Up to 32 characters; `-` if it is not known.
    method: str
    # As the client sent it, up to 8,192 characters.
    path: str
    # 100 to 999.
    status: int
    # Bytes.
    response_size: int
    # The address of the page that led to the request.
    referrer: str | None
    # The name of the client's program.
    user_agent: str | None
    # The day of `time`, from the insert until a roll-up of that day includes the event; then absent.
    uncounted: NotRequired[datetime]


LOG_EVENTS = CollectionSpec(
    "analytics.log_events",
    document=LogEventDocument,
    indexes=[
        _in_order(),
        _in_order("path"),
        _in_order("host"),
        _in_order("host", "path"),
        IndexModel(_COUNTED, name="counted"),
        # Which days have events that no roll-up includes, and which events these are.
        IndexModel(
            [(UNCOUNTED, ASCENDING), ("_id", ASCENDING)], partialFilterExpression={UNCOUNTED: {"$exists": True}}
        ),
    ],
    shard_key={"_id": "hashed"},
)
COUNTED = "counted"
_LATEST_FIRST = Sort((("time", -1),))


def listing(*, path: str | None, host: str | None, begin: datetime | None, end: datetime | None) -> Listing:
    """Returns the events of this path and host, and from `begin` until before `end`, latest first.

    Raises InvalidInput for an empty range, or for a time outside the years 1970 to 2199.
    """
    if begin is not None and end is not None:
        require_range(begin, end)
    wanted: Document = {name: value for name, value in (("host", host), ("path", path)) if value is not None}
    bounds = {"$gte": begin, "$lt": end}
    given = {operator: time for operator, time in bounds.items() if time is not None}
    return Listing({**wanted, **({"time": given} if given else {})}, _LATEST_FIRST)
