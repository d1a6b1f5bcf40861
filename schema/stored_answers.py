"""Stores the answer of a mutation for its idempotency key, and restores it for a repeated call.

The stored form depends on the value and the type of its field:

    an object of a kind        {kind, key}: a reference, which each call reads again; with {says_kind} for a `Node`
    a payload, an instance     {payload: the name of the type, fields}
    any other document         {document}: a copy, because it has no key to read it by
    an enum member             {enum: the name of the enum, member}
    JSON                       {json}
    a list                     a list of the stored items
    any other scalar           the value itself

`require_keepable` refuses a schema if a mutation has any other answer, before anything is written.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from enum import Enum
from typing import Any

import strawberry
from graphql import (
    GraphQLInterfaceType,
    GraphQLNamedType,
    GraphQLObjectType,
    GraphQLScalarType,
    GraphQLSchema,
    GraphQLUnionType,
    get_named_type,
    get_nullable_type,
)
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.base import get_object_definition

from portico.resolvers.documents import Document
from portico.schema.kinds import Kind, KindDocument, kind_of

from .errors import value_class
from .fields import IS_KEPT

_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF
_ANY_KIND = "Node"
# The database stores values of these scalars unchanged.
_SCALARS = {"String", "ID", "Int", "Float", "Boolean", "DateTime", "BigInt", "JSON"}


class NotKeepable(Exception):
    """A mutation has an answer that cannot be stored for a repeated call. The text says where and why."""


def require_keepable(served: strawberry.Schema) -> None:
    """Raises NotKeepable if a mutation can have an answer that cannot be stored."""
    schema = served._schema  # noqa: SLF001 - strawberry has no public name for it
    mutations = {} if schema.mutation_type is None else schema.mutation_type.fields
    for name, field in mutations.items():
        answer = get_nullable_type(field.type)
        is_payload = isinstance(answer, GraphQLObjectType | GraphQLUnionType) and kind_of(answer) is None
        if not is_payload:
            raise NotKeepable(f"`{name}` must return a payload type, or a union of payload types; got `{answer}`.")
        _require(schema, get_named_type(answer), f"Mutation.{name}", set())


def _require(schema: GraphQLSchema, shown_as: GraphQLNamedType, place: str, seen: set[str]) -> None:
    if shown_as.name in seen or kind_of(shown_as) is not None or shown_as.name == _ANY_KIND:
        return
    seen.add(shown_as.name)
    if isinstance(shown_as, GraphQLScalarType) and shown_as.name not in _SCALARS:
        raise NotKeepable(
            f"`{place}` has the scalar type `{shown_as.name}`, whose values the database cannot store. "
            f"Use one of {', '.join(sorted(_SCALARS))}."
        )
    if isinstance(shown_as, GraphQLUnionType | GraphQLInterfaceType):
        for possible in schema.get_possible_types(shown_as):
            if kind_of(possible) is not None:
                raise NotKeepable(
                    f"`{place}` can be an object of a kind, `{possible.name}`, or another value. "
                    f"Use the type of the kind, or `{_ANY_KIND}`."
                )
            _require(schema, possible, place, seen)
    if isinstance(shown_as, GraphQLObjectType):
        _require_fields(schema, shown_as, seen)


def _require_fields(schema: GraphQLSchema, shown_as: GraphQLObjectType, seen: set[str]) -> None:
    fields = _fields_of(shown_as)
    for given in _given_fields(value_class(shown_as.extensions[_BACKREF].origin)):
        place = f"{shown_as.name}.{given.name}"
        if given.metadata.get(IS_KEPT):
            continue
        if given.name not in fields:
            raise NotKeepable(f"`{place}` is private, so a repeated call cannot restore it. Make it a public field.")
        _require(schema, fields[given.name], place, seen)


def _given_fields(origin: Any) -> list[dataclasses.Field[Any]]:
    """Returns the fields that an instance is made with. The other fields are computed from these."""
    return [field for field in dataclasses.fields(origin) if field.init]


def _fields_of(graphql_type: GraphQLObjectType) -> dict[str, GraphQLNamedType]:
    """Returns the named types of the fields, by their Python names."""
    return {
        field.extensions[_BACKREF].python_name: get_named_type(field.type)
        for field in graphql_type.fields.values()
        if _BACKREF in field.extensions
    }


def record_of(schema: GraphQLSchema, payload: Any) -> Document:
    """Returns the stored form of a payload or another instance of a strawberry type."""
    if payload is None:
        return {"payload": None, "fields": {}}
    name = get_object_definition(payload, strict=True).name
    values = {field.name: getattr(payload, field.name) for field in _given_fields(type(payload))}
    return {"payload": name, "fields": record_values(schema, name, values)}


def record_values(schema: GraphQLSchema, type_name: str, values: Mapping[str, Any]) -> Document:
    """Returns the stored form of the values of an object of this type, by the Python names of its fields."""
    graphql_type = schema.type_map[type_name]
    assert isinstance(graphql_type, GraphQLObjectType)
    types = _fields_of(graphql_type)
    return {name: _kept(schema, value, types.get(name)) for name, value in values.items()}


def _kept(schema: GraphQLSchema, value: Any, shown_as: GraphQLNamedType | None) -> Any:
    if value is not None and isinstance(shown_as, GraphQLScalarType) and shown_as.name == "JSON":
        return {"json": value}
    if isinstance(value, list | tuple):
        return [_kept(schema, item, shown_as) for item in value]
    if isinstance(value, Enum) and shown_as is not None:
        return {"enum": shown_as.name, "member": value.name}
    if isinstance(value, Mapping):
        return _kept_document(value, shown_as)
    return record_of(schema, value) if dataclasses.is_dataclass(value) else value


def _kept_document(document: Mapping[str, Any], shown_as: GraphQLNamedType | None) -> Document:
    if isinstance(document, KindDocument):
        return {**_reference(document.kind, document), "says_kind": True}
    kind = kind_of(shown_as)
    return {"document": dict(document)} if kind is None else _reference(kind, document)


def _reference(kind: Kind, document: Mapping[str, Any]) -> Document:
    return {"kind": kind.name, "key": str(document[kind.path])}


def references_in(record: Any) -> Iterator[tuple[str, str]]:
    """Yields the kinds and keys of the objects that a stored answer references."""
    if isinstance(record, list):
        for item in record:
            yield from references_in(item)
    elif isinstance(record, Mapping):
        if "kind" in record:
            yield record["kind"], record["key"]
        for value in record.get("fields", {}).values():
            yield from references_in(value)


class Restoring:
    """Restores stored answers. `documents` are the current objects that the answers reference.

    A list leaves out a missing object. Elsewhere, a missing object raises the error that `missing` makes. Fields that
    the payloads of a newer version have and those of this one lack are left out, too.
    """

    def __init__(
        self,
        schema: strawberry.Schema,
        kinds: Mapping[str, Kind],
        documents: Mapping[tuple[str, str], Document],
        missing: Any,
    ) -> None:
        self._schema = schema
        self._kinds = kinds
        self._documents = documents
        self._missing = missing

    def values(self, record: Mapping[str, Any]) -> dict[str, Any]:
        return {name: self.value(value) for name, value in record.items()}

    def value(self, record: Any) -> Any:
        if isinstance(record, list):
            return [self.value(item) for item in record if not self._is_gone(item)]
        if not isinstance(record, Mapping):
            return record
        if "kind" in record:
            if self._is_gone(record):
                raise self._missing(record["kind"], record["key"])
            document = self._documents[record["kind"], record["key"]]
            return KindDocument(self._kinds[record["kind"]], document) if "says_kind" in record else document
        if "payload" in record:
            return record["payload"] and self._payload(record["payload"], record["fields"])
        if "enum" in record:
            return self._origin(record["enum"])[record["member"]]
        return record["document"] if "document" in record else record["json"]

    def _payload(self, name: str, fields: Mapping[str, Any]) -> Any:
        origin = self._origin(name)
        known = [field.name for field in _given_fields(origin)]
        return origin(**self.values({name: fields[name] for name in known if name in fields}))

    def _is_gone(self, record: Any) -> bool:
        is_reference = isinstance(record, Mapping) and "kind" in record
        return is_reference and (record["kind"], record["key"]) not in self._documents

    def _origin(self, name: str) -> Any:
        """Returns the Python class of the values of a GraphQL type."""
        definition: Any = self._schema.get_type_by_name(name)
        return value_class(definition.origin)
