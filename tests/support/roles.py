"""The roles of callers."""

from __future__ import annotations

from portico.gateway.domains import BUILT_IN, load
from portico.schema.roles import OWN_ROLES, Role

# Those that every gateway has, and those of the built-in domains.
ROLES: tuple[Role, ...] = (*OWN_ROLES, *load(BUILT_IN).roles)


def all_but(*names: str) -> list[Role]:
    """Returns the roles that grant nothing that these roles grant."""
    return [role for role in ROLES if role.name not in {"ADMIN", *names}]
