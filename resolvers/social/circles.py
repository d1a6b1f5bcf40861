"""Circles: the names that a member has given to groups of other members.

A circle exists while it has a member. `circles` of a member lists all of them, and may list others that are empty.
"""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput

from .members import MEMBERS, MemberDocument
from .relations import RELATIONS

MAX_CIRCLES = 200
# The most circles that one command looks at.
_CIRCLES_A_COMMAND = 100


async def existing(db: Database, member: str, names: Sequence[str]) -> list[str]:
    """Returns those of the circles that have a member, in their order. It reads one index key for each."""
    found: set[str] = set()
    for start in range(0, len(names), _CIRCLES_A_COMMAND):
        parts: list[list[Document]] = [
            [
                {"$match": {"of": member, "circles": {"$eq": name}}},
                {"$limit": 1},
                {"$project": {"_id": 0, "name": {"$literal": name}}},
            ]
            for name in names[start : start + _CIRCLES_A_COMMAND]
        ]
        pipeline = parts[0] + [{"$unionWith": {"coll": RELATIONS.name, "pipeline": part}} for part in parts[1:]]
        cursor = await db[RELATIONS.name].aggregate(pipeline)
        found.update(row["name"] for row in await cursor.to_list())
    return [name for name in names if name in found]


async def require_room(db: Database, member: MemberDocument, name: str) -> None:
    """Lists a circle of the member before it gets its first member.

    Args:     member: the member's document.
    Raises:   InvalidInput if the member has 200 other circles. Concurrent calls can exceed the limit slightly.
    Writes:   social.members; one guarded update, for a new circle. With 200 names, removes empty circles before.
    """
    if name in member.get("circles", ()) or await _list(db, member["_id"], name):
        return
    await _remove_empty(db, member["_id"])
    if not await _list(db, member["_id"], name):
        raise InvalidInput(
            f"You already have {MAX_CIRCLES} circles. Empty one of them first.",
            "circle",
            code=InvalidInput.TOO_MANY,
            most=MAX_CIRCLES,
        )


async def restore(db: Database, member: str, names: Sequence[str]) -> None:
    """Lists circles again that were removed from the list while they got a member."""
    await db[MEMBERS.name].update_one({"_id": member}, {"$addToSet": {"circles": {"$each": list(names)}}})


async def _list(db: Database, member: str, name: str) -> bool:
    """Adds the name to the list. Returns False if the list is full."""
    is_listed = {"_id": member, "circles": name}
    has_room = {"_id": member, "circles": {"$ne": name}, f"circles.{MAX_CIRCLES - 1}": {"$exists": False}}
    if (await db[MEMBERS.name].update_one(has_room, {"$push": {"circles": name}})).matched_count:
        return True
    return await db[MEMBERS.name].find_one(is_listed, {"_id": 1}) is not None


async def _remove_empty(db: Database, member: str) -> None:
    """Removes empty circles from the list.

    Mark, then look: a writer that puts a member into a circle looks at the list afterwards, and this looks at the
    circles after it has removed their names. So one of both sees that the circle is not empty.
    """
    found = await db[MEMBERS.name].find_one({"_id": member}, {"circles": 1}) or {}
    names = found.get("circles", [])
    there = set(await existing(db, member, names))
    empty = [name for name in names if name not in there]
    if empty:
        await db[MEMBERS.name].update_one({"_id": member}, {"$pull": {"circles": {"$in": empty}}})
        filled = await existing(db, member, empty)
        if filled:
            await restore(db, member, filled)
