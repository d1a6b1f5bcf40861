"""Installs resolvers that read fields from documents or show errors, and functions that find the type of a document."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import strawberry
from graphql import (
    GraphQLArgument,
    GraphQLDefaultInput,
    GraphQLField,
    GraphQLInputField,
    GraphQLInputObjectType,
    GraphQLInterfaceType,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLUnionType,
    Undefined,
    default_field_resolver,
    parse_const_value,
)
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.base import StrawberryObjectDefinition

from portico.resolvers.errors import NotFound
from portico.schema.kinds import KIND, Kind, KindDocument, require_decodable

from .connections import Paged
from .errors import members_of, showing, value_class
from .fields import Computed, Related, Source, Stored, declaration_of, getter
from .inputs import LeftOut
from .nodes import loader_of, projection_of

_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF
# The extension of an interface with the function that reads the type name from a document.
TYPE_NAME = "portico.type_name"
# The extension of a union with the names of its types, by the classes of their values.
MEMBERS = "portico.members"
# The extension of a field with the types of its union that represent errors.
ERRORS = "portico.errors"
# The extension of a related field with the kind of its documents.
RELATED_KIND = "portico.related_kind"
# The extension of a connection with how its pages are read.
PAGES = "portico.pages"


def install(schema: strawberry.Schema, kinds: Mapping[str, Kind], pages: Sequence[Paged]) -> None:
    """Gives each declared field a resolver that reads its document, without the overhead of a strawberry resolver.

    Any other field whose union names errors gets one that answers with them.

    The types, the related fields and the connections of the schema get their kinds and pages here, so nothing has to
    look them up when an operation runs.
    """
    _note_kinds(schema, kinds, pages)
    document_types = {name for kind in kinds.values() for name in kind.types}
    for graphql_type in schema._schema.type_map.values():  # noqa: SLF001 - strawberry has no public name for it
        if isinstance(graphql_type, GraphQLObjectType | GraphQLInterfaceType):
            for field in graphql_type.fields.values():
                _install_field(field, kinds)
                _install_defaults(field.args)
        if isinstance(graphql_type, GraphQLInputObjectType):
            # Strawberry does not pass this on to graphql-core, which prints and checks it.
            graphql_type.is_one_of = graphql_type.extensions[_BACKREF].is_one_of
            _install_defaults(graphql_type.fields)
        if isinstance(graphql_type, GraphQLObjectType) and graphql_type.name in document_types:
            # A document always has the type of its field. There is no instance to check.
            graphql_type.is_type_of = None
        if isinstance(graphql_type, GraphQLInterfaceType):
            _install_interface(graphql_type, kinds.get(graphql_type.name))
        if isinstance(graphql_type, GraphQLUnionType):
            graphql_type.extensions[MEMBERS] = dict(_members(graphql_type))


def _note_kinds(schema: strawberry.Schema, kinds: Mapping[str, Kind], pages: Sequence[Paged]) -> None:
    types = schema._schema.type_map  # noqa: SLF001 - strawberry has no public name for it
    for kind in kinds.values():
        for name in (kind.name, *kind.types):
            if name in types:
                types[name].extensions[KIND] = kind
    for paged in pages:
        if paged.connection in types:
            types[paged.connection].extensions[PAGES] = paged, kinds[paged.kind]


def _install_field(field: GraphQLField, kinds: Mapping[str, Kind]) -> None:
    definition = field.extensions.get(_BACKREF)
    declared = None if definition is None else declaration_of(definition)
    match declared:
        case Stored(path=path, default=default):
            field.resolve = _reader(getter(path, default))
        case Computed(function=function):
            field.resolve = _reader(function)
        case Related():
            kind = field.extensions[RELATED_KIND] = kinds[declared.kind]
            field.resolve = _related(declared, kind, is_required=isinstance(field.type, GraphQLNonNull))
        case _:
            _install_errors(field)


def _install_errors(field: GraphQLField) -> None:
    """Makes a field answer with the errors that its union names. An error of a subscription ends it instead."""
    union = field.type.of_type if isinstance(field.type, GraphQLNonNull) else field.type
    if not isinstance(union, GraphQLUnionType) or field.subscribe is not None:
        return
    definitions = [definition for one in union.types if (definition := one.extensions.get(_BACKREF)) is not None]
    members = members_of({definition.origin for definition in definitions})
    if members:
        field.extensions[ERRORS] = members
        field.resolve = showing(field.resolve or default_field_resolver, members)


def _install_defaults(given: Mapping[str, GraphQLArgument] | Mapping[str, GraphQLInputField]) -> None:
    """Corrects defaults. Strawberry makes a Python default of None a default of null, where the schema has none.
    graphql-core can print an empty object as a default only from a literal.

    `first` is refused beside `last`, also if it has the value of its default.
    """
    for name, one in given.items():
        if one.default_value is None:
            one.default_value = Undefined
        elif one.default_value == {}:
            one.default_value = Undefined
            one.default = GraphQLDefaultInput(literal=parse_const_value("{}"))
        elif name == "first" and "last" in given and isinstance(one.default_value, int):
            one.default_value = LeftOut(one.default_value)


def _reader(read: Callable[[Source], Any]) -> Callable[[Source, Any], Any]:
    def resolve(source: Source, _info: Any) -> Any:
        return read(source)

    return resolve


def _related(declared: Related, kind: Kind, *, is_required: bool) -> Callable[[Source, Any], Any]:
    read_keys = getter(declared.path, [] if declared.many else None)

    def load(info: Any, key: Any) -> Awaitable[Any]:
        require_decodable(key)
        return loader_of(kind, projection_of(info, kind), discloses=declared.discloses)(info.context).load(key)

    async def resolve_many(source: Source, info: Any) -> Any:
        answers = [load(info, key) for key in read_keys(source)]
        return [document for answer in answers if (document := await answer) is not None]

    def resolve_one(source: Source, info: Any) -> Any:
        key = read_keys(source)
        if key is None:
            return None
        return _required(load(info, key), kind.name) if is_required else load(info, key)

    return resolve_many if declared.many else resolve_one


async def _required(answer: Awaitable[Any], kind: str) -> Any:
    document = await answer
    if document is None:
        raise NotFound(kind)
    return document


def _install_interface(interface: GraphQLInterfaceType, kind: Kind | None) -> None:
    """Sets how the type of a document is found: by its kind, which the interface or the document determines."""
    if interface.name == "Node":
        interface.resolve_type = _node_type
    elif kind is not None:
        type_name = kind.type_name
        interface.resolve_type = lambda document, _info, _abstract: type_name(document)
        interface.extensions[TYPE_NAME] = type_name


def _members(union: GraphQLUnionType) -> Iterator[tuple[type, str]]:
    """Yields the types of a union whose values tell it by their class alone: those that strawberry looks for first."""
    for member in union.types:
        definition = member.extensions.get(_BACKREF)
        if isinstance(definition, StrawberryObjectDefinition) and not (definition.concrete_of or definition.is_type_of):
            found = value_class(definition.origin)
            if getattr(found, "__strawberry_definition__", None) is definition:
                yield found, member.name


def _node_type(document: Any, _info: Any, _abstract: Any) -> str:
    assert isinstance(document, KindDocument)
    return document.kind.type_name(document)
