"""The viewer: the caller of an operation."""

from typing import cast

import strawberry

from .context import Caller, Info
from .fields import costs
from .roles import OwnRole, Role


@strawberry.type(description="The caller, as described by the bearer token.")
class Viewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The subject of the token.")
    def subject(self) -> str:
        return self.caller.subject

    @strawberry.field(description="The roles of the caller.", metadata=costs(length=len(Role)))
    def roles(self) -> list[Role]:
        own = sorted((role for role in self.caller.roles if isinstance(role, OwnRole)), key=lambda role: role.name)
        # The enum of the schema has the roles of the domains, too.
        return [*(role for role in Role if role in self.caller.roles), *cast("list[Role]", own)]


@strawberry.type
class ShowsViewer:
    """The base of payloads of mutations that change what the viewer shows."""

    @strawberry.field(description="The caller, with everything as it is after the write; null for an anonymous caller.")
    def viewer(self, info: Info) -> Viewer | None:
        return viewer_of(info)


def viewer_of(info: Info) -> Viewer | None:
    caller = info.context.caller
    return None if caller is None else Viewer(caller=caller)


@strawberry.type
class ViewerQuery:
    @strawberry.field(description="The caller; null for an anonymous caller.")
    def viewer(self, info: Info) -> Viewer | None:
        return viewer_of(info)
