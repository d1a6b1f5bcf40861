"""Rooms, and the copies of rooms that characters have."""

# An exit refers to rooms, which refer to exits.
from enum import Enum
from typing import Annotated

import strawberry

from portico.resolvers import errors
from portico.resolvers.documents import Document
from portico.resolvers.game.world import locations
from portico.resolvers.game.world.locations import LOCATIONS
from portico.schema.context import Info
from portico.schema.fields import Source, as_type, computed, related, stored
from portico.schema.inputs import described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.parts import part_id
from portico.schema.reading import load_one
from portico.schema.scalars import BigInt

from .items import Item, trees_of

CHARACTER_NAME = "Character"
LOCATION = Kind.of(
    "Location",
    LOCATIONS,
    visible_to=Kind.everybody,
)
_SHOWN = locations.MAX_CHARACTERS + locations.MAX_KEEPERS


@strawberry.enum(description="The direction of an exit.")
class Direction(Enum):
    N = strawberry.enum_value("N", description="North.")
    S = strawberry.enum_value("S", description="South.")
    E = strawberry.enum_value("E", description="East.")
    W = strawberry.enum_value("W", description="West.")
    UP = strawberry.enum_value("UP", description="Up.")
    DOWN = strawberry.enum_value("DOWN", description="Down.")


@strawberry.type(description="A way from one room to another.")
class Exit:
    id: strawberry.ID = part_id("Exit", lambda way: f"{way['direction']}.{way['to']}", "direction", "to")
    direction: Direction = stored(description="The direction.")
    location_id: strawberry.ID = computed(
        lambda way: Kind.encode_id(LOCATION.name, way["to"]), "to", description="The `id` of the room that it leads to."
    )
    location: "Location | None" = related(
        LOCATION.name, "to", description="The room that it leads to; null if there is none."
    )


@strawberry.enum(description="What a character is.")
class CharacterKind(Enum):
    PLAYER = strawberry.enum_value("PLAYER", description="The character of a player.")
    SHOPKEEPER = strawberry.enum_value("SHOPKEEPER", description="A shopkeeper, which buys and sells.")


def _kind_of(brief: Source) -> str:
    """Returns the kind of a character, whose key is a text if it is a shopkeeper."""
    return (CharacterKind.SHOPKEEPER if isinstance(brief["_id"], str) else CharacterKind.PLAYER).name


@strawberry.type(description="A character in a room, as everybody there sees it.")
class CharacterBrief:
    id: strawberry.ID = part_id("CharacterBrief", lambda one: one["_id"], "_id")
    character_id: strawberry.ID = computed(
        lambda one: Kind.encode_id(CHARACTER_NAME, one["_id"]), "_id", description="The character's `id`."
    )
    name: str = stored(description="The character's name.")
    kind: CharacterKind = computed(
        _kind_of, "_id", description="Whether it is the character of a player, or a shopkeeper."
    )


@strawberry.type(
    description="A character's own copy of the room it is in. Whenever the room changes, so do the copies."
)
class Surroundings:
    id: strawberry.ID = part_id("Surroundings", lambda room: f"{room['_id']}.{room['version']}", "_id", "version")
    location_id: strawberry.ID = node_id(LOCATION.name, "_id", description="The room's `id`.")
    version: BigInt = stored(
        description="The number of the room's state. Of two states of a room, the one with the higher number is later."
    )
    name: str = stored(description="The room's name.")
    description: str = stored(description="What a character sees here.")
    exits: list[Exit] = stored(length=len(Direction), description="The ways out.")
    characters: list[CharacterBrief] = stored(
        length=_SHOWN, description="Who is here: shopkeepers, then characters in the order in which they came."
    )
    inventory: list[Item] = computed(
        lambda room: trees_of(room["items"]),
        "items",
        length=locations.MAX_ITEMS,
        description="What lies on the floor, containers with their contents.",
    )


def _shown_in(room: Source) -> list[Document]:
    keepers = [
        {"_id": locations.keeper_key(room["_id"], keeper["number"]), "name": keeper["name"]}
        for keeper in room["keepers"]
    ]
    return [*keepers, *locations.present(dict(room))]


@strawberry.type(description="A room: the place of record for who and what is in it.")
class Location(Node):
    id: strawberry.ID = node_id(LOCATION.name, "_id")
    version: BigInt = stored(
        description="Grows with each change that players can see. It orders queries, events of `locationChanged` and "
        "the copies of characters: the highest number is the latest state."
    )
    name: str = stored(description="The room's name.")
    description: str = stored(description="What a character sees here.")
    exits: list[Exit] = stored(length=len(Direction), description="The ways out.")
    characters: list[CharacterBrief] = computed(
        _shown_in,
        "_id",
        "keepers.number",
        "keepers.name",
        "characters._id",
        "characters.name",
        "characters.leaving",
        "characters.absent",
        length=_SHOWN,
        description="Who is here: shopkeepers, then characters in the order in which they came.",
    )
    inventory: list[Item] = computed(
        lambda room: trees_of(room["items"]),
        "items",
        length=locations.MAX_ITEMS,
        description="What lies on the floor, containers with their contents.",
    )


@strawberry.type
class LocationQuery:
    @strawberry.field(description="The room with this id; null if there is none.")
    async def location(self, info: Info, id: Annotated[strawberry.ID, described("The room's id.")]) -> Location | None:
        try:
            key = Kind.key_in(info.context, LOCATION.name, id)
        except errors.NotFound:
            return None
        return as_type(Location, await load_one(info, LOCATION, key))
