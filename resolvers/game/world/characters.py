"""The characters of players. The collection and its reads.

`location.characters` also lists shopkeepers. Their `_id` is a text, `<hex _id of the room>.<number>`.

A deleted character keeps `_id`, `owner`, `number`, `created_by`, `turn`, `gold`, `initial_gold`, `applied` and
`created_at`. No read shows it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel
from pymongo.read_concern import ReadConcern

from portico.resolvers.documents import Collection, CollectionSpec, Database, Document, Versioned
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.typed import TypedDict

from .items import Item
from .locations import Exit


class Intrinsics(TypedDict):
    """3 to 18 each."""

    strength: int
    dexterity: int
    intelligence: int
    charisma: int


class Presence(TypedDict):
    """A character or shopkeeper in a room. The `_id` of a shopkeeper is a text."""

    _id: ObjectId | str
    name: str


class RoomCopy(TypedDict):
    """A character's copy of its room."""

    _id: ObjectId
    name: str
    description: str
    exits: list[Exit]
    characters: list[Presence]
    items: list[Item]
    version: int


class Action(TypedDict):
    """The action under way, see `turns`."""

    id: str
    turn: int
    kind: str
    room: ObjectId
    since: datetime
    # What the character hands over.
    items: NotRequired[list[Item]]
    gold: NotRequired[int]
    # Where it goes, and the rooms that take part.
    to: NotRequired[ObjectId]
    rooms: NotRequired[list[ObjectId]]
    # What it asks the room for, and where that is.
    item: NotRequired[ObjectId]
    container: NotRequired[ObjectId]
    keeper: NotRequired[int]
    rested_since: NotRequired[datetime | None]
    # It rests only if it has done nothing since then.
    before: NotRequired[datetime]
    # What is recorded of a gift, see `gift_records`.
    gift: NotRequired[dict[str, Any]]


class Relocated(TypedDict):
    """The latest move by an operator: the operation, and from where."""

    by: str
    room: ObjectId


class DeletedCharacter(TypedDict):
    """The operation that deleted a character, and where its things are."""

    by: str
    at: datetime
    room: ObjectId


_WithClass = TypedDict("_WithClass", {"class": NotRequired[str]})


class CharacterDocument(_WithClass, Versioned):
    """A character. Its `_id` is derived from owner and number."""

    _id: ObjectId
    # The subject of the player.
    owner: str
    # Unique among the characters of the owner, deleted ones too; see `creation` for how it bounds them.
    number: int
    # The id of the operation that created it; missing if no player did.
    created_by: NotRequired[str]
    name: NotRequired[str]
    intrinsics: NotRequired[Intrinsics]
    # Points.
    health: NotRequired[int]
    mana: NotRequired[int]
    # Gold pieces, never below zero, and what the character was created with.
    gold: int
    initial_gold: int
    # What it carries, as a flat list; see `items`.
    items: NotRequired[list[Item]]
    # The ids of worn items by HEAD, HANDS, FEET and BODY; a missing region is empty.
    armor: NotRequired[dict[str, list[ObjectId]]]
    # The ids of wielded items by LEFT, RIGHT and BOTH; a missing hand is empty.
    weapons: NotRequired[dict[str, ObjectId]]
    # Missing until the character has entered its first room. Until then, no read shows the character.
    location: NotRequired[RoomCopy]
    # The number of its latest action; grows by 1 with each, from the time of creation.
    turn: int
    # Since when it has left the roster of its room because it was idle; None or missing if it is there.
    resting_since: NotRequired[datetime | None]
    # Missing if there was none.
    relocated: NotRequired[Relocated]
    deleted: NotRequired[DeletedCharacter]
    action: NotRequired[Action]
    # Marks of the operations that have changed the character.
    applied: list[str]
    created_at: datetime


class ShownCharacter(CharacterDocument):
    """A character as it is shown. A shopkeeper is shown as a character without an owner."""

    keeper: NotRequired[bool]


# Characters that do not rest.
AWAKE: Document = {"resting_since": None}

CHARACTERS = CollectionSpec(
    "game.characters",
    document=CharacterDocument,
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


def majority_reading(db: Database) -> Collection:
    """Returns the characters with majority reads: what a turn follows from is never rolled back."""
    return db[CHARACTERS.name].with_options(read_concern=ReadConcern("majority"))


def listing(*, owner: str | None = None, room: ObjectId | None = None) -> Listing:
    """Returns the characters in the world: those of a player by number, others latest first."""
    wanted: Document = {"location._id": {"$exists": True} if room is None else room}
    if owner is not None:
        return Listing({"owner": owner, **wanted}, Sort((("number", 1),)))
    return Listing(wanted, Sort((("created_at", -1),)))
