"""Checks what a caller may do."""

from __future__ import annotations

from graphql import GraphQLError

from .context import Caller, Context
from .roles import Role


def require_caller(context: Context) -> Caller:
    """Returns the caller. Raises UNAUTHENTICATED for an anonymous one."""
    if context.caller is None:
        raise GraphQLError("This field requires a bearer token.", extensions={"code": "UNAUTHENTICATED"})
    return context.caller


def require_role(context: Context, role: Role) -> None:
    """Raises UNAUTHENTICATED for an anonymous caller, and FORBIDDEN for a caller without the role."""
    if not require_caller(context).has(role):
        raise GraphQLError(f"This field requires the role {role.name}.", extensions={"code": "FORBIDDEN"})
