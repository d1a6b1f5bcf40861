"""The viewer: the caller of an operation."""

import strawberry

from .context import Caller, Info
from .fields import costs
from .roles import OWN_ROLES, Role, ShownRole

# How many roles the list counts as: no more than there are without domains of packages.
_ROLES = 7


@strawberry.type(description="The caller, as described by the bearer token.")
class Viewer:
    caller: strawberry.Private[Caller]

    @strawberry.field(description="The subject of the token.")
    def subject(self) -> str:
        return self.caller.subject

    @strawberry.field(
        description="The roles of the caller.", graphql_type=list[ShownRole], metadata=costs(length=_ROLES)
    )
    def roles(self, info: Info) -> list[Role]:
        return [role for role in (*OWN_ROLES, *info.context.served.domains.roles) if role in self.caller.roles]


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
