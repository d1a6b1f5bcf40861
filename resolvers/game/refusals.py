"""Why the world and the inventories both refuse a call."""

from __future__ import annotations

from portico.resolvers.errors import DomainError


class LimitReached(DomainError):
    """A bound of the game. `limit` is the bound, in the unit that the message names."""

    facts = ("limit",)
    limit: int

    def __init__(self, message: str, limit: int) -> None:
        super().__init__(message)
        self.limit = limit
