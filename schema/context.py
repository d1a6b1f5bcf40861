"""The context that the fields of one operation share."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Generic, Protocol, TypeVar

import strawberry
from graphql import GraphQLError, GraphQLResolveInfo

from portico.loaders.batching import BatchRead, Loader, Loaders
from portico.resolvers.changes import Event
from portico.resolvers.cursors import Cursors
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Author, Database
from portico.resolvers.served import Served
from portico.resolvers.writes.deciding import KeyedCall
from portico.resolvers.writes.idempotency import Process, Superseded
from portico.resolvers.writes.settler import Answering, Settler

from .roles import Role

_NO_OPERATION = "Only mutations that are declared with `mutation` have an operation id."

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
# The types of the values of JSON.
_KINDS = (str, int, float, bool, list, dict)


@dataclass(frozen=True)
class Caller:
    """The caller, as described by the bearer token.

    `claims` are the claims that the served domains declare, by name, with their values as JSON.
    """

    @dataclass(frozen=True)
    class Claim(Generic[V]):
        """A claim of tokens that a domain reads: `caller.claim(TENANT)` is its value, or None if the token has none.

        `kind` is the type of its values: `str`, `int`, `float`, `bool`, `list` or `dict`. A value of another type
        counts as none. Claims are trusted like roles, because the issuer has signed them.

        Raises ValueError for a claim without a name, and for another kind.
        """

        name: str
        kind: type[V]

        def __post_init__(self) -> None:
            if not self.name or self.kind not in _KINDS:
                kinds = ", ".join(kind.__name__ for kind in _KINDS)
                raise ValueError(f"A claim has a name, and one of the kinds {kinds}; got {self.name!r}, {self.kind!r}.")

        def fits(self, value: Any) -> bool:
            """Returns whether a value of a token has the type of the claim."""
            if isinstance(value, bool):
                return self.kind is bool
            return isinstance(value, self.kind) or (self.kind is float and isinstance(value, int))

    subject: str
    roles: frozenset[Role]
    name: str = ""
    claims: frozenset[tuple[str, str]] = frozenset()

    @property
    def author(self) -> Author:
        """The caller as the author of a document, as it is stored."""
        return {"id": self.subject, "name": self.name or self.subject}

    def has(self, role: Role) -> bool:
        return role in self.roles or Role.ADMIN in self.roles

    def claim(self, claim: Claim[V]) -> V | None:
        """Returns the value of a claim of the token; None if the token has none.

        Raises LookupError if no served domain declares the claim.
        """
        value: V | None = json.loads(self.claim_text(claim))
        return value

    def claim_text(self, claim: Claim[Any]) -> str:
        """Returns the value of a claim as JSON. Raises LookupError."""
        for name, text in self.claims:
            if name == claim.name:
                return text
        raise LookupError(f"No served domain declares the claim {claim.name}. List it in `claims` of the domain.")


class Events(Protocol):
    """An iterator over events, until it is closed."""

    def __aiter__(self) -> AsyncIterator[Event]: ...

    async def __anext__(self) -> Event: ...

    async def aclose(self) -> None: ...


class Live(Protocol):
    """The source of live events."""

    async def listen(self, *topics: Hashable, is_state: bool = False) -> Events:
        """Returns the events of these topics from now on. No event after the return is missed.

        With `is_state`, a later event of a topic replaces the one that waits.
        """
        ...


class Operation:
    """The operation of one root field of a mutation: its id and its time, and whether an earlier call has begun it.

    The executor creates one for each field, when the fields before it have ended. `mutation` begins it once: after
    waiting for another call with the same idempotency key.
    """

    __slots__ = ("_claim", "_id", "_now", "is_repeated", "keyed")

    def __init__(self, now: datetime) -> None:
        self._id = ""
        self._now = now
        self._claim: asyncio.Task[bool] | None = None
        self.is_repeated = False
        # The call, if the record that decides it decides its key, too.
        self.keyed: KeyedCall | None = None

    def begin(self, operation_id: str, now: datetime) -> None:
        """Sets the id and the time of the operation. Raises RuntimeError if it has begun before."""
        if self._id:
            raise RuntimeError("An operation begins once.")
        self._id = operation_id
        self._now = now

    def begin_while(self, claim: asyncio.Task[bool], operation_id: str, now: datetime) -> None:
        """Begins the operation while its record is being claimed. The call must not decide before `confirm` returns."""
        self.begin(operation_id, now)
        self._claim = claim

    def begin_keyed(self, keyed: KeyedCall) -> None:
        """Begins an operation without a record of its own. The call must not decide before `confirm` returns."""
        self.begin(keyed.operation, keyed.now)
        self.keyed = keyed

    def take_over(self, operation_id: str, now: datetime) -> None:
        """Goes on as the operation of an earlier call with the key."""
        self._id, self._now, self._claim, self.is_repeated = operation_id, now, None, True
        self.keyed = None

    async def confirm(self) -> None:
        """Waits until the operation is claimed, or is known to have no record.

        Raises `Superseded` if there is an earlier call with the key.
        """
        claim = self._claim
        if claim is not None and not (claim.result() if claim.done() else await asyncio.shield(claim)):
            raise Superseded
        if self.keyed is not None:
            await self.keyed.confirm()

    @property
    def id(self) -> str:
        """The id of the operation. Raises RuntimeError before its beginning."""
        if not self._id:
            raise RuntimeError(_NO_OPERATION)
        return self._id

    @property
    def now(self) -> datetime:
        """The time of the operation; before its beginning, the time at which it got its slot."""
        return self._now

    @property
    def compared(self) -> datetime:
        """The same time, for comparisons with the dates of documents, as they are stored, and nothing else."""
        return self._now

    def change_at(self, instant: datetime) -> None:
        """Notes that the answer can be another one from this time."""

    def vary(self) -> None:
        """Notes that the same operation can have another answer at once."""


@dataclass(frozen=True)
class Context:
    """The context of one operation: its database, its caller and its time. It never changes, but for what it has read.

    Each root field of a mutation has a context of its own, so it reads again what the fields before it may have
    changed. Its `write` has the id and the time of the mutation.

    `db` reads from the primary. `reading` may read from secondaries; it is for data that everybody may see.
    `selections` is cached with the parsed operation, for all its requests. `served` is what the gateway serves, with
    the settings and services of its domains. `keys_kept` is how long an idempotency key keeps its answer. `process` is
    the process of the gateway. `seen` has the objects that the caller may see, by kind and key as text; `listed` has
    pages whose rows are not in it yet. `connection` identifies the connection that the operation came by: connections
    get slots round-robin. `slots` has what domains keep for the fields of the operation, see `slot`. `record` is what
    telemetry records of the operation; None if it records nothing. If it `is_read_only`, mutations are refused. If it
    `is_live`, the operation is run again when what it reads changes, so it shares no reads with others.
    """

    db: Database
    reading: Database
    caller: Caller | None
    started: datetime
    clock: Callable[[], datetime]
    request_id: str
    selections: dict[Hashable, Any]
    served: Served
    live: Live
    keys_kept: timedelta
    process: Process = Process()
    loaders: Loaders = field(default_factory=Loaders)
    seen: set[tuple[str, str]] = field(default_factory=set)
    listed: list[tuple[Any, Sequence[Any]]] = field(default_factory=list)
    slots: dict[Any, Any] = field(default_factory=dict)
    connection: Hashable = None
    record: Any = None
    is_read_only: bool = False
    is_live: bool = False
    write: Operation | None = None

    @property
    def now(self) -> datetime:
        """The time of the mutation; in other operations, the time at which the operation started."""
        return self.started if self.write is None else self.write.now

    @property
    def operation_id(self) -> str:
        """The id of the mutation. Raises RuntimeError in an operation that is none."""
        if self.write is None:
            raise RuntimeError(_NO_OPERATION)
        return self.write.id

    @property
    def answering(self) -> Answering:
        """How a mutation that settles is answered when it is decided."""
        settler, write = self.resources.of(Settler), self.write
        if write is None:
            return Answering(settler)
        return Answering(settler, write.confirm, write.is_repeated, write.keyed)

    def forget_reads(self) -> None:
        """Drops what the operation has read, when it has ended.

        Its reads reference the context, so everything would otherwise stay in memory until the next collection of
        garbage.
        """
        self.loaders.clear()
        self.listed.clear()

    @property
    def resources(self) -> Resources:
        """The settings of the domains, and what their services have opened, by type."""
        return self.served.resources

    def require_caller(self, role: Role | None = None) -> Caller:
        """Returns the caller. Raises UNAUTHENTICATED for an anonymous one, and FORBIDDEN for one without the role."""
        if self.caller is None:
            raise GraphQLError("This field requires a bearer token.", extensions={"code": "UNAUTHENTICATED"})
        if role is not None and not self.caller.has(role):
            raise GraphQLError(f"This field requires the role {role.name}.", extensions={"code": "FORBIDDEN"})
        return self.caller

    def has_role(self, role: Role) -> bool:
        """Returns whether the caller has this role, or ADMIN."""
        return self.caller is not None and self.caller.has(role)

    @property
    def operation(self) -> dict[str, Any]:
        """The arguments of every write: the time of the operation, `now`, and its id, `operation_id`."""
        return {"now": self.now, "operation_id": self.operation_id}

    @property
    def compared_now(self) -> datetime:
        """The time of the operation, to be compared with dates of documents, as they are stored, and for nothing else.

        So a live query knows when the time comes at which its answer changes.
        """
        return self.started if self.write is None else self.write.compared

    def vary(self) -> None:
        """Notes that the answer depends on more than the database, the caller and the time, so it cannot be cached.

        Call it before you read another service, or choose at random.
        """
        if self.write is not None:
            self.write.vary()

    def change_at(self, instant: datetime) -> None:
        """Notes that the answer can be another one from this time, although no document changes."""
        if self.write is not None:
            self.write.change_at(instant)

    @property
    def subject(self) -> str | None:
        """The subject of the caller's token; None for an anonymous caller."""
        return None if self.caller is None else self.caller.subject

    @property
    def cursors(self) -> Cursors:
        """The cursors of the deployment."""
        return self.served.resources.of(Cursors)

    def slot(self, name: Hashable, make: Callable[[], V]) -> V:
        """Returns what a domain keeps under this name for all fields of the operation. `make` makes it at first."""
        if name not in self.slots:
            self.slots[name] = make()
        value: V = self.slots[name]
        return value

    def loader(self, name: Hashable, read: Callable[[], BatchRead[K, V]]) -> Loader[K, V]:
        return self.loaders.get(name, read)


def derived(context: Context, **changes: Any) -> Context:
    """Returns a copy of a context with these values. `dataclasses.replace` takes ten times as long."""
    values = context.__dict__.copy()
    values.update(changes)
    copy = object.__new__(type(context))
    object.__setattr__(copy, "__dict__", values)
    return copy


def of_root_field(context: Context) -> Context:
    """Returns the context of the next root field of a mutation, from that of the whole operation."""
    write = Operation(context.clock())
    return derived(context, loaders=context.loaders.renewed(), seen=set(), listed=[], write=write)


Info = strawberry.Info[Context, None]


def core(info: Info) -> GraphQLResolveInfo[Context]:
    """Returns graphql-core's info of the field: its nodes, the fragments, the schema."""
    return info._raw_info  # noqa: SLF001 - strawberry has no public name for it
