"""The roles and the claims of callers. Portico has some roles; domains declare others, and the claims that they read.

The enum `Role` of the schema has the roles of the served domains.
"""

import re
import warnings
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

import strawberry
from graphql import GraphQLEnumType, GraphQLEnumValue, GraphQLSchema

T = TypeVar("T")
_NAME = re.compile("[A-Z][A-Z0-9_]{0,99}")
_KINDS = (str, int, float, bool, list, dict)
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


@dataclass(frozen=True)
class Claim(Generic[T]):
    """A claim of tokens that a domain reads: `caller.claim(TENANT)` is its value, or None if the token has none.

    `kind` is the type of its values: `str`, `int`, `float`, `bool`, `list` or `dict`. A value of another type counts as
    none. Claims are trusted like roles, because the issuer has signed them.

    Raises ValueError for a claim without a name, and for another kind.
    """

    name: str
    kind: type[T]

    def __post_init__(self) -> None:
        if not self.name or self.kind not in _KINDS:
            kinds = ", ".join(kind.__name__ for kind in _KINDS)
            raise ValueError(f"A claim has a name, and one of the kinds {kinds}; got {self.name!r}, {self.kind!r}.")

    def fits(self, value: Any) -> bool:
        """Returns whether a value of a token has the type of the claim."""
        if isinstance(value, bool):
            return self.kind is bool
        return isinstance(value, self.kind) or (self.kind is float and isinstance(value, int))


@strawberry.enum(name="Role", description="The roles of callers. ADMIN includes all other roles.")
class ShownRole(Enum):
    """The enum of the schema. Its values are those of `add_roles`."""

    ADMIN = "ADMIN"


def add_roles(schema: GraphQLSchema, roles: Iterable[Role]) -> None:
    """Gives the enum of the schema the roles of Portico and of the domains. Clients get their names."""
    shown = schema.type_map.get("Role")
    if isinstance(shown, GraphQLEnumType):
        shown.values = {role.name: GraphQLEnumValue(role, role.about) for role in (*OWN_ROLES, *roles)}
