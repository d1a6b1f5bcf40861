"""The characters of players. The collection and its reads.

A document:

    _id           ObjectId, derived from owner and number
    owner         the subject of the player
    number        unique among the characters of the owner, deleted ones too; see `creation` for how it bounds them
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
    resting_since  since when it has left the roster of its room because it was idle; None or missing if it is there
    relocated     the latest move by an operator: {by: the operation, room: from where}; missing if there was none
    deleted       {by: the operation, at, room: where its things are}; missing if it is not deleted
    action        the action under way: {id, turn, kind, since, …}; missing if there is none. See `turns`
    applied       marks of the operations that have changed the character
    created_at

`location.characters` also lists shopkeepers. Their `_id` is a text, `<hex _id of the room>.<number>`.

A deleted character keeps `_id`, `owner`, `number`, `created_by`, `turn`, `gold`, `initial_gold`, `applied` and
`created_at`. No read shows it.
"""

from __future__ import annotations

from collections.abc import Sequence

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.paging import Listing, Sort

# Characters that do not rest.
AWAKE: Document = {"resting_since": None}

CHARACTERS = CollectionSpec(
    "game.characters",
    indexes=[
        IndexModel([("owner", ASCENDING), ("number", ASCENDING), ("_id", ASCENDING)]),
        # The copies of a room that change with it. Any number of characters can rest in a room.
        IndexModel([("location._id", ASCENDING)], name="awake", partialFilterExpression=AWAKE),
        # The list of those who have a copy of a room.
        IndexModel([("location._id", ASCENDING), ("created_at", DESCENDING), ("_id", DESCENDING)]),
        # The list of all characters in the world.
        IndexModel(
            [("created_at", DESCENDING), ("_id", DESCENDING)],
            partialFilterExpression={"location._id": {"$exists": True}},
        ),
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


def listing(*, owner: str | None = None, room: ObjectId | None = None) -> Listing:
    """Returns the characters in the world: those of a player by number, others latest first."""
    wanted: Document = {"location._id": {"$exists": True} if room is None else room}
    if owner is not None:
        return Listing({"owner": owner, **wanted}, Sort((("number", 1),)))
    return Listing(wanted, Sort((("created_at", -1),)))


async def find_by_owner(db: Database, owner: str, projection: Projection | None = None) -> list[Document]:
    """Returns the player's characters that have entered the world, by number."""
    query = {"owner": owner, "location": {"$exists": True}}
    return await db[CHARACTERS.name].find(query, projection, sort=[("number", ASCENDING)]).to_list()
