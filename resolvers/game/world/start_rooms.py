"""The rooms where characters enter the world."""

from __future__ import annotations

from bson import ObjectId
from pymongo import ASCENDING

from portico.resolvers.documents import Database, Document

from .locations import LOCATIONS

# Start rooms that a character tries.
_MOST = 20


async def find(db: Database, character: ObjectId, *, only: ObjectId | None = None) -> list[Document]:
    """Returns the start rooms, those with the fewest characters first, each with the entry of this character, if any.

    With `only`, returns this room, whether characters can start there or not.

    So several start rooms share the characters that enter the world. Rooms with equal rosters are in their order.
    """
    wanted = {"start": 1, "size": {"$size": "$characters"}, "characters": {"$elemMatch": {"_id": character}}}
    query: Document = {"start": {"$exists": True}} if only is None else {"_id": only}
    found = await db[LOCATIONS.name].find(query, wanted, sort=[("start", ASCENDING)], limit=_MOST).to_list()
    return sorted(found, key=lambda room: room["size"])
