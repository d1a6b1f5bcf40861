"""The mutations of the game: creating characters, and what characters do."""

from collections.abc import Awaitable
from typing import Any

import strawberry

from portico.loaders.game.world.characters import CharacterKey
from portico.resolvers.documents import Document, DocumentId
from portico.resolvers.errors import NotFound
from portico.resolvers.game.settings import GameSettings
from portico.resolvers.game.world import creation, equipment, room_actions
from portico.resolvers.game.world.characters import INTRINSICS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.schema.context import Info
from portico.schema.fields import as_type
from portico.schema.inputs import idempotency_key
from portico.schema.kinds import Kind, split_id
from portico.schema.mutations import mutation

from .characters import CHARACTER, ArmorRegion, Character, Hand
from .items import ITEM
from .locations import Direction
from .results import BuyResult, CharacterPayload, CreateCharacterResult, ItemResult, MoveResult


def _one_of_mine() -> Any:
    return strawberry.field(description="One of the viewer's characters.")


@strawberry.input(description="What a character is born with: 3 to 18 each.")
class IntrinsicsInput:
    strength: int = strawberry.field(default=10, description="15 pounds to carry for each point.")
    dexterity: int = strawberry.field(default=10, description="Dexterity.")
    intelligence: int = strawberry.field(default=10, description="Intelligence.")
    charisma: int = strawberry.field(default=10, description="Charisma.")


@strawberry.input(description="A new character of the viewer. A viewer can have 20.")
class CreateCharacterInput:
    name: str = strawberry.field(description="1 to 80 characters.")
    character_class: str = strawberry.field(description="Its class, e.g. `wizard`: 1 to 80 characters of any text.")
    intrinsics: IntrinsicsInput | None = strawberry.field(default=None, description="By default 10 each.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A step through an exit.")
