"""The domains that a gateway can serve: the built-in ones, and those of installed packages.

To declare a domain, a package defines an entry point of the group `portico.domains` with the name of the domain. The
entry point leads to a `Domain`.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import strawberry

from portico.gateway.error_codes import ERROR_CODES
from portico.gateway.settings import Settings, SettingsError, declared
from portico.resolvers.attachments import Attachments, Hosts
from portico.resolvers.declarations import Domain, Resources, Wakeups
from portico.resolvers.errors import DomainError
from portico.resolvers.notifying import Notifications
from portico.resolvers.served import SHARED_COLLECTIONS, UPGRADES, Domains, InvalidDomains
from portico.schema import create_schema
from portico.schema.connections import Paged
from portico.schema.kinds import Kind
from portico.schema.roles import OWN_CLAIMS, OWN_ROLES, Role
from portico.schema.sharing import SharedReads

GROUP = "portico.domains"
SCHEMA = "portico.schema"
# What the gateway itself serves.
OWN_PATHS = ("/", "/graphiql", "/graphql", "/livez", "/metrics", "/readyz")
OWN_COMMANDS = (
    "commands",
    "demo",
    "doctor",
    "documents",
    "explain",
    "import",
    "indexes",
    "migrate",
    "payment-service",
    "schema",
    "serve",
    "shard",
    "token",
    "worker",
)
BUILT_IN = ("catalog", "accounts", "shop", "content", "comments", "social", "game", "ads", "analytics", "notifications")


@functools.cache
def load_once(names: Sequence[str] | None) -> Domains:
    """Returns the domains of `load`. They never change, so several gateways can have the same."""
    outside = _entry_points()
    for name in names or ():
        if name not in BUILT_IN and name not in outside:
            known = ", ".join((*BUILT_IN, *sorted(outside)))
            raise InvalidDomains(f"there is no domain {name!r}. The domains are: {known}.")
    chosen = (*BUILT_IN, *sorted(outside)) if names is None else tuple(dict.fromkeys(names))
    found = [_built_in(name) if name in BUILT_IN else _outside(outside[name]) for name in chosen]
    domains = Domains(found, sources={name: _package_of(entry) for name, entry in outside.items()})
    _require_own("collection", domains, [spec.name for spec in SHARED_COLLECTIONS], _collections_of)
    _require_own("job", domains, [UPGRADES], lambda domain: [job.name for job in domain.jobs])
    _require_kinds(domains)
    own_roles = [role.name for role in OWN_ROLES]
    _require_own("role", domains, own_roles, lambda domain: [role.name for role in domain.roles], is_shared=True)
    _require_own("claim", domains, OWN_CLAIMS, lambda domain: [claim.name for claim in domain.claims], is_shared=True)
    _require_own("setting", domains, [variable for variable, _ in declared(Settings)], _settings_of)
    _require_own("error code", domains, ERROR_CODES, lambda domain: domain.error_codes)
    _require_own("command", domains, OWN_COMMANDS, lambda domain: [command.name for command in domain.commands])
    _require_own("path", domains, OWN_PATHS, lambda domain: _paths_of(domain, domains))
    _require_hosts(domains)
    _require_followed(domains)
    _require_examples(domains)
    return domains


@functools.cache
def schema_of(domains: Domains) -> strawberry.Schema:
    """Returns the schema of these domains. It is built once.

    Raises:   InvalidDomains, also for any error that the types of a package's domain raise.
    """
    try:
        return create_schema(domains)
    except InvalidDomains:
        raise
    except Exception as error:
        culprit = _culprit(domains)
        if culprit is None:
            raise
        raise InvalidDomains(
            f"{domains.source_of(culprit)} breaks the schema: {_on_one_line(error)}{_advice(error)}"
        ) from error


def _advice(error: Exception) -> str:
    """Returns what to do if a union names the class of an error that is no failure."""
    is_of_an_error = any(isinstance(one, type) and issubclass(one, DomainError) for one in vars(error).values())
    return ". Declare the error with `portico.schema.failure`." if is_of_an_error else ""


def _culprit(domains: Domains) -> str | None:
    """Returns the first domain of a package with which the schema cannot be built; None if no domain is the cause."""
    outside = [domain for domain in domains.all if domain.name not in BUILT_IN]
    served = [domain for domain in domains.all if domain.name in BUILT_IN]
    for domain in outside:
        served.append(domain)
        try:
            create_schema(Domains(served))
        except Exception:  # noqa: BLE001 - any error comes from the domain that was added last
            return domain.name
    return None


def load(names: Sequence[str] | None = None) -> Domains:
    """Returns the domains of these names; with None all that are installed.

    Raises InvalidDomains for a name that no domain has, a domain that cannot be imported, or domains that conflict.
    """
    return load_once(None if names is None else tuple(names))


def base_resources(settings: Settings, domains: Domains) -> Resources:
    """Returns the settings of the gateway and of each domain, the hosts and attachments, shared reads and wake-ups.

    Raises SettingsError; InvalidDomains for another error with which a domain of a package refuses its settings.
    """
    shared = SharedReads(settings.count_seconds)
    own = {Settings: settings, SharedReads: shared, Wakeups: Wakeups()}
    own |= {Hosts: domains.hosts, Attachments: domains.attachments, Notifications: domains.notifications}
    resources = Resources({**own, **settings_of(settings, domains)})
    for domain in domains.all:
        if domain.require is not None:
            with _naming(domain, domains):
                domain.require(resources)
    return resources


def settings_of(settings: Settings, domains: Domains) -> dict[type, Any]:
    """Returns the settings of each domain by their type. Raises like `base_resources`."""
    found: dict[type, Any] = {}
    for domain in domains.all:
        if domain.settings is not None:
            with _naming(domain, domains):
                found[domain.settings] = settings.of(domain.settings)
    return found


@contextlib.contextmanager
def _naming(domain: Domain, domains: Domains) -> Iterator[None]:
    """Raises InvalidDomains for an error with which a domain of a package refuses its settings."""
    try:
        yield
    except SettingsError:
        raise
    except Exception as error:
        if domain.name in BUILT_IN:
            raise
        raise InvalidDomains(f"{domains.source_of(domain.name)} refuses its settings: {_on_one_line(error)}") from error


def _built_in(name: str) -> Domain:
    domain: Domain = importlib.import_module(f"{__name__}.{name}").DOMAIN
    return domain


def _entry_points() -> dict[str, metadata.EntryPoint]:
    found: dict[str, metadata.EntryPoint] = {}
    for entry in metadata.entry_points(group=GROUP):
        other = found.setdefault(entry.name, entry)
        if other is not entry or entry.name in BUILT_IN:
            taken = "Portico itself" if entry.name in BUILT_IN else f"the package {_package_of(other)}"
            raise InvalidDomains(
                f"the package {_package_of(entry)} declares the domain {entry.name}, but {taken} already declares it."
            )
    return found


def _outside(entry: metadata.EntryPoint) -> Domain:
    package = _package_of(entry)
    try:
        domain = entry.load()
    except (Exception, SystemExit) as error:
        raise InvalidDomains(
            f"the domain {entry.name} of the package {package} cannot be imported: {_on_one_line(error)}"
        ) from error
    if not isinstance(domain, Domain) or domain.name != entry.name:
        raise InvalidDomains(f"{entry.value} of the package {package} is not a Domain with the name {entry.name}.")
    for name, kind, place in (("roles", Role, "portico"), ("kinds", Kind, SCHEMA), ("pages", Paged, SCHEMA)):
        for one in getattr(domain, name):
            if not isinstance(one, kind):
                raise InvalidDomains(
                    f"the package {package} has {one!r} among its {name}, which is not a `{place}.{kind.__name__}`."
                )
    return domain


def _require_own(
    what: str,
    domains: Domains,
    of_gateway: Iterable[str],
    names_of: Callable[[Domain], Iterable[str]],
    *,
    is_shared: bool = False,
) -> None:
    """Raises InvalidDomains if a domain declares a name that the gateway has, or, unless shared, another domain."""
    owners = dict.fromkeys(of_gateway, "the gateway")
    for domain in domains.all:
        # A domain can serve a path over HTTP and over WebSockets.
        for name in dict.fromkeys(names_of(domain)):
            if name in owners:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} declares the {what} {name}, "
                    f"which {owners[name]} already declares."
                )
            if not is_shared:
                owners[name] = domains.source_of(domain.name)


def _require_kinds(domains: Domains) -> None:
    """Raises InvalidDomains for a kind whose objects are in a collection that nobody declares."""
    declared_ones = {spec.name for spec in SHARED_COLLECTIONS}.union(*map(_collections_of, domains.all))
    for domain in domains.all:
        for kind in domain.kinds:
            if kind.collection and kind.collection not in declared_ones:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} declares the kind {kind.name}, but no domain declares its "
                    f"collection {kind.collection}. Add it to `collections`."
                )


def _require_hosts(domains: Domains) -> None:
    """Raises InvalidDomains for documents that belong to objects of a kind without deletions that would remove them."""
    hosts = {host.kind for domain in domains.all for host in domain.hosts}
    for domain in domains.all:
        for attachment in domain.attachments:
            if isinstance(attachment, Attachments.Owned) and attachment.kind not in hosts:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} attaches documents to the kind {attachment.kind}, which no "
                    f"served domain declares as a host. The hosts are: {', '.join(sorted(hosts))}."
                )


def _require_followed(domains: Domains) -> None:
    """Raises InvalidDomains for a change source, or a notification source, of a collection that nobody declares."""
    declared_ones = {spec.name for spec in SHARED_COLLECTIONS}.union(*map(_collections_of, domains.all))
    for domain in domains.all:
        followed = {name for source in domain.events for name in source.collections}
        for notified in domain.notifications:
            followed |= notified.changes.collections | {backlog.spec.name for backlog in notified.backlogs}
        for name in sorted(followed - declared_ones):
            raise InvalidDomains(
                f"{domains.source_of(domain.name)} has a change source of the collection {name}, which no served "
                "domain declares. Add it to `collections`."
            )


def _require_examples(domains: Domains) -> None:
    for domain in domains.all:
        for title, path in domain.examples:
            if not Path(path).is_file():
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} declares the GraphiQL tab {title} with the file {path}, "
                    "which does not exist. Add the file to the package."
                )


def _collections_of(domain: Domain) -> list[str]:
    return [spec.name for spec in domain.collections]


def _settings_of(domain: Domain) -> list[str]:
    return [] if domain.settings is None else [variable for variable, _ in declared(domain.settings)]


def _paths_of(domain: Domain, domains: Domains) -> list[str]:
    """Raises InvalidDomains for any error of the domain's function, e.g. if it calls for the state at once."""
    try:
        return [] if domain.routes is None else [route.path for route in domain.routes(_no_state)]
    except Exception as error:
        raise InvalidDomains(
            f"{domains.source_of(domain.name)} cannot list its routes: {_on_one_line(error)}"
        ) from error


def _no_state() -> Any:
    raise RuntimeError("The gateway has not started.")


def _on_one_line(error: BaseException) -> str:
    """Returns the type and the text of an error on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _package_of(entry: metadata.EntryPoint) -> str:
    return entry.value if entry.dist is None else entry.dist.name
