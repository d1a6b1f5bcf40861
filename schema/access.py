"""Checks what a caller may do."""

from __future__ import annotations

from graphql import GraphQLError

from .context import Caller, Context
from .roles import Role


def require_caller(context: Context, role: Role | None = None) -> Caller:
    """Returns the caller. Raises UNAUTHENTICATED for an anonymous one, and FORBIDDEN for one without the role."""
    if context.caller is None:
        raise GraphQLError("This field requires a bearer token.", extensions={"code": "UNAUTHENTICATED"})
    if role is not None and not context.caller.has(role):
        raise GraphQLError(f"This field requires the role {role.name}.", extensions={"code": "FORBIDDEN"})
    return context.caller
