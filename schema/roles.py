"""The roles of callers."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

import strawberry
from graphql import GraphQLEnumType, GraphQLEnumValue, GraphQLSchema

_NAME = re.compile("[A-Z][A-Z0-9_]{0,99}")


@strawberry.enum(description="The roles of callers. ADMIN includes all other roles.")
class Role(Enum):
    """The roles of callers."""

    ADMIN = strawberry.enum_value("ADMIN", description="All permissions.")
    MERCHANT = strawberry.enum_value("MERCHANT", description="The catalog and its stock.")
    EDITOR = strawberry.enum_value("EDITOR", description="Content, and the comments of others.")
    GAME_MASTER = strawberry.enum_value("GAME_MASTER", description="The world of the game.")
    ADVERTISER = strawberry.enum_value("ADVERTISER", description="Ads and campaigns.")
    ANALYST = strawberry.enum_value("ANALYST", description="Logs and their statistics.")
    SERVICE = strawberry.enum_value("SERVICE", description="Deposits, and what other services record.")


@dataclass(frozen=True)
class OwnRole:
    """A role that a domain declares. Tokens name it in their claim `roles`. `about` is one readable sentence.

    Raises ValueError unless the name consists of capital letters, digits and underscores.
    """

    name: str
    about: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"The name of a role consists of capital letters, digits and underscores; got {self.name!r}."
            )

    @property
    def value(self) -> str:
        """The name in tokens."""
        return self.name


AnyRole = Role | OwnRole


def add_roles(schema: GraphQLSchema, roles: Iterable[OwnRole]) -> None:
    """Adds the roles of domains to the enum of the schema."""
    shown = schema.type_map.get("Role")
    if isinstance(shown, GraphQLEnumType):
        shown.values |= {role.name: GraphQLEnumValue(role, role.about) for role in roles}
