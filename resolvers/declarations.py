"""The declaration of a domain. The gateway derives everything central from the declarations, see `served`."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from .attachments import Attachment, Host, Hosts
from .changes import ChangeSource
from .configuration import is_setting
from .documents import CollectionSpec, Database
from .notifying import HiddenMembers, NotificationSource
from .problems import Invariant
from .writes.sweeps import STALE_AFTER, as_count, each

T = TypeVar("T")


class Resources(dict[type, Any]):
    """What a domain works with besides the database: its settings and what its services have opened, by type."""

    def of(self, kind: type[T]) -> T:
        """Returns the resource of this type. Raises KeyError if the domain that declares it is not served."""
        found: T = self[kind]
        return found

    def wake(self, job: str) -> None:
        """Starts a run of the job in a moment, or when its current run has ended: the request is answered before.

        If another process of this machine looks for the work of the job, it runs there. Other machines run it in their
        rhythm.
        """
        self.of(Wakeups).wake(job)

    def woken(self, job: str) -> asyncio.Event | None:
        """Returns the event that is set while the job has been woken; None where nothing wakes jobs."""
        wakeups: Wakeups | None = self.get(Wakeups)
        return None if wakeups is None else wakeups.of(job)


@dataclass(frozen=True)
class Service:
    """Something that a domain keeps open while the gateway runs, e.g. a client of a payment provider.

    `open` gets the settings and the `Settler`, by type, and the database. It yields the resource of the type `kind`.
    """

    kind: type
    open: Callable[[Resources, Database], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True)
class Job:
    """Background work. `run` does some of it and returns how much; two workers can run it concurrently.

    Normally, one worker at a time runs a job, because others would only repeat its work. If `is_shared`, all workers
    run it, and each finds other work to do. If it `waits`, a run without work waits for some, as long as the patience
    of its `Run` lasts, and the next run follows at once.
    """

    @dataclass(frozen=True)
    class Run:
        """What one run of a job gets. `now` is UTC.

        `patience` is for how many seconds a job that `waits` may wait for work.
        """

        db: Database
        now: datetime
        resources: Resources
        patience: float = 0.0

    name: str
    run: Callable[[Run], Coroutine[Any, Any, int]]
    is_shared: bool = False
    waits: bool = False

    async def count(self, run: Run) -> int:
        """Runs once, and returns how much was done. Raises TypeError if the function returns no number."""
        return as_count(await self.run(run), self.run)

    # The age at which most marks count as left by a crash.
    STALE_AFTER: ClassVar[timedelta] = STALE_AFTER

    @staticmethod
    async def in_sequence(*parts: Callable[[], Awaitable[int]]) -> int:
        """Runs one part after the other, like `each`: a part that fails does not stop the next ones."""
        return await each(parts, lambda part: part())


# A job that starts at once would take the time of the answer to the request that wakes it.
_SECONDS_TO_ANSWER = 0.01


class Wakeups:
    """Wakes jobs of this process, so that what a request leaves to a job need not wait for its next run."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def wake(self, job: str) -> None:
        """See `Resources.wake`."""
        asyncio.get_running_loop().call_later(_SECONDS_TO_ANSWER, self.of(job).set)

    def of(self, job: str) -> asyncio.Event:
        """Returns the event that is set while the job has been woken and has not started yet."""
        return self._events.setdefault(job, asyncio.Event())


@dataclass(frozen=True)
class Gauge:
    """A number that `/metrics` shows. It is read from the database whenever somebody asks; `read` also gets the time.

    By convention, the name starts with `portico_` and ends with the unit. `about` is one readable sentence.
    """

    name: str
    about: str
    read: Callable[[Database, datetime], Awaitable[float]]


@dataclass(frozen=True)
class Counter:
    """A number that this process counts, and that `/metrics` shows. It never falls.

    By convention, the name starts with `portico_`; `/metrics` adds `_total`. `about` is one readable sentence. `read`
    gets what the services have opened.
    """

    name: str
    about: str
    read: Callable[[Resources], float]


