"""How far the changes have been followed: one document for all gateways of a database."""

from __future__ import annotations

import contextlib
from datetime import datetime
from typing import Any, NotRequired

from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.typed import TypedDict

CHANGES = "changes"


class Missed(TypedDict):
    """The change stream could not be resumed: what has happened since then is looked for in the collections."""

    since: datetime
    # The source and the collection that are being read; the `_id` of the last document that was.
    source: str
    collection: str
    after: NotRequired[Any]


class PositionDocument(Versioned):
    """How far the changes have been followed."""

    _id: str
    # The resume token after the last change whose notifications are stored.
    token: str
    # When it was stored.
    at: datetime
    missed: NotRequired[Missed]


POSITIONS = CollectionSpec("notification_positions", document=PositionDocument)


async def read(db: Database) -> PositionDocument | None:
    return await POSITIONS.of(db).find_one({"_id": CHANGES})


async def begin(db: Database, token: str, now: datetime) -> None:
    """Begins at this token, unless another worker has begun."""
    with contextlib.suppress(DuplicateKeyError):
        await POSITIONS.of(db).insert_one({"_id": CHANGES, "token": token, "at": now})


async def move(db: Database, before: PositionDocument, changes: Document, *, removes: tuple[str, ...] = ()) -> bool:
    """Changes the position, unless another worker has moved it. Returns whether it has."""
    guard: Document = {"_id": CHANGES, "token": before["token"], "missed": before.get("missed")}
    update: Document = {"$set": changes}
    if removes:
        update["$unset"] = dict.fromkeys(removes, "")
    return bool((await db[POSITIONS.name].update_one(guard, update)).matched_count)
