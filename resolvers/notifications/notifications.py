"""Notifications: the collection and its reads.

A notification holds no text. It says who did something, and which object to look at. Whether its member sees either is
decided when it is read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, NotRequired

from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Author, CollectionSpec, Database, Document, Projection, Versioned
from portico.resolvers.notifying import Notifications, NotificationSource
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.typed import TypedDict

# The most rows that a count of unread notifications reads.
MAX_EXAMINED = 200
# Of a key.
_BYTES = 16


class About(TypedDict):
    """The object that a notification is about."""

    kind: str
    key: str


class NotificationDocument(Versioned):
    """A notification. Its `_id` is derived from its member, its reason and its key: see `key_of`."""

    _id: str
    # The subject of the member who is notified.
    of: str
    # The reason of the notice; and what tells it apart from others with this reason.
    reason: str
    key: str
    about: About
    # Who did it; missing if nobody did.
    by: NotRequired[Author]
    # When it happened.
    created_at: datetime
    # When MongoDB deletes it.
    forget_at: datetime
    # True until it is read.
    unread: NotRequired[bool]
    read_at: NotRequired[datetime]


_NEWEST = (("created_at", DESCENDING), ("_id", DESCENDING))
_UNREAD: Document = {"unread": True}

NOTIFICATIONS = CollectionSpec(
    "notifications",
    document=NotificationDocument,
    indexes=[
        IndexModel([("of", ASCENDING), *_NEWEST]),
        IndexModel([("of", ASCENDING), *_NEWEST], name="unread", partialFilterExpression=_UNREAD),
        IndexModel([("forget_at", ASCENDING)], expireAfterSeconds=0),
    ],
    # The list of a member comes from one shard. The `_id` ends with the member, so a read by id does, too.
    shard_key={"of": 1},
)


def received_by(member: str) -> tuple[str, str]:
    """Returns the topic of a member's new notifications. The key of an event is the `_id`."""
    return "notifications", member


EVENTS: Sequence[ChangeSource] = (
    ChangeSource.inserts(NOTIFICATIONS, ("of",), lambda added: Event(received_by(added["of"]), added["_id"])),
)


def key_of(member: str, reason: str, key: str) -> str:
    """Returns the `_id`: 128 bits in hexadecimal, and the member, so that it leads to the shard."""
    digest = hashlib.blake2b(f"{member}\0{reason}\0{key}".encode("utf-8", "surrogatepass"), digest_size=_BYTES)
    return f"{digest.hexdigest()}.{member}"


def member_of(key: str) -> str:
    """Returns the member in an `_id`. Raises ValueError for other text."""
    digest, dot, member = key.partition(".")
    if not dot or len(digest) != 2 * _BYTES:
        raise ValueError(key)
    return member


def new_notification(notice: NotificationSource.Notice, *, kept: timedelta) -> NotificationDocument:
    """Returns the notification of a notice, which is kept so long after what it says has happened."""
    kind, key = notice.about
    distinct = notice.key or f"{kind}:{key}"
    found: NotificationDocument = {
        "_id": key_of(notice.to, notice.reason, distinct),
        "of": notice.to,
        "reason": notice.reason,
        "key": distinct,
        "about": {"kind": kind, "key": key},
        "created_at": notice.at,
        "forget_at": notice.at + kept,
        "unread": True,
    }
    return found if notice.by is None else {**found, "by": notice.by}


def listing(member: str, *, unread_only: bool) -> Listing:
    """Returns the notifications of a member, latest first."""
    return Listing({"of": member, **(_UNREAD if unread_only else {})}, Sort((("created_at", -1),)))


async def find_by_keys(
    db: Database, keys: Sequence[str], projection: Projection | None = None
) -> dict[str, NotificationDocument]:
    """Returns the notifications with these keys. One command, to the shards of their members."""
    query: Document = {"_id": {"$in": list(keys)}, "of": {"$in": list({member_of(key) for key in keys})}}
    found = await NOTIFICATIONS.of(db).find(query, projection, batch_size=len(keys) + 1).to_list()
    return {one["_id"]: one for one in found}


async def count_unread(db: Database, member: str, *, declared: Notifications) -> int:
    """Returns how many of the member's latest `MAX_EXAMINED` unread notifications the member sees.

    One command on one index, and one for each domain that hides members.
    """
    query, shown = {"of": member, **_UNREAD}, {"_id": 0, "by.id": 1}
    rows: Any = db[NOTIFICATIONS.name].find(query, shown, sort=list(_NEWEST), limit=MAX_EXAMINED)
    authors = [row["by"]["id"] if "by" in row else None for row in await rows.to_list()]
    # It reads after the notifications.
    hidden = await declared.hidden(db, member, [author for author in authors if author is not None])
    return sum(author not in hidden for author in authors)
