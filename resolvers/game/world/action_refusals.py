"""Why an action of a character is refused. A room keeps the refusal of a turn as a document."""

from __future__ import annotations

from portico.resolvers.documents import Document
from portico.resolvers.errors import DomainError, NotFound, error_type


class NoSuchExit(DomainError):
    """The room has no exit in this direction. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("The room has no exit in this direction.")


class ItemGone(DomainError):
    """The item is not where the character reaches for it. `item` is its id as text."""

    facts = ("item",)

    def __init__(self, item: str) -> None:
        super().__init__("The item is no longer there.")
        self.item = item


class WrongItem(DomainError):
    """The action cannot be done with this item. The message says why, and what to do first."""


class InsufficientGold(DomainError):
    """The buyer cannot pay. `price` is what it takes and `gold` what the buyer has, in gold pieces."""

    facts = ("price", "gold")

    def __init__(self, price: int, gold: int) -> None:
        super().__init__(f"The price is {price:,} gold pieces; the buyer has {gold:,}.")
        self.price = price
        self.gold = gold


class TurnFailed(Exception):
    """A room could not apply the action because of a fault, e.g. a damaged document. The turn has ended; nothing moved.

    It is no answer to the action: the same call can be retried when the fault is mended.
    """


def not_in_room(key: str) -> NotFound:
    """Returns the error for a character, by its key, who is not in the room of the one who acts."""
    return NotFound("Character", key, "There is no such character in the room.")


def refusal_of(error: DomainError | TurnFailed) -> Document:
    """Returns the error as a document, {type, facts}. `error_of` restores it."""
    facts = {"message": str(error)} if isinstance(error, TurnFailed) else error.to_record()
    return {"type": type(error).__name__, "facts": facts}


def error_of(refusal: Document) -> DomainError | TurnFailed:
    if refusal["type"] == TurnFailed.__name__:
        return TurnFailed(refusal["facts"]["message"])
    return error_type(refusal["type"]).from_record(refusal["facts"])
