"""The roles of callers, and the claims that every gateway reads. Portico has some roles; domains declare others.

The enum `Role` of the schema has the roles of the served domains.
"""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar

import strawberry
from graphql import GraphQLEnumType, GraphQLEnumValue, GraphQLSchema

_NAME = re.compile("[A-Z][A-Z0-9_]{0,99}")
# In the last minor version, roles of these domains were attributes of `Role`.
_FORMER = {"MERCHANT": "catalog", "GAME_MASTER": "game", "ADVERTISER": "ads", "ANALYST": "analytics"}


class _FormerRoles(type):
    if not TYPE_CHECKING:

        def __getattr__(cls, name: str) -> Any:
            if name not in _FORMER:
                raise AttributeError(f"type object 'Role' has no attribute {name!r}")
            warnings.warn(
                f"`Role.{name}` is deprecated and goes with the next minor version: the role belongs to the domain "
                f'{_FORMER[name]}. Use `Role("{name}")`.',
                DeprecationWarning,
                stacklevel=2,
            )
            return cls(name)


@dataclass(frozen=True)
class Role(metaclass=_FormerRoles):
    """A role of callers, which tokens name in their claim `roles`. Roles with the same name are equal.

    The domain that declares a role describes it: `about` is one readable sentence. Others use it by its name.

    Raises ValueError unless the name consists of capital letters, digits and underscores.
    """

    name: str
    about: str = field(default="", compare=False)

    ADMIN: ClassVar["Role"]
    EDITOR: ClassVar["Role"]
    SERVICE: ClassVar["Role"]

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ValueError(
                f"The name of a role consists of capital letters, digits and underscores; got {self.name!r}."
            )

    @property
    def value(self) -> str:
        """The name in tokens."""
        return self.name


Role.ADMIN = Role("ADMIN", "All permissions.")
Role.EDITOR = Role("EDITOR", "Content, and the comments of others.")
Role.SERVICE = Role("SERVICE", "Deposits, and what other services record.")
# The roles that every gateway has, because several domains use them.
OWN_ROLES = (Role.ADMIN, Role.EDITOR, Role.SERVICE)

# The claims that every gateway reads.
OWN_CLAIMS = ("iss", "sub", "aud", "exp", "nbf", "iat", "jti", "roles", "name")


@strawberry.enum(name="Role", description="The roles of callers. ADMIN includes all other roles.")
class ShownRole(Enum):
    """The enum of the schema. Its values are those of `add_roles`."""

    ADMIN = "ADMIN"


def add_roles(schema: GraphQLSchema, roles: Iterable[Role]) -> None:
    """Gives the enum of the schema the roles of Portico and of the domains. Clients get their names."""
    shown = schema.type_map.get("Role")
    if isinstance(shown, GraphQLEnumType):
        shown.values = {role.name: GraphQLEnumValue(role, role.about) for role in (*OWN_ROLES, *roles)}