class MoveInput:
    character_id: strawberry.ID = _one_of_mine()
    direction: Direction = strawberry.field(description="The direction of the exit.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="An action with an item.")
class ItemInput:
    character_id: strawberry.ID = _one_of_mine()
    item_id: strawberry.ID = strawberry.field(description="The item. Its contents go with it.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="An item and a container. The character carries the container, or it is in the room.")
class ContainerInput:
    character_id: strawberry.ID = _one_of_mine()
    container_id: strawberry.ID = strawberry.field(description="The container.")
    item_id: strawberry.ID = strawberry.field(description="The item. Its contents go with it.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="An item to wear.")
class WearInput:
    character_id: strawberry.ID = _one_of_mine()
    item_id: strawberry.ID = strawberry.field(description="An item that it carries, in no container.")
    region: ArmorRegion = strawberry.field(description="Where to wear it.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A weapon to wield.")
class WieldInput:
    character_id: strawberry.ID = _one_of_mine()
    item_id: strawberry.ID = strawberry.field(description="A weapon that it carries, in no container.")
    hand: Hand = strawberry.field(description="A free hand; `BOTH` for a two-handed weapon.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A gift.")
class GiveInput:
    character_id: strawberry.ID = _one_of_mine()
    item_id: strawberry.ID = strawberry.field(description="An item that it carries. Its contents go with it.")
    to_id: strawberry.ID = strawberry.field(description="Another character in the same room.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A purchase.")
class BuyInput:
    character_id: strawberry.ID = _one_of_mine()
    shopkeeper_id: strawberry.ID = strawberry.field(description="A shopkeeper in the same room, whose item it is.")
    item_id: strawberry.ID = strawberry.field(description="The item.")
    idempotency_key: str | None = idempotency_key()


@strawberry.input(description="A sale.")
class SellInput:
    character_id: strawberry.ID = _one_of_mine()
    shopkeeper_id: strawberry.ID = strawberry.field(
        description="A shopkeeper in the same room that buys this kind of thing."
    )
    item_id: strawberry.ID = strawberry.field(
        description="An item that the character carries; empty if it can hold any."
    )
    idempotency_key: str | None = idempotency_key()


@strawberry.type
class GameMutation:
    @mutation(description="Creates a character of the viewer, in the room where new characters start.")
    async def create_character(self, info: Info, input: CreateCharacterInput) -> CreateCharacterResult | None:
        context = info.context
        given = input.intrinsics or IntrinsicsInput()
        created = await creation.create_character(
            context.db,
            context.resources.of(Rooms),
            owner=context.require_caller().subject,
            name=input.name,
            character_class=input.character_class,
            intrinsics={name: getattr(given, name) for name in INTRINSICS},
            gold=context.resources.of(GameSettings).starting_gold,
            **context.operation,
        )
        return CharacterPayload(character=as_type(Character, created))

    @mutation(description="Goes through an exit of the room.")
    async def move(self, info: Info, input: MoveInput) -> MoveResult | None:
        moved = await room_actions.move(_acting(info, input.character_id), direction=input.direction.name)
        left = None if moved.left is None else {"_id": moved.left}
        return CharacterPayload(character=as_type(Character, moved.character), left=left)

    @mutation(
        description="Picks up an item from the floor. Of two characters who reach for the same item, one gets it and "
        "the other is told ItemGone."
    )
    async def pick_up(self, info: Info, input: ItemInput) -> ItemResult | None:
        return await _payload(room_actions.pick_up(_acting(info, input.character_id), item_id=_item(input.item_id)))

    @mutation(description="Lays an item on the floor.")
    async def drop(self, info: Info, input: ItemInput) -> ItemResult | None:
        return await _payload(room_actions.drop(_acting(info, input.character_id), item_id=_item(input.item_id)))

    @mutation(description="Takes an item out of a container.")
    async def take_out(self, info: Info, input: ContainerInput) -> ItemResult | None:
        acting = _acting(info, input.character_id)
        container, item = _item(input.container_id), _item(input.item_id)
        return await _payload(room_actions.take_out(acting, container_id=container, item_id=item))

    @mutation(description="Puts an item of the inventory into a container.")
    async def put_in(self, info: Info, input: ContainerInput) -> ItemResult | None:
        acting = _acting(info, input.character_id)
        container, item = _item(input.container_id), _item(input.item_id)
        return await _payload(room_actions.put_in(acting, container_id=container, item_id=item))

    @mutation(description="Puts on an item of the inventory.")
    async def wear(self, info: Info, input: WearInput) -> ItemResult | None:
        acting = _acting(info, input.character_id)
        return await _payload(equipment.wear(acting, item_id=_item(input.item_id), region=input.region.name))

    @mutation(description="Takes a weapon of the inventory into a hand.")
    async def wield(self, info: Info, input: WieldInput) -> ItemResult | None:
        acting = _acting(info, input.character_id)
        return await _payload(equipment.wield(acting, item_id=_item(input.item_id), hand=input.hand.name))

    @mutation(description="Takes off what is worn, or lets go of what is wielded; it stays in the inventory.")
    async def unequip(self, info: Info, input: ItemInput) -> ItemResult | None:
        return await _payload(equipment.unequip(_acting(info, input.character_id), item_id=_item(input.item_id)))

    @mutation(description="Gives an item of the inventory to another character in the room, who has it at once.")
    async def give(self, info: Info, input: GiveInput) -> ItemResult | None:
        acting = _acting(info, input.character_id)
        to = Kind.key_in(info.context, CHARACTER.name, input.to_id)
        return await _payload(room_actions.give(acting, item_id=_item(input.item_id), to=to))

    @mutation(description="Buys an item of a shopkeeper in the room.")
    async def buy(self, info: Info, input: BuyInput) -> BuyResult | None:
        acting = _acting(info, input.character_id)
        keeper = Kind.key_in(info.context, CHARACTER.name, input.shopkeeper_id)
        bought = room_actions.buy(acting, keeper_key=keeper, item_id=_item(input.item_id))
        return await _payload(bought, keeper)

    @mutation(
        description="Sells an item to a shopkeeper in the room, at the price that the shopkeeper pays, out of the "
        "shopkeeper's gold."
    )
    async def sell(self, info: Info, input: SellInput) -> BuyResult | None:
        acting = _acting(info, input.character_id)
        keeper = Kind.key_in(info.context, CHARACTER.name, input.shopkeeper_id)
        sold = room_actions.sell(acting, keeper_key=keeper, item_id=_item(input.item_id))
        return await _payload(sold, keeper)


def _acting(info: Info, character_id: str) -> Acting:
    """Returns who acts: one of the viewer's characters."""
    context = info.context
    subject = context.require_caller().subject
    key = Kind.key_in(info.context, CHARACTER.name, character_id)
    if not isinstance(key, DocumentId):
        raise NotFound(CHARACTER.name, key, "A shopkeeper cannot be played.")
    return Acting(context.db, context.resources.of(Rooms), key, subject, **context.operation)


def _item(item_id: str) -> DocumentId:
    """Returns the key in the id of an item. Raises NotFound for any other id, because no such item can exist."""
    try:
        kind, text = split_id(item_id)
        key = Kind.document_id(text)
    except ValueError:
        kind = ""
    if kind != ITEM or Kind.encode_id(ITEM, key) != item_id:
        raise NotFound(ITEM, message="The id is not that of an item.")
    return key


async def _payload(acted: Awaitable[Document], keeper: CharacterKey | None = None) -> CharacterPayload:
    with_keeper = None if keeper is None else {"_id": keeper}
    return CharacterPayload(character=as_type(Character, await acted), keeper=with_keeper)
