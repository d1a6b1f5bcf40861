"""The declaration of a domain. The gateway derives everything central from the declarations."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from . import attachments
from .attachments import Attachment, Host
from .changes import Source
from .documents import CollectionSpec, Database, Document, upgrade_batch
from .server_time import server_time
from .shared_secrets import SECRETS
from .writes.idempotency import OPERATIONS
from .writes.intents import INTENTS
from .writes.leases import LEASES
from .writes.sweeps import describe_damage, in_turn, is_outage

T = TypeVar("T")


class Resources(dict[type, Any]):
    """What a domain works with besides the database: its settings and what its services have opened, by type."""

    def of(self, kind: type[T]) -> T:
        """Returns the resource of this type. Raises KeyError if the domain that declares it is not served."""
        found: T = self[kind]
        return found


@dataclass(frozen=True)
class Service:
    """Something that a domain keeps open while the gateway runs, e.g. a client of a payment provider.

    `open` gets the settings, by type, and the database. It yields the resource of the type `kind`.
    """

    kind: type
    open: Callable[[Resources, Database], AbstractAsyncContextManager[Any]]


@dataclass(frozen=True)
class Turn:
    """What one run of a job gets. `now` is UTC."""

    db: Database
    now: datetime
    resources: Resources


@dataclass(frozen=True)
class Job:
    """Background work. `run` does some of it and returns how much; two workers can run it concurrently.

    Normally, one worker at a time runs a job, because others would only repeat its work. If `is_shared`, all workers
    run it, and each finds other work to do.
    """

    name: str
    run: Callable[[Turn], Coroutine[Any, Any, int]]
    is_shared: bool = False


class Wakeups:
    """Wakes jobs of this process, so that what a request leaves to a job need not wait for its next run."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def wake(self, job: str) -> None:
        """Starts a run of the job now, or when its current run has ended.

        If another process of this machine looks for the work of the job, it runs there. Other machines run it in their
        rhythm.
        """
        self.of(job).set()

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
class CommandRun:
    """What one run of a command gets. `now` is UTC.

    `print` prints a line. `progress` shows how much of how much is done, if somebody is watching.
    """

    db: Database
    now: datetime
    resources: Resources
    print: Callable[[str], None]
    progress: Callable[[int, int], None]


@dataclass(frozen=True)
class Command:
    """A command of `portico`. `about` is one readable sentence.

    `run` returns whether everything went well. Otherwise the exit status is 1.
    """

    name: str
    about: str
    run: Callable[[CommandRun], Awaitable[bool]]


Repair = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class Problem:
    """A violation of an invariant. `repair` fixes it; None if the correct state is unknown.

    A problem with `is_open` can be a false alarm: other writers changed the documents during the check.
    """

    subject: str
    text: str
    repair: Repair | None = None
    is_open: bool = False

    async def mend(self) -> bool:
        """Repairs the problem and returns whether it could. An error counts as no. An outage raises its error."""
        if self.repair is None:
            return False
        try:
            await self.repair()
        except Exception as error:
            if is_outage(error):
                raise
            return False
        return True


@dataclass(frozen=True)
class Invariant:
    """A condition that must always hold, and the check that finds its violations."""

    name: str
    check: Callable[[Database], AsyncIterator[Problem]]

    async def problems(self, db: Database) -> AsyncIterator[Problem]:
        """Yields the violations. A check that fails is a problem, too. An outage raises its error."""
        try:
            async for problem in self.check(db):
                yield problem
        except Exception as error:
            if is_outage(error):
                raise
            yield Problem("the check", f"it stopped: {describe_damage(error)}")


async def mend_now(mend: Callable[..., Awaitable[None]], db: Database, wrong: Document) -> None:
    """Calls a repair function with the current time of the database server."""
    await mend(db, wrong, now=await server_time(db))


def named(kind: str, wrong: Document, name: str) -> str:
    """Returns a readable name of the document: the value at `name`, or its `_id` if it has none."""
    return f"{kind} {wrong.get(name, wrong['_id'])}"


