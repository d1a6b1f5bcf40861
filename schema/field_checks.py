"""Checks at the start that the fields of the schema can be answered, so that no query finds out first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from graphql import GraphQLObjectType, GraphQLSchema, get_named_type
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.base import StrawberryObjectDefinition
from strawberry.types.field import StrawberryField

from portico.resolvers.declarations import Domain
from portico.resolvers.served import Domains, InvalidDomains

from .assembly import Addition, name_of, shown_fields
from .connections import Connection
from .fields import Computed, Stored, declaration_of

_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF


class UnknownPages(LookupError):
    """A connection lists objects, but no served domain declares how its pages are read."""


def require_readable(domains: Domains, schema: GraphQLSchema, additions: Mapping[str, Sequence[Addition]]) -> None:
    """Checks that document-backed fields, connections and subscriptions get their values from somewhere.

    Raises:   InvalidDomains, UnknownPages.
    """
    _require_subscribed(domains)
    _require_pages(domains, schema)
    sources = {id(one.field): one.source for added in additions.values() for one in added}
    for domain in domains.all:
        source = domains.source_of(domain.name)
        shown = [schema.type_map[name] for kind in domain.kinds for name in kind.types]
        for graphql_type in _of_documents(shown):
            for name, definition in _definitions(graphql_type):
                if definition.base_resolver is None and declaration_of(definition) is None:
                    raise InvalidDomains(
                        f"{sources.get(id(definition), source)} declares the field {graphql_type.name}.{name}, which "
                        "neither names its place in the document nor has a resolver. Declare it with "
                        "`portico.schema.stored`, `computed`, `related` or `reads`."
                    )


def _of_documents(types: Iterable[Any]) -> Iterator[GraphQLObjectType]:
    """Yields these types, and those of the objects that are stored in their documents, each once."""
    found: set[str] = set()
    waiting = list(types)
    while waiting:
        graphql_type = waiting.pop()
        if not isinstance(graphql_type, GraphQLObjectType) or graphql_type.name in found:
            continue
        found.add(graphql_type.name)
        yield graphql_type
        for name, definition in _definitions(graphql_type):
            declared = declaration_of(definition)
            # The function of a computed field can return an instance of the type.
            if isinstance(declared, Stored) or (isinstance(declared, Computed) and declared.names is not None):
                waiting.append(get_named_type(graphql_type.fields[name].type))


def _definitions(graphql_type: GraphQLObjectType) -> Iterator[tuple[str, StrawberryField]]:
    for name, field in graphql_type.fields.items():
        if (definition := field.extensions.get(_BACKREF)) is not None:
            yield name, definition


def _require_pages(domains: Domains, schema: GraphQLSchema) -> None:
    """Raises UnknownPages for a connection of objects of a kind whose `Paged` no served domain declares."""
    declared = {paged.connection for paged in domains.pages}
    kinds = {name: kind.name for kind in domains.kinds.values() for name in (kind.name, *kind.types)}
    for name, graphql_type in schema.type_map.items():
        definition = getattr(graphql_type, "extensions", {}).get(_BACKREF)
        if not isinstance(graphql_type, GraphQLObjectType) or not isinstance(definition, StrawberryObjectDefinition):
            continue
        if name not in declared and issubclass(definition.origin, Connection):
            kind = kinds.get(str(get_named_type(graphql_type.fields["nodes"].type)))
            if kind is not None:
                raise UnknownPages(
                    f"{name} lists objects of the kind {kind}, but no served domain has its `Paged` in `pages`."
                )


def _require_subscribed(domains: Domains) -> None:
    """Raises InvalidDomains for a subscription to topics where no event can have a topic that the domain knows.

    A subscription that calls neither `occurrences` nor `states` itself can make its own values.
    """
    by_name = {domain.name: domain for domain in domains.all}
    for domain in domains.all:
        if not _has_events(domain, by_name):
            for name, definition in _subscriptions(domain):
                if _calls_for_events(definition):
                    raise InvalidDomains(
                        f"{domains.source_of(domain.name)} declares the subscription {name}, but neither it nor a "
                        "domain that it needs declares a change source. List the `ChangeSource` of its topic in "
                        "`events`."
                    )


def _calls_for_events(definition: StrawberryField) -> bool:
    resolver = definition.base_resolver
    code = None if resolver is None else getattr(resolver.wrapped_func, "__code__", None)
    return code is not None and not {"occurrences", "states"}.isdisjoint(code.co_names)


def _has_events(domain: Domain, by_name: Mapping[str, Domain]) -> bool:
    return bool(domain.events) or any(_has_events(by_name[name], by_name) for name in domain.needs)


def _subscriptions(domain: Domain) -> Iterator[tuple[str, StrawberryField]]:
    for mixin in domain.subscriptions:
        for definition in shown_fields(mixin):
            yield name_of(definition), definition
