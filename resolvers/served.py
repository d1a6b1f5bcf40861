"""What a gateway serves: its domains, and what follows from their declarations."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from .attachments import Attachments, Hosts
from .changes import ChangeSource
from .declarations import Command, Counter, Domain, Gauge, Job, Resources
from .documents import CollectionSpec, Database, upgrade_batch
from .notifying import Notifications
from .persisted_queries import PERSISTED_QUERIES
from .problems import Invariant
from .shared_secrets import SECRETS
from .writes.intents import INTENTS
from .writes.leases import LEASES
from .writes.operation_records import OPERATIONS
from .writes.settler import Settler


class InvalidDomains(Exception):
    """The domains cannot be served together. The message is one line that names the domain and the cause."""


class Domains:
    """Domains that are served together, each after the domains that it needs. It never changes.

    `kinds` are the kinds of objects by name. `hosts` find the objects that can have attachments.

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
        self.roles: Sequence[Any] = self._agreed("role", lambda domain: domain.roles)
        self.claims: Sequence[Any] = self._agreed("claim", lambda domain: domain.claims)
        self._require_unique("importer", self._each(lambda domain: domain.importers))
        announced = [(domain, source) for domain in self.all for source in domain.notifications]
        self._require_unique("notification source", ((domain, source.name) for domain, source in announced))
        self._require_unique(
            "reason of notifications", ((domain, name) for domain, source in announced for name in source.reasons)
        )
        self._require_unique("GraphiQL tab", self._each(lambda domain: [title for title, _ in domain.examples]))
        self.kinds: Mapping[str, Any] = {kind.name: kind for domain in self.all for kind in domain.kinds}
        self.pages: Sequence[Any] = [paged for domain in self.all for paged in domain.pages]
        self.suggesters: Sequence[Any] = [one for domain in self.all for one in domain.suggesters]
        self.hosts = Hosts(host for domain in self.all for host in domain.hosts)
        self.attachments = Attachments(
            self.hosts, (attachment for domain in self.all for attachment in domain.attachments)
        )
        hidden = [domain.hidden_members for domain in self.all if domain.hidden_members is not None]
        self.notifications = Notifications([source for _, source in announced], hidden)

    @property
    def names(self) -> Sequence[str]:
        return [domain.name for domain in self.all]

    @property
    def collections(self) -> Sequence[CollectionSpec]:
        """The collections of all domains, and the shared ones."""
        return [*SHARED_COLLECTIONS, *(spec for domain in self.all for spec in domain.collections)]

    @property
    def answered_from(self) -> Sequence[str]:
        """The names of the collections that answers are made from: those of the domains."""
        return [spec.name for domain in self.all for spec in domain.collections]

    @property
    def jobs(self) -> Sequence[Job]:
        return [*(job for domain in self.all for job in domain.jobs), self._upgrades()]

    @property
    def invariants(self) -> Sequence[Invariant]:
        return [invariant for domain in self.all for invariant in self.invariants_of(domain)]

    def invariants_of(self, domain: Domain) -> Sequence[Invariant]:
        """Returns the invariants of one of these domains."""
        with_hosts = () if domain.host_invariants is None else domain.host_invariants(self.hosts)
        return [*domain.invariants, *with_hosts]

    @property
    def gauges(self) -> Sequence[Gauge]:
        return [gauge for domain in self.all for gauge in domain.gauges]

    @property
    def counters(self) -> Sequence[Counter]:
        return [counter for domain in self.all for counter in domain.counters]

    @property
    def events(self) -> Sequence[ChangeSource]:
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
        given = Resources({Settler: Settler(), **settings})
        resources = Resources(given)
        async with AsyncExitStack() as stack:
            for domain in self.all:
                for service in domain.services:
                    resources[service.kind] = await stack.enter_async_context(service.open(given, db))
            # At the end, this is the first: what calls have decided is settled.
            stack.push_async_callback(resources.of(Settler).close)
            yield resources

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

    def _agreed(self, what: str, declared: Callable[[Domain], Iterable[Any]]) -> Sequence[Any]:
        """Returns what several domains may declare, once each. Raises InvalidDomains if they declare it otherwise."""
        found: dict[str, tuple[Domain, Any]] = {}
        for domain in self.all:
            self._require_unique(what, ((domain, one.name) for one in declared(domain)))
            for one in declared(domain):
                other, same = found.setdefault(one.name, (domain, one))
                if vars(same) != vars(one):
                    raise InvalidDomains(
                        f"{self.source_of(domain.name)} declares the {what} {one.name} in another way than "
                        f"{self.source_of(other.name)}."
                    )
        return [one for _, one in found.values()]

    def _upgrades(self) -> Job:
        async def upgrade_documents(run: Job.Run) -> int:
            return await Job.in_sequence(*(partial(upgrade_batch, run.db, spec) for spec in self.collections))

        return Job(UPGRADES, upgrade_documents)


@dataclass(frozen=True, slots=True)
class Served:
    """What one gateway serves: its domains, with their settings and what their services have opened.

    The state of the gateway has it, and so has the context of each operation. No module keeps what is served, so
    several gateways with different domains can run in one process.
    """

    domains: Domains
    resources: Resources

    @property
    def kinds(self) -> Mapping[str, Any]:
        """The kinds of objects by name."""
        return self.domains.kinds

    @property
    def suggesters(self) -> Sequence[Any]:
        """What finds objects by a text that a person types."""
        return self.domains.suggesters

    @property
    def hosts(self) -> Hosts:
        return self.domains.hosts

    @property
    def attachments(self) -> Attachments:
        return self.domains.attachments


def _names_of_metrics(domain: Domain) -> Iterable[str]:
    yield from (gauge.name for gauge in domain.gauges)
    yield from (counter.name for counter in domain.counters)


# The job that upgrades documents of all domains.
UPGRADES = "upgrade-documents"
# The collections that the writes of all domains share.
SHARED_COLLECTIONS: Sequence[CollectionSpec] = (OPERATIONS, INTENTS, LEASES, SECRETS, PERSISTED_QUERIES)
