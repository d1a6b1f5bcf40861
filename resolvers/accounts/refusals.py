"""Why money is not moved."""

from __future__ import annotations

from portico.resolvers.errors import DomainError


class InsufficientFunds(DomainError):
    def __init__(self) -> None:
        super().__init__("The account does not hold enough money.")
