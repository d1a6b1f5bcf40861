"""Assembles the schema from the declarations of the served domains."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import strawberry
from graphql import GraphQLInterfaceType, GraphQLObjectType, GraphQLSchema
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.base import StrawberryObjectDefinition, get_object_definition
from strawberry.types.field import StrawberryField
from strawberry.types.private import is_private

from portico.resolvers.served import Domains, InvalidDomains
from portico.schema.kinds import Kind

from .connections import Counted
from .errors import camel_case
from .fields import Computed, Related, declaration_of
from .inputs import build_directly
from .mutations import Write
from .roles import OWN_ROLES
from .service import SchemaOfService

_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF
# The root types, with the attribute of a domain that declares their fields.
_ROOTS = {"Query": "queries", "Mutation": "mutations", "Subscription": "subscriptions"}


class AssembledSchema(strawberry.Schema):
    """A schema in which domains add fields to types of other domains."""

    def __init__(self, *, additions: Mapping[str, Sequence[Addition]], **options: Any) -> None:
        # Strawberry calls `get_fields` while it builds the schema.
        self._additions = additions
        try:
            super().__init__(**options)
        except TypeError as error:
            # graphql-core wraps exceptions of `get_fields` in a TypeError.
            if isinstance(error.__cause__, InvalidDomains):
                raise error.__cause__ from None
            raise
        # Strawberry makes a plain `GraphQLSchema`.
        self._schema.__class__ = SchemaOfService
        for known in self.schema_converter.type_map.values():
            if isinstance(known.definition, StrawberryObjectDefinition) and known.definition.is_input:
                build_directly(known.definition)

    def _warn_for_federation_directives(self) -> None:
        """Does nothing. Strawberry would load its directives for federation, which no domain uses, to look for them."""

    def get_fields(self, type_definition: StrawberryObjectDefinition) -> list[StrawberryField]:
        """Returns the fields of the type and the added ones. Raises InvalidDomains if both have the same name."""
        # The name of a connection follows from the type of its rows.
        name = self.config.name_converter.from_type(type_definition)
        names = (name, *(interface.name for interface in type_definition.interfaces))
        added = {one.name: one for name in names for one in self._additions.get(name, ())}
        for field in map(name_of, type_definition.fields):
            if field in added:
                raise InvalidDomains(
                    f"{added[field].source} adds the field {field} to {name}, which already has one. "
                    "Rename the added field."
                )
        return [*type_definition.fields, *(one.field for one in added.values())]


@dataclass(frozen=True)
class Addition:
    """A field that a domain adds to a type. `source` names the domain in messages."""

    name: str
    field: StrawberryField
    source: str


def require_rules(domains: Domains) -> None:
    """Raises InvalidDomains for a kind without a visibility rule, and for a role without a description."""
    for domain in domains.all:
        for role in domain.roles:
            if not role.about:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} declares the role {role.name} without a description. "
                    'Give it one, e.g. `Role("LIBRARIAN", "The books and their readers.")`.'
                )
        for kind in domain.kinds:
            if not kind.has_rule:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} declares the kind {kind.name} without a visibility rule. "
                    "Give it `visible_to` (`everybody`, if all callers may see its objects), `callers`, `within` or "
                    "`shown_to`."
                )


class UnknownKind(LookupError):
    """A field names a kind that no served domain declares."""


def require_declared(domains: Domains, schema: GraphQLSchema) -> None:
    """Checks that the schema has the types, and the domains the kinds, that declarations name.

    Raises:   InvalidDomains, UnknownKind.
    """
    types = [name for name, one in schema.type_map.items() if isinstance(one, GraphQLObjectType | GraphQLInterfaceType)]
    for domain in domains.all:
        for kind in domain.kinds:
            for name in kind.types:
                if not isinstance(schema.type_map.get(name), GraphQLObjectType):
                    raise InvalidDomains(
                        f"{domains.source_of(domain.name)} declares the kind {kind.name}, but the schema has no type "
                        f"{name}. Return the type from a field, or list it in `types` of the domain."
                    )
        for name in domain.extensions:
            if name not in types:
                raise InvalidDomains(
                    f"{domains.source_of(domain.name)} extends the type {name}, which the schema does not have."
                    f"{_did_you_mean(name, types)}"
                )
    _require_kinds(domains, [schema.type_map[name] for name in types])


def _require_kinds(domains: Domains, types: Iterable[Any]) -> None:
    """Raises UnknownKind for a field with a kind that is not served, InvalidDomains for ids of another kind."""
    owners = {kind.name: domain.name for domain in domains.all for kind in domain.kinds}
    shown = {name: kind.name for domain in domains.all for kind in domain.kinds for name in kind.types}
    for graphql_type in types:
        for field, declared in _declarations(graphql_type):
            if declared.kind not in owners:
                what = "related to" if isinstance(declared, Related) else "an id of"
                raise UnknownKind(
                    f"{field} is {what} the kind {declared.kind}, which no served domain declares."
                    f"{_did_you_mean(declared.kind, owners)}"
                )
            kind = shown.get(graphql_type.name, declared.kind)
            if isinstance(declared, Computed) and declared.kind != kind:
                raise InvalidDomains(
                    f"{domains.source_of(owners[kind])} declares the type {graphql_type.name} of the kind {kind}, "
                    f"but {field} is an id of the kind {declared.kind}. Name the kind {kind} in `node_id`."
                )


def _declarations(graphql_type: Any) -> Iterator[tuple[str, Any]]:
    """Yields the fields of a type that name a kind, each with its declaration."""
    for name, field in graphql_type.fields.items():
        definition = field.extensions.get(_BACKREF)
        declared = None if definition is None else declaration_of(definition)
        if getattr(declared, "kind", None) is not None:
            yield f"{graphql_type.name}.{name}", declared


def _did_you_mean(name: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, sorted(known), n=1)
    return f" Did you mean {close[0]}?" if close else ""


def additions_of(domains: Domains) -> dict[str, list[Addition]]:
    """Returns the fields that domains add, by type name.

    Raises InvalidDomains if two domains add the same field, or for a mutation without an operation id.
    """
    found: dict[str, list[Addition]] = {}
    owners: dict[tuple[str, str], str] = {}
    for domain, type_name, mixin in _mixins(domains):
        for field in shown_fields(mixin):
            name = name_of(field)
            owner = owners.setdefault((type_name, name), domain)
            if owner != domain:
                raise InvalidDomains(
                    f"{domains.source_of(domain)} adds the field {name} to {type_name}, "
                    f"but {domains.source_of(owner)} already adds it. Rename one of the fields."
                )
            if type_name == "Mutation" and not any(isinstance(one, Write) for one in field.extensions):
                raise InvalidDomains(
                    f"{domains.source_of(domain)} declares the mutation {name} without an operation id. "
                    "Declare it with `portico.schema.mutation` instead of `strawberry.mutation`."
                )
            _require_role(domains, domain, name, field)
            found.setdefault(type_name, []).append(Addition(name, field, domains.source_of(domain)))
    return found


def _require_role(domains: Domains, domain: str, name: str, field: StrawberryField) -> None:
    """Raises InvalidDomains for a mutation with a role that no served domain declares."""
    roles = [one.role for one in field.extensions if isinstance(one, Write)]
    for role in roles:
        if role is not None and role not in (*OWN_ROLES, *domains.roles):
            raise InvalidDomains(
                f"{domains.source_of(domain)} declares the mutation {name} for the role {role.name}, which no served "
                "domain declares. List the role in `roles` of the domain."
            )


def name_of(field: StrawberryField) -> str:
    """Returns the name of the field in the schema."""
    return field.graphql_name or camel_case(field.python_name)


def shown_fields(mixin: type) -> Iterator[StrawberryField]:
    """Returns the fields of the class that clients see."""
    definition = get_object_definition(mixin, strict=True)
    return (field for field in definition.fields if not is_private(field.type))


def _mixins(domains: Domains) -> Iterator[tuple[str, str, type]]:
    """Yields each class with fields to add: (the name of its domain, the type that gets the fields, the class)."""
    kinds: list[Kind] = [kind for domain in domains.all for kind in domain.kinds]
    for domain in domains.all:
        for root, declared in _ROOTS.items():
            yield from ((domain.name, root, mixin) for mixin in getattr(domain, declared))
        for type_name, mixins in domain.extensions.items():
            yield from ((domain.name, type_name, mixin) for mixin in mixins)
        yield from ((domain.name, paged.connection, Counted) for paged in domain.pages if paged.counts is not None)
        if domain.kind_extensions is not None:
            for kind in kinds:
                mixin = domain.kind_extensions(kind, domains.hosts)
                if mixin is not None:
                    yield from ((domain.name, name, mixin) for name in dict.fromkeys((kind.name, *kind.types)))
