"""The characters of players. The collection and its reads.

A document:

    _id           ObjectId, derived from owner and number, so that a player has at most 20
    owner         the subject of the player
    number        0 to 19, unique among the characters of the owner
    created_by    the id of the operation that created it; missing if no player did
    name, class   texts
    intrinsics    {strength, dexterity, intelligence, charisma}, 3 to 18 each
    health, mana  points
    gold          gold pieces, never below zero
    initial_gold  what the character was created with
    items         the items that it carries, as a flat list; see `items`
    armor         {HEAD, HANDS, FEET, BODY}: lists of the ids of worn items; a missing region is empty
    weapons       {LEFT, RIGHT, BOTH}: ids of wielded items; a missing hand is empty
    location      its copy of the room: {_id, name, description, exits, characters [{_id, name}], items, version};
                  missing until the character has entered its first room. Until then, no read shows the character
    turn          the number of its latest action; grows by 1 with each, from the time of creation
    action        the action under way: {id, turn, kind, since, …}; missing if there is none. See `turns`
    applied       marks of the operations that have changed the character
    created_at

`location.characters` also lists shopkeepers. Their `_id` is a text, `<hex _id of the room>.<number>`.

Characters are never deleted after they have entered a room.
"""

from __future__ import annotations

from collections.abc import Sequence

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection

CHARACTERS = CollectionSpec(
    "game.characters",
    indexes=[
        IndexModel([("owner", ASCENDING), ("number", ASCENDING)]),
        # The copies of a room.
        IndexModel([("location._id", ASCENDING)]),
        IndexModel([("action.since", ASCENDING)], sparse=True),
    ],
    # Every step of an action names the character. The list of a player's characters and the update of the copies of a
    # room query all shards.
    shard_key={"_id": "hashed"},
)

# A list of a player's characters has no pages.
MAX_CHARACTERS = 20
REGIONS = ("HEAD", "HANDS", "FEET", "BODY")
HANDS = ("LEFT", "RIGHT", "BOTH")
INTRINSICS = ("strength", "dexterity", "intelligence", "charisma")
# Three dice.
LOWEST_INTRINSIC, HIGHEST_INTRINSIC = 3, 18
HEALTH, MANA = 100, 100
# Pounds that a character carries for each point of strength.
# Source: System Reference Document 5.1, "Carrying Capacity".
POUNDS_BY_STRENGTH = 15
# Items that a character carries, those inside others included. It keeps a character's document below 1 MB.
MAX_ITEMS = 200


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    """Returns the characters with these ids that have entered the world."""
    query = {"_id": {"$in": list(ids)}, "location": {"$exists": True}}
    found = await db[CHARACTERS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {character["_id"]: character for character in found}


async def find_by_owner(db: Database, owner: str, projection: Projection | None = None) -> list[Document]:
    """Returns the player's characters that have entered the world, by number."""
    query = {"owner": owner, "location": {"$exists": True}}
    return await db[CHARACTERS.name].find(query, projection, sort=[("number", ASCENDING)]).to_list()
