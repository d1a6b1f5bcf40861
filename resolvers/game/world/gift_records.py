"""Records of what characters have given to those of other players, so that the receivers can be notified.

A record is written in the middle of the turn of the character that gives: after the room has decided, and before the
slot is freed. After a crash, the process that finishes the turn writes it. Its `_id` follows from the character and the
turn, so a gift has one record.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Versioned
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import derived_id

from .characters import Presence, majority_reading

KEPT = timedelta(days=365)


class GivenItem(TypedDict):
    """What an item was when it was given, without its contents."""

    _id: ObjectId
    description: str
    quantity: int
    bonus: int | None


class Gift(TypedDict):
    """What is to be recorded, if the room lets the character give it."""

    # The subject of the player who receives it.
    owner: str
    giver: Presence
    receiver: Presence
    item: GivenItem


class GiftDocument(Gift, Versioned):
    """A gift. MongoDB deletes it after a year."""

    _id: ObjectId
    given_at: datetime


GIFTS = CollectionSpec(
    "game.gifts",
    document=GiftDocument,
    indexes=[IndexModel([("given_at", ASCENDING)], expireAfterSeconds=int(KEPT.total_seconds()))],
    shard_key={"_id": "hashed"},
)


async def planned(db: Database, giver: Document, to: ObjectId, item: Mapping[str, Any]) -> Document:
    """Returns the facts of the action for the record; none if nobody is to be notified. One command."""
    taker = await majority_reading(db).find_one({"_id": to, "name": {"$exists": True}}, {"owner": 1, "name": 1})
    if taker is None or taker["owner"] == giver["owner"]:
        return {}
    gift: Gift = {
        "owner": taker["owner"],
        "giver": {"_id": giver["_id"], "name": giver["name"]},
        "receiver": {"_id": to, "name": taker["name"]},
        "item": {
            "_id": item["_id"],
            "description": item["description"],
            "quantity": item["quantity"],
            "bonus": item.get("bonus"),
        },
    }
    return {"gift": gift}


async def store(db: Database, giver: Document, refused: Document | None) -> None:
    """Stores the record of the action that the character has under way, if it is a gift that the room has allowed.

    Idempotent: a record that exists stays as it is.

    Writes:   game.gifts; one insert, or none.
    """
    action = giver["action"]
    if refused is not None or "gift" not in action:
        return
    record: Document = {
        **action["gift"],
        "_id": derived_id(f"{giver['_id']}.{action['turn']}", "gift"),
        "given_at": action["since"],
    }
    try:
        await db[GIFTS.name].insert_one(record)
    except DuplicateKeyError:
        # Another process finishes the turn, too.
        return