@dataclass(frozen=True, kw_only=True)
class Domain:
    """One domain: what it stores, what finishes its writes, and what clients see.

    Args:
        name:           lower case; its name in `PORTICO_DOMAINS` and of its folders.
        about:          one readable line.
        needs:          the names of the domains that it imports.
        collections:    its collections, with indexes, shard keys and versions.
        hosts:          the kinds of its objects that can have attachments of other domains.
        attachments:    its data at objects of other domains, in the order in which deletions close it.
        jobs:           its background work, which finishes or rolls back interrupted writes.
        invariants:     what `portico doctor` checks.
        gauges:         what `/metrics` shows of its data.
        counters:       what `/metrics` shows of what this process has done.
        events:         the changes that subscriptions listen to.
        settings:       a dataclass of `setting`s.
        require:        checks its settings before the process connects. Its error ends the start with one line.
        services:       what it keeps open while the gateway runs, e.g. clients.
        kinds:          the kinds of objects that have a global id.
        types:          strawberry types that no field returns, such as implementations of an interface.
        queries, mutations, subscriptions:  strawberry types whose fields become root fields.
        extensions:     strawberry types whose fields a type or an interface gets, by its name; also `Viewer`.
        kind_extensions: returns such a type for a kind, or None; called for every kind that is served.
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
    collections: Sequence[CollectionSpec] = ()
    hosts: Sequence[Host] = ()
    attachments: Sequence[Attachment] = ()
    jobs: Sequence[Job] = ()
    invariants: Sequence[Invariant] = ()
    gauges: Sequence[Gauge] = ()
    counters: Sequence[Counter] = ()
    events: Sequence[Source] = ()
    settings: type | None = None
    require: Callable[[Resources], object] | None = None
    services: Sequence[Service] = ()
    kinds: Sequence[Any] = ()
    types: Sequence[type] = ()
    queries: Sequence[type] = ()
    mutations: Sequence[type] = ()
    subscriptions: Sequence[type] = ()
    extensions: Mapping[str, Sequence[type]] = field(default_factory=dict)
    kind_extensions: Callable[[Any], type | None] | None = None
    error_codes: Mapping[str, str] = field(default_factory=dict)
    commands: Sequence[Command] = ()
    importers: Mapping[str, Any] = field(default_factory=dict)
    demo: Callable[[Any], Awaitable[None]] | None = None
    examples: Sequence[tuple[str, Path]] = ()
    routes: Callable[[Any], Sequence[Any]] | None = None
    middleware: Callable[[Resources, Callable[[], Any]], Sequence[Any]] | None = None


class InvalidDomains(Exception):
    """The domains cannot be served together. The message is one line that names the domain and the cause."""


class Domains:
    """The domains that a process serves, each after the domains that it needs.

    Raises InvalidDomains if a needed domain is missing, or if two domains declare the same name.
    """

    def __init__(self, domains: Iterable[Domain], *, sources: Mapping[str, str] | None = None) -> None:
        """Sorts and checks the domains. `sources` has the package of each domain by its name, for messages."""
        self._sources = sources or {}
        given = list(domains)
        self._require_unique("name", ((domain, domain.name) for domain in given))
        self.all: Sequence[Domain] = self._in_order({domain.name: domain for domain in given})
        self._require_unique("collection", self._each(lambda domain: [spec.name for spec in domain.collections]))
        self._require_unique("job", self._each(lambda domain: [job.name for job in domain.jobs]))
        self._require_unique("metric", self._each(_names_of_metrics))
        self._require_unique("kind", self._each(lambda domain: [kind.name for kind in domain.kinds]))
        self._require_unique("importer", self._each(lambda domain: domain.importers))
        self._require_unique("GraphiQL tab", self._each(lambda domain: [title for title, _ in domain.examples]))

    @property
    def names(self) -> Sequence[str]:
        return [domain.name for domain in self.all]

    @property
    def collections(self) -> Sequence[CollectionSpec]:
        """The collections of all domains, and the shared ones."""
        return [*SHARED_COLLECTIONS, *(spec for domain in self.all for spec in domain.collections)]

    @property
    def jobs(self) -> Sequence[Job]:
        return [*(job for domain in self.all for job in domain.jobs), self._upgrades()]

    @property
    def invariants(self) -> Sequence[Invariant]:
        return [invariant for domain in self.all for invariant in domain.invariants]

    @property
    def gauges(self) -> Sequence[Gauge]:
        return [gauge for domain in self.all for gauge in domain.gauges]

    @property
    def counters(self) -> Sequence[Counter]:
        return [counter for domain in self.all for counter in domain.counters]

    @property
    def events(self) -> Sequence[Source]:
        return [source for domain in self.all for source in domain.events]

    @property
    def commands(self) -> Mapping[str, Command]:
        return {command.name: command for domain in self.all for command in domain.commands}

    @property
    def importers(self) -> Mapping[str, Any]:
        return {name: importer for domain in self.all for name, importer in domain.importers.items()}

    def routes(self, state: Callable[[], Any]) -> Sequence[Any]:
        """Returns the routes besides GraphQL. `state` returns the state of the running gateway."""
        return [route for domain in self.all if domain.routes is not None for route in domain.routes(state)]

    def middleware(self, settings: Resources, state: Callable[[], Any]) -> Sequence[Any]:
        """Returns the ASGI middleware of the domains, the outermost first."""
        return [
            one for domain in self.all if domain.middleware is not None for one in domain.middleware(settings, state)
        ]

    @asynccontextmanager
    async def opened(self, settings: Resources, db: Database) -> AsyncIterator[Resources]:
        """Opens the services of the domains. Yields what they have opened, together with the settings."""
        resources = Resources(settings)
        async with AsyncExitStack() as stack:
            for domain in self.all:
                for service in domain.services:
                    resources[service.kind] = await stack.enter_async_context(service.open(settings, db))
            yield resources

    def activate(self) -> None:
        """Registers the hosts and attachments of these domains for this process."""
        attachments.register(
            (host for domain in self.all for host in domain.hosts),
            (attachment for domain in self.all for attachment in domain.attachments),
        )

    def source_of(self, name: str) -> str:
        """Returns the domain with its package, for messages."""
        source = self._sources.get(name)
        return f"the domain {name}" if source is None else f"the domain {name} of the package {source}"

    def _in_order(self, by_name: Mapping[str, Domain]) -> list[Domain]:
        found: dict[str, Domain] = {}

        def put(domain: Domain, way: tuple[str, ...]) -> None:
            if domain.name in way:
                raise InvalidDomains(f"{self.source_of(domain.name)} needs itself: {' → '.join((*way, domain.name))}.")
            for need in domain.needs:
                if need not in by_name:
                    raise InvalidDomains(f"{self.source_of(domain.name)} needs {need}, which is not served.")
                put(by_name[need], (*way, domain.name))
            found.setdefault(domain.name, domain)

        for domain in by_name.values():
            put(domain, ())
        return list(found.values())

    def _each(self, names: Callable[[Domain], Iterable[str]]) -> Iterable[tuple[Domain, str]]:
        return ((domain, name) for domain in self.all for name in names(domain))

    def _require_unique(self, what: str, named: Iterable[tuple[Domain, str]]) -> None:
        owners: dict[str, Domain] = {}
        for domain, name in named:
            other = owners.get(name)
            if other is domain:
                raise InvalidDomains(f"{self.source_of(domain.name)} declares the {what} {name} twice.")
            owners[name] = domain
            if other is not None:
                raise InvalidDomains(
                    f"{self.source_of(domain.name)} declares the {what} {name}, "
                    f"which {self.source_of(other.name)} already declares."
                )

    def _upgrades(self) -> Job:
        async def upgrade_documents(turn: Turn) -> int:
            return await in_turn(*(partial(upgrade_batch, turn.db, spec) for spec in self.collections))

        return Job(UPGRADES, upgrade_documents)


def _names_of_metrics(domain: Domain) -> Iterable[str]:
    yield from (gauge.name for gauge in domain.gauges)
    yield from (counter.name for counter in domain.counters)


# The job that upgrades documents of all domains.
UPGRADES = "upgrade-documents"
# The collections that the writes of all domains share.
SHARED_COLLECTIONS: Sequence[CollectionSpec] = (OPERATIONS, INTENTS, LEASES, SECRETS)
