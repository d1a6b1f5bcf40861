"""Characters: those of players, and shopkeepers."""

from datetime import datetime
from enum import Enum
from typing import Annotated

import strawberry

from portico.loaders.game.world import characters as loaders
from portico.loaders.game.world.characters import CharacterKey
from portico.resolvers import errors
from portico.resolvers.documents import Document, projection_name
from portico.resolvers.game.world import characters, locations
from portico.resolvers.game.world.characters import MAX_CHARACTERS, ShownCharacter
from portico.schema.context import Caller, Context, Info, core
from portico.schema.fields import Source, as_type, computed, costs, stored
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.inputs import described
from portico.schema.kinds import Kind, Node, node_id
from portico.schema.nodes import projection_of
from portico.schema.reading import load_one
from portico.schema.scalars import BigInt

from .items import Item, trees_of
from .locations import CHARACTER_NAME, Surroundings


def parse_key(text: str) -> CharacterKey:
    """Parses the key of a character: an ObjectId, or the key of a shopkeeper. Raises ValueError."""
    return locations.keeper_key(*locations.parse_keeper_key(text)) if "." in text else Kind.document_id(text)


def _is_visible(character: ShownCharacter, context: Context) -> bool:
    if "keeper" in character:
        return True
    return context.has_role(GAME_MASTER) or (context.subject is not None and character["owner"] == context.subject)


CHARACTER = Kind(
    name=CHARACTER_NAME,
    path="_id",
    parse=parse_key,
    read=loaders.by_key,
    types=(CHARACTER_NAME,),
    type_name=lambda _document: CHARACTER_NAME,
    discriminator=("owner",),
    visible_to=_is_visible,
)


@strawberry.enum(description="A region of the body that armor is worn on.")
class ArmorRegion(Enum):
    HEAD = strawberry.enum_value("HEAD", description="A helmet or a hat.")
    HANDS = strawberry.enum_value("HANDS", description="Gloves or rings.")
    FEET = strawberry.enum_value("FEET", description="Boots or shoes.")
    BODY = strawberry.enum_value("BODY", description="Everything else that is worn.")


@strawberry.enum(description="The hand that wields a weapon.")
class Hand(Enum):
    LEFT = strawberry.enum_value("LEFT", description="The left hand.")
    RIGHT = strawberry.enum_value("RIGHT", description="The right hand.")
    BOTH = strawberry.enum_value("BOTH", description="Both hands, for a two-handed weapon.")


@strawberry.type(description="What a character is born with: 3 to 18 each.")
class Intrinsics:
    strength: int = stored(description="It decides how much a character can carry: 15 pounds for each point.")
    dexterity: int = stored(description="Dexterity.")
    intelligence: int = stored(description="Intelligence.")
    charisma: int = stored(description="Charisma.")


def _worn_on(region: ArmorRegion, description: str) -> list[Item]:
    def worn(equipped: Source) -> list[Document]:
        return [equipped["by_id"][key] for key in equipped["refs"].get(region.name, ()) if key in equipped["by_id"]]

    found: list[Item] = computed(worn, length=characters.MAX_ITEMS, description=description)
    return found


def _wielded_in(hand: Hand, description: str) -> Item | None:
    found: Item | None = computed(
        lambda equipped: equipped["by_id"].get(equipped["refs"].get(hand.name)), description=description
    )
    return found


@strawberry.type(description="What is worn, by body region. It is in the inventory, too.")
class Armor:
    head: list[Item] = _worn_on(ArmorRegion.HEAD, "On the head.")
    hands: list[Item] = _worn_on(ArmorRegion.HANDS, "On the hands.")
    feet: list[Item] = _worn_on(ArmorRegion.FEET, "On the feet.")
    body: list[Item] = _worn_on(ArmorRegion.BODY, "On the body.")


@strawberry.type(description="What is wielded. It is in the inventory, too.")
class Weapons:
    left: Item | None = _wielded_in(Hand.LEFT, "In the left hand.")
    right: Item | None = _wielded_in(Hand.RIGHT, "In the right hand.")
    both: Item | None = _wielded_in(Hand.BOTH, "In both hands.")


def _equipped(character: ShownCharacter, path: str) -> Document:
    """Returns the references at the path, {slot: ids}, with the items that they refer to, {_id: item}."""
    refs = character.get(path) or {}
    return {"refs": refs, "by_id": {item["_id"]: item for item in trees_of(character["items"])} if refs else {}}


@strawberry.type(
    description="A character of a player, or a shopkeeper. Everything needed to show it, its room included, is in one "
    "document. A player's character is visible to its player and to a GAME_MASTER; a shopkeeper to everybody."
)
class Character(Node):
    id: strawberry.ID = node_id(CHARACTER_NAME, "_id")
    name: str = stored(description="Its name.")
    character_class: str = stored("class", description="Its class, e.g. `wizard`.")
    intrinsics: Intrinsics = stored(description="What it is born with.")
    health: int = stored(description="Health points.")
    mana: int = stored(description="Mana points.")
    gold: BigInt = stored(description="Gold pieces.")
    owner: str | None = computed(
        lambda character: character.get("owner"),
        "owner",
        description="The subject of its player; null for a shopkeeper.",
    )
    resting_since: datetime | None = computed(
        lambda character: character.get("resting_since"),
        "resting_since",
        description="Since when it rests: it was idle and left its room, where nobody sees it any more. Its next "
        "action brings it back. Null if it does not rest.",
    )
    location: Surroundings = stored(
        description="The room as this character sees it, without a further query. While it rests, the room as it was "
        "when it left."
    )
    armor: Armor = computed(
        lambda character: _equipped(character, "armor"), "armor", "items", description="What it wears."
    )
    weapons: Weapons = computed(
        lambda character: _equipped(character, "weapons"), "weapons", "items", description="What it wields."
    )
    inventory: list[Item] = computed(
        lambda character: trees_of(character["items"]),
        "items",
        length=characters.MAX_ITEMS,
        description="What is carried, worn and wielded, containers with their contents.",
    )


@strawberry.type
class CharacterQuery:
    @strawberry.field(description="The character with this id; null if there is none that the viewer can see.")
    async def character(
        self, info: Info, id: Annotated[strawberry.ID, described("The character's id.")]
    ) -> Character | None:
        try:
            key = Kind.key_in(info.context, CHARACTER_NAME, id)
        except errors.NotFound:
            return None
        return as_type(Character, await load_one(info, CHARACTER, key))


@strawberry.type
class CharacterViewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(
        description="The viewer's characters, oldest first.",
        metadata=costs(length=MAX_CHARACTERS, each="first"),
    )
    async def characters(
        self,
        info: Info,
        first: Annotated[
            int, described(f"How many, 1 to {MAX_CHARACTERS}. The cost of the operation counts as many.")
        ] = MAX_CHARACTERS,
    ) -> list[Character] | None:
        if not 1 <= first <= MAX_CHARACTERS:
            text = f"`first` must be between 1 and {MAX_CHARACTERS}; got {first}."
            raise errors.InvalidInput(
                text, "first", code=errors.InvalidInput.OUT_OF_RANGE, least=1, most=MAX_CHARACTERS
            )
        context, projection = info.context, projection_of(core(info), CHARACTER)
        name = ("the viewer's characters", projection_name(projection))
        mine = context.loader(name, lambda: loaders.by_owner(context.db, projection))
        found = await mine.load(self.caller.subject) or ()
        return as_type(list[Character], found[:first])