@dataclass(frozen=True)
class Command:
    """A command of `portico`. `about` is one readable sentence.

    `run` returns whether everything went well. Otherwise the exit status is 1.
    """

    @dataclass(frozen=True)
    class Run:
        """What one run of a command gets. `now` is UTC.

        `print` prints a line. `progress` shows how much of how much is done, if somebody is watching.
        """

        db: Database
        now: datetime
        resources: Resources
        print: Callable[[str], None]
        progress: Callable[[int, int], None]

    name: str
    about: str
    run: Callable[[Run], Awaitable[bool]]


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One domain: what it stores, what finishes its writes, and what clients see.

    Args:
        name:           lower case; its name in `PORTICO_DOMAINS` and of its folders.
        about:          one readable line.
        needs:          the names of the domains that it imports.
        roles:          the roles of callers that it adds, each with a description (`schema.roles`).
        claims:         the claims of tokens that it reads.
        collections:    its collections, with indexes, shard keys and versions.
        hosts:          the kinds of its objects that can have attachments of other domains.
        attachments:    its data at objects of other domains, in the order in which deletions close it.
        jobs:           its background work, which finishes or rolls back interrupted writes.
        invariants:     what `portico doctor` checks.
        host_invariants: returns what `portico doctor` checks with the help of the hosts.
        gauges:         what `/metrics` shows of its data.
        counters:       what `/metrics` shows of what this process has done.
        events:         the changes that subscriptions listen to.
        notifications:  what members are notified of.
        hidden_members: returns who of some members a viewer gets no notifications of, e.g. because of a block.
        settings:       a dataclass of `setting`s.
        require:        checks its settings before the process connects. Its error ends the start with one line.
        services:       what it keeps open while the gateway runs, e.g. clients.
        kinds:          the kinds of objects that have a global id.
        pages:          its lists; `portico explain` shows what a row of them reads.
        types:          strawberry types that no field returns, such as implementations of an interface.
        queries, mutations, subscriptions:  strawberry types whose fields become root fields.
        extensions:     strawberry types whose fields a type or an interface gets, by its name; also `Viewer`.
        kind_extensions: returns such a type for a kind and the hosts, or None; called for every kind that is served.
        suggesters:     find objects of its kinds by a text that a person types (`schema.suggesting`).
        error_codes:    the meaning of each `errors[].extensions.code`, by code.
        commands:       what `portico` can do besides its own commands.
        importers:      how files are read and stored, by the word on the command line.
        demo:           loads its demo data.
        examples:       tabs of GraphiQL, each with a title and a file of operations.
        routes:         what it serves besides GraphQL.
        middleware:     ASGI middleware around all that is served. Gets the settings, and a function that returns the
                        state of the running gateway.
    """

    name: str
    about: str
    needs: Sequence[str] = ()
    roles: Sequence[Any] = ()
    claims: Sequence[Any] = ()
    collections: Sequence[CollectionSpec] = ()
    hosts: Sequence[Host] = ()
    attachments: Sequence[Attachment] = ()
    jobs: Sequence[Job] = ()
    invariants: Sequence[Invariant] = ()
    host_invariants: Callable[[Hosts], Sequence[Invariant]] | None = None
    gauges: Sequence[Gauge] = ()
    counters: Sequence[Counter] = ()
    events: Sequence[ChangeSource] = ()
    notifications: Sequence[NotificationSource] = ()
    hidden_members: HiddenMembers | None = None
    settings: type | None = None
    require: Callable[[Resources], object] | None = None
    services: Sequence[Service] = ()
    kinds: Sequence[Any] = ()
    pages: Sequence[Any] = ()
    types: Sequence[type] = ()
    queries: Sequence[type] = ()
    mutations: Sequence[type] = ()
    subscriptions: Sequence[type] = ()
    extensions: Mapping[str, Sequence[type]] = field(default_factory=dict)
    kind_extensions: Callable[[Any, Hosts], type | None] | None = None
    suggesters: Sequence[Callable[..., Awaitable[Any]]] = ()
    error_codes: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[Command] = ()
    importers: Mapping[str, Any] = field(default_factory=dict)
    demo: Callable[[Any], Awaitable[None]] | None = None
    examples: Sequence[tuple[str, Path]] = ()
    routes: Callable[[Any], Sequence[Any]] | None = None
    middleware: Callable[[Resources, Callable[[], Any]], Sequence[Any]] | None = None

    def __post_init__(self) -> None:
        """Raises TypeError for an argument of another type, such as `kinds=(KIND)`. It names the argument.

        Raises ValueError for a description that is empty.
        """
        for argument in fields(self):
            given, declared = getattr(self, argument.name), str(argument.type)
            if declared.startswith("Sequence["):
                self._require_sequence(argument.name, given)
            elif declared.startswith("Mapping[") and not isinstance(given, Mapping):
                raise TypeError(f"`{argument.name}` of the domain {self.name} must be a dict; {_got(given)}")
        for type_name, mixins in self.extensions.items():
            self._require_sequence(f"extensions[{type_name!r}]", mixins)
        for name, kind in _ELEMENTS.items():
            for one in getattr(self, name):
                if not isinstance(one, kind):
                    what = "class" if kind is type else kind.__name__
                    raise TypeError(f"`{name}` of the domain {self.name} has {one!r}, which is not a {what}.")
        if self.settings is not None:
            self._require_settings(self.settings)
        self._require_descriptions()

    def _require_descriptions(self) -> None:
        described: Sequence[Domain | Command | Gauge | Counter] = (self, *self.commands, *self.gauges, *self.counters)
        for part in described:
            if not isinstance(part.about, str) or not part.about.strip():
                raise ValueError(f"the {type(part).__name__.lower()} {part.name} has an empty `about`. Describe it.")

    def _require_settings(self, kind: object) -> None:
        if not (isinstance(kind, type) and is_dataclass(kind)):
            raise TypeError(f"`settings` of the domain {self.name} must be a dataclass; got {kind!r}.")
        for given in fields(kind):
            if not is_setting(given):
                raise TypeError(
                    f"`settings` of the domain {self.name} has the field {given.name} without a default and a "
                    "documentation. Declare it with `portico.setting`."
                )

    def _require_sequence(self, name: str, given: object) -> None:
        if not isinstance(given, list | tuple):
            raise TypeError(
                f"`{name}` of the domain {self.name} must be a tuple or a list; {_got(given)} "
                "Write a comma after a single element: `(KIND,)`."
            )


def _got(given: object) -> str:
    return f"got the class {given.__name__}." if isinstance(given, type) else f"got a {type(given).__name__}."


# What the elements of an argument of `Domain` are. The other elements belong to rooms above this one.
_ELEMENTS: Mapping[str, type] = {
    "needs": str,
    "collections": CollectionSpec,
    "hosts": Host,
    "jobs": Job,
    "invariants": Invariant,
    "gauges": Gauge,
    "counters": Counter,
    "events": ChangeSource,
    "notifications": NotificationSource,
    "services": Service,
    "types": type,
    "queries": type,
    "mutations": type,
    "subscriptions": type,
    "commands": Command,
}
