"""What the fields of one request share."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Hashable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol, TypeVar

import strawberry
from graphql import GraphQLResolveInfo

from portico.loaders.batching import Loader, Loaders
from portico.resolvers.changes import Event
from portico.resolvers.documents import Database, Document
from portico.resolvers.domains import Resources

from .roles import Role

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class Caller:
    """Who calls, as their bearer token says."""

    subject: str
    roles: frozenset[Role]
    name: str = ""

    @property
    def author(self) -> Document:
        """Who the caller is, as it is stored with what they write."""
        return {"id": self.subject, "name": self.name or self.subject}

    def has(self, role: Role) -> bool:
        return role in self.roles or Role.ADMIN in self.roles


class Events(Protocol):
    """What happens, one event after the other, until it is closed."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    async def aclose(self) -> None: ...


class Live(Protocol):
    """Where to hear of what happens."""

    async def listen(self, topic: Hashable) -> Events:
        """Returns the events of a topic from now on: what happens once this has returned is among them."""
        ...


@dataclass(slots=True)
class Context:
    """One operation: its database, its caller, its one point in time.

    `now` is when the operation began. A mutation takes it from `clock` again when its turn comes: after the fields
    before it, and after the wait for another call with its key.

    `db` reads from the primary; `reading` may read from secondaries, for what anybody may see.
    `selections` is kept with the parsed operation, for all its requests. `resources` are the settings and services of
    the domains. `seen` names objects that the caller may see, by their kinds and their keys as text.
    """

    db: Database
    reading: Database
    caller: Caller | None
    now: datetime
    clock: Callable[[], datetime]
    request_id: str
    selections: dict[Hashable, Any]
    resources: Resources
    live: Live
    loaders: Loaders = field(default_factory=Loaders)
    seen: set[tuple[str, str]] = field(default_factory=set)
    operation_id: str = ""
    is_write: bool = False

    def take_turn(self) -> None:
        """Makes the current time the operation's. A mutation calls it when its turn comes.

        What the caller could see before is checked again.
        """
        self.now = self.clock()
        self.seen = set()

    def has_role(self, role: Role) -> bool:
        """Returns whether the caller has this role, or ADMIN."""
        return self.caller is not None and self.caller.has(role)

    @property
    def operation(self) -> dict[str, Any]:
        """What every write takes: the time of the operation, `now`, and its id, `operation_id`."""
        return {"now": self.now, "operation_id": self.operation_id}

    @property
    def sees_until(self) -> datetime | None:
        """Content is seen that is visible by then; None where the caller sees all of it."""
        return None if self.has_role(Role.EDITOR) else self.now

    @property
    def subject(self) -> str | None:
        """Who calls; None for an anonymous caller."""
        return None if self.caller is None else self.caller.subject

    def loader(self, name: Hashable, read: Any) -> Loader[Any, Any]:
        return self.loaders.get(name, read)


Info = strawberry.Info[Context, None]


def core(info: Info) -> GraphQLResolveInfo[Context]:
    """Returns what graphql-core tells of the field: its nodes, the fragments, the schema."""
    return info._raw_info  # noqa: SLF001 - strawberry has no public way to it
