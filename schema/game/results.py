"""The results of actions: the payload, and why an action is refused."""

from __future__ import annotations

from typing import Annotated

import strawberry

from portico.resolvers.game import refusals
from portico.resolvers.game.refusals import LimitReached, NoSuchExit, WrongItem
from portico.schema.errors import Conflict, InvalidInput, NotFound, UserError, failure, member
from portico.schema.nodes import encode_id
from portico.schema.scalars import BigInt

from .characters import Character
from .items import ITEM


@strawberry.type(description="The character after the action.")
class CharacterPayload:
    character: Character = strawberry.field(description="The current character.")


failure("The room has no exit in this direction.")(NoSuchExit)


@member(refusals.ItemGone, lambda gone: {"item_id": encode_id(ITEM, gone.item)})
@strawberry.type(description="The item is not where the character reaches for it, e.g. because somebody was faster.")
class ItemGone(UserError):
    item_id: strawberry.ID = strawberry.field(description="The `id` of the item.")


failure("The action cannot be done with this item. The message says what to do first.")(WrongItem)


@member(refusals.InsufficientGold)
@strawberry.type(description="The buyer cannot pay the price. If you sell, the buyer is the shopkeeper.")
class InsufficientGold(UserError):
    price: BigInt = strawberry.field(description="The price in gold pieces.")
    gold: BigInt = strawberry.field(description="The gold pieces that the buyer has.")


failure(
    "A bound of the game is reached, e.g. the weight that the character can carry.",
    limit="The bound, in the unit that the message names.",
)(LimitReached)


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
