"""Why a comment is refused."""

from __future__ import annotations

from portico.resolvers.errors import DomainError


class DiscussionFull(DomainError):
    """The document of an embedded discussion has no room for another comment. Nothing was written."""

    def __init__(self) -> None:
        super().__init__("The discussion is full.")
