"""The results of actions: the payload, and why an action is refused."""

import asyncio
from typing import Annotated

import strawberry

from portico.resolvers.documents import Document
from portico.resolvers.game.world import action_refusals, characters
from portico.resolvers.game.world.action_refusals import NoSuchExit, WrongItem
from portico.schema.connections import Edge, edge_of
from portico.schema.context import Info, core
from portico.schema.errors import Conflict, InvalidInput, NotFound, UserError, failure, member
from portico.schema.fields import as_document, as_type, costs, kept_privately
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.game.refusals import LimitReached
from portico.schema.kinds import Kind
from portico.schema.nodes import load
from portico.schema.reading import load_one
from portico.schema.scalars import BigInt
from portico.schema.viewer import ShowsViewer

from .characters import CHARACTER, Character
from .items import ITEM
from .locations import LOCATION, Location


@strawberry.type(description="The character after the action.")
class CharacterPayload(ShowsViewer):
    character: Character = strawberry.field(description="The current character.")
    left: strawberry.Private[Document | None] = kept_privately()
    keeper: strawberry.Private[Document | None] = kept_privately()

    @strawberry.field(
        metadata=costs(length=2),
        description="The rooms that the action can have changed: the one that the character is in, and after a move "
        "also the one that it has left.",
    )
    async def locations(self, info: Info) -> list[Location]:
        here = as_document(self.character)["location"]["_id"]
        keys = [here, *(() if self.left is None else (self.left["_id"],))]
        found = await asyncio.gather(*(load(core(info), LOCATION, key) for key in dict.fromkeys(keys)))
        return as_type(list[Location], [room for room in found if room is not None])

    @strawberry.field(description="The character as a row of `characters`; null if you are no GAME_MASTER.")
    def character_edge(self, info: Info) -> Edge[Character] | None:
        if not info.context.has_role(GAME_MASTER):
            return None
        return edge_of(info.context, characters.CHARACTERS.name, characters.listing(), as_document(self.character))

    @strawberry.field(description="The shopkeeper after a purchase or a sale; null after another action.")
    async def shopkeeper(self, info: Info) -> Character | None:
        key = None if self.keeper is None else self.keeper["_id"]
        return None if key is None else as_type(Character, await load_one(info, CHARACTER, key))


failure("The room has no exit in this direction.")(NoSuchExit)


@member(action_refusals.ItemGone, lambda gone: {"item_id": Kind.encode_id(ITEM, gone.item)})
@strawberry.type(description="The item is not where the character reaches for it, e.g. because somebody was faster.")
class ItemGone(UserError):
    item_id: strawberry.ID = strawberry.field(description="The `id` of the item.")


failure("The action cannot be done with this item. The message says what to do first.")(WrongItem)


@member(action_refusals.InsufficientGold)
@strawberry.type(description="The buyer cannot pay the price. If you sell, the buyer is the shopkeeper.")
class InsufficientGold(UserError):
    price: BigInt = strawberry.field(description="The price in gold pieces.")
    gold: BigInt = strawberry.field(description="The gold pieces that the buyer has.")


CreateCharacterResult = Annotated[
    CharacterPayload | LimitReached | Conflict | InvalidInput,
    strawberry.union("CreateCharacterResult", description="The result of creating a character."),
]
MoveResult = Annotated[
    CharacterPayload | NoSuchExit | LimitReached | Conflict | NotFound,
    strawberry.union("MoveResult", description="The result of a move."),
]
ItemResult = Annotated[
    CharacterPayload | ItemGone | WrongItem | LimitReached | Conflict | NotFound,
    strawberry.union("ItemResult", description="The result of an action with an item."),
]
BuyResult = Annotated[
    CharacterPayload | ItemGone | InsufficientGold | WrongItem | LimitReached | Conflict | NotFound,
    strawberry.union("BuyResult", description="The result of buying or selling."),
]
