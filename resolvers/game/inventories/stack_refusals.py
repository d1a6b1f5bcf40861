"""Why a change of a stack or a trade is refused."""

from __future__ import annotations

from portico.resolvers.errors import DomainError


class NotEnough(DomainError):
    """The inventory does not hold that many of the item. `available` is the number that it holds."""

    facts = ("available",)

    def __init__(self, item_id: str, available: int) -> None:
        super().__init__(f"The inventory does not hold enough of {item_id!r}: {available:,} available.")
        self.available = available
