"""Who the caller is."""

from __future__ import annotations

import strawberry

from .context import Caller, Info
from .fields import costs
from .roles import Role


@strawberry.type(description="What the bearer token says about the caller.")
class Viewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The token's subject.")
    def subject(self) -> str:
        return self.caller.subject

    @strawberry.field(description="What the caller may do.", metadata=costs(length=len(Role)))
    def roles(self) -> list[Role]:
        return [role for role in Role if role in self.caller.roles]


@strawberry.type
class ViewerQuery:
    @strawberry.field(description="Null for an anonymous caller.")
    def viewer(self, info: Info) -> Viewer | None:
        caller = info.context.caller
        return None if caller is None else Viewer(caller=caller)
