"""Declares how fields read their documents. The value, the projection and the batching follow from the declaration.

    title: str = stored()                                       at the path of its own name
    artist: str | None = stored("details.artist")               at another path
    savings: Money = computed(savings_of, "savings", "currency")  computed from the values at these paths
    price: Money = composed({"amount": "price", "currency": "currency"})  an object of values of the same document
    categories: list[Category] = related("Category", "category_ids", many=True)

    @reads("_id")                                               a resolver method, and the paths that it reads
    async def children(...)

The cost of a field is part of its declaration, as `length` or with `costs`:

    tracks: list[str] = stored("details.tracks", default=(), length=20)
    text: str = stored("detail.text", text=100_000)
    @strawberry.field(metadata=costs(extra=500, costly=True))

Browsers and CDNs may use an answer without asking for as many seconds as all its fields say:

    @strawberry.field(metadata=costs(max_age=60))

A value that is `computed(…, compared=True)` is compared by a live query, in place of its paths.

A document is a mapping, and is itself the object of its GraphQL type, so nothing is copied. A plain `@strawberry.field`
method works too. Because it can read anything, the whole document is fetched for it.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, overload

import strawberry
from graphql import GraphQLField, GraphQLInputField, get_named_type, is_leaf_type
from strawberry.schema.schema_converter import GraphQLCoreConverter
from strawberry.types.field import StrawberryField

T = TypeVar("T")
# A method that is a resolver. For the type checker, a field is its method.
Resolver = TypeVar("Resolver")
Source = Mapping[str, Any]
# Most getters read documents. The source of a connection's fields is the connection.
Getter = Callable[[Any], Any]

# How many values a list has: a number, or "page" for one value per row of its connection.
Length = int | Literal["page"]

# This many characters of a text weigh as much as a field.
TEXT_UNIT = 2_000
# What a field with a resolver method costs more than a stored one. It runs for each object, and most of them read.
_METHOD = 9
# The most costly fields of one operation: each makes the database read a whole list.
MAX_COSTLY = 2
# Marks a private field that is stored with the answer.
IS_KEPT = "portico.kept"
_SOURCE = "portico.source"
_COST = "portico.cost"
_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF


@dataclass(frozen=True)
class Stored:
    """A value at a path; `default` if it is missing or null."""

    path: str
    default: Any = None


@dataclass(frozen=True)
class Computed:
    """A function of the document that reads the paths `needs`.

    With `names`, the value is an object whose fields are the values of the same document at these names. If it
    `is_compared`, a live query compares the value, and not what it is made of. With `kind`, it is an id of this kind.
    """

    function: Getter
    needs: tuple[str, ...]
    names: Mapping[str, str] | None = None
    is_compared: bool = False
    kind: str | None = None


@dataclass(frozen=True)
class Related:
    """Other documents, by the keys at a path. With `many`, a list that leaves out missing documents.

    A document that the caller may not see by the rule of its kind counts as missing. With `discloses`, the relation
    shows it nevertheless: a caller who may see the object with the keys may see the documents with these keys.
    """

    kind: str
    path: str
    many: bool
    discloses: bool = False


@dataclass(frozen=True)
class Method:
    """A resolver method that reads the paths `needs` of the document."""

    needs: tuple[str, ...]


Declaration = Stored | Computed | Related | Method


@dataclass(frozen=True)
class Cost:
    """The cost of a field: see `costs`."""

    length: Length | None = None
    extra: int = 0
    costly: bool = False
    each: str | None = None
    shares: str | None = None
    weights: Mapping[str, float] | None = None
    row: int = 2
    max_age: int | None = None

    def __post_init__(self) -> None:
        if self.max_age is not None and self.max_age < 0:
            raise ValueError(f"`max_age` must be 0 seconds or more; got {self.max_age}.")


def kept_privately() -> Any:
    """Returns a private field of a payload that repeated calls need, too. It holds None, or documents of plain values.

    No client sees it.
    """
    return dataclasses.field(default=None, metadata={IS_KEPT: True})


def costs(
    *,
    length: Length | None = None,
    extra: int = 0,
    costly: bool = False,
    each: str | None = None,
    shares: str | None = None,
    weights: Mapping[str, float] | None = None,
    row: int = Cost.row,
    max_age: int | None = None,
) -> dict[str, Any]:
    """Returns the metadata of a field with this cost.

    `length` is the number of values that a list counts as: the bound that the write rules enforce if all callers can
    fill the list, otherwise a generous estimate. `extra` is added each time that the field is returned.
    If a field has one result for each value of a list argument, or as many as a number says, `each` names the argument:
    the list counts as that many values, up to `length`. If the field has no such argument, as in a payload, `each`
    names an argument of the mutation.
    `weights` says how much each value of an argument, or of `argument.field` for a field of an input, adds to the cost.
    `row` is the least that a row of a connection costs, for what the server reads for each row.
    A `costly` field, or an input field that makes its list costly, reads a whole list: an operation can have two. A
    field that `shares` the read of another field is free beside it.
    `max_age` is how many seconds old a value may be that a browser or a CDN has kept: an answer is used without asking
    for as long as all its fields allow.
    """
    return {_COST: Cost(length, extra, costly, each, shares, weights, row, max_age)}


def cost_of(field: GraphQLField | GraphQLInputField) -> Cost:
    """Returns the declared cost of a field of the schema, or the default cost."""
    definition = field.extensions.get(_BACKREF)
    declared: Cost | None = (field.extensions if definition is None else definition.metadata).get(_COST)
    return declared or Cost()


def max_age_of(field: GraphQLField) -> int | None:
    """Returns how many seconds old the value of a field may be, as declared.

    Without a declaration, it is None for a value that comes with its object: it may be as old as that. It is 0 for
    other objects.
    """
    declared = cost_of(field).max_age
    if declared is not None:
        return declared
    definition = field.extensions.get(_BACKREF)
    comes_with_object = definition is not None and isinstance(declaration_of(definition), Stored | Computed)
    return None if comes_with_object or is_leaf_type(get_named_type(field.type)) else 0


def stored(
    path: str = "",
    *,
    default: Any = None,
    length: Length | None = None,
    text: int = 0,
    description: str | None = None,
    name: str | None = None,
) -> Any:
    """Returns a field at a path of the document. If its type is an object type, that type's paths are below this.

    `text` is how many characters a long text can have: the bound that the write rules enforce if all callers can write
    it, otherwise a generous estimate. `name` is the public name of a field whose name Python reserves, such as `from`.
    It then needs a path.
    """
    metadata = {_SOURCE: Stored(path, default), **costs(length=length, extra=text // TEXT_UNIT)}
    return _of_document(strawberry.field(name=name, metadata=metadata, description=description))


def _of_document(field: Any) -> Any:
    """Leaves a field out of the class that `strawberry.type` generates: its object is a document, not an instance."""
    field.init = field.repr = field.compare = False
    return field


def computed(
    function: Getter,
    *needs: str,
    length: Length | None = None,
    compared: bool = False,
    description: str | None = None,
) -> Any:
    """Returns a field that a function computes from the paths `needs` of the document.

    With `compared`, a live query does not run again if these paths change and the value does not: for example, a list
    that leaves out some elements of a stored one. The `repr` of the value is compared, so it must show all of the
    value. Nothing may change the document between its read and the field.
    """
    return without_argument(Computed(function, needs, is_compared=compared), description, length)


def without_argument(declared: Computed, description: str | None, length: Length | None = None) -> Any:
    """Returns a computed field."""
    return _of_document(strawberry.field(metadata={_SOURCE: declared, **costs(length=length)}, description=description))


def composed(names: Mapping[str, str], *, description: str | None = None) -> Any:
    """Returns a field of an object type. Each field of the object is the value of the document at another name.

    composed({"amount": "list", "currency": "currency"})
    """

    def compose(source: Source) -> dict[str, Any]:
        return {field: source.get(name) for field, name in names.items()}

    declared = Computed(compose, tuple(names.values()), names)
    return _of_document(strawberry.field(metadata={_SOURCE: declared}, description=description))


def related(
    kind: str,
    path: str,
    *,
    many: bool = False,
    discloses: bool = False,
    length: Length | None = None,
    max_age: int | None = None,
    description: str | None = None,
) -> Any:
    """Returns a field of related documents, by the key at a path of the document; with `many`, by a list of keys.

    Args:     max_age: as in `costs`.
    """
    metadata = {_SOURCE: Related(kind, path, many, discloses), **costs(length=length, max_age=max_age)}
    return _of_document(strawberry.field(metadata=metadata, description=description))


def reads(
    *needs: str,
    length: Length | None = None,
    each: str | None = None,
    text: int = 0,
    extra: int = 0,
    row: int = Cost.row,
    weights: Mapping[str, float] | None = None,
    max_age: int | None = None,
    description: str | None = None,
) -> Callable[[Resolver], Resolver]:
    """Returns a field with a resolver method that reads the paths `needs` of the document.

    Args:     text: as in `stored`.  each, extra, row, weights, max_age: as in `costs`.
    """
    extra += _METHOD + text // TEXT_UNIT
    cost = {_COST: Cost(length, extra, each=each, row=row, weights=weights, max_age=max_age)}
    field: Callable[[Resolver], Resolver] = strawberry.field(
        metadata={_SOURCE: Method(needs), **cost}, description=description
    )
    return field


def declaration_of(field: StrawberryField) -> Declaration | None:
    """Returns the declaration of a field with its path; None for a plain strawberry field."""
    declared: Declaration | None = field.metadata.get(_SOURCE)
    if isinstance(declared, Stored) and not declared.path:
        return Stored(str(field.python_name), declared.default)
    return declared


@overload
def as_type(graphql_type: type[list[T]], document: Sequence[Source]) -> list[T]: ...


@overload
def as_type(graphql_type: type[T], document: Source) -> T: ...


@overload
def as_type(graphql_type: type[T], document: Source | None) -> T | None: ...


def as_type(graphql_type: type[Any], document: Any) -> Any:  # noqa: ARG001 - for the type checker
    """Returns the document itself, which is the object of its GraphQL type; of `list[Type]`, several documents."""
    return document


def as_document(value: object) -> Mapping[str, Any]:
    """Returns the document that an object of a GraphQL type is: the inverse of `as_type`."""
    assert isinstance(value, Mapping)
    return value


def getter(path: str, default: Any = None) -> Getter:
    """Returns a function that reads the value at a dotted path, or `default` if it is missing or null."""
    # Each selection of a field asks for one. A default need not be hashable.
    return _plain_getter(path) if default is None else _getter(path, default)


@functools.lru_cache(4_096)
def _plain_getter(path: str) -> Getter:
    return _getter(path, None)


def _getter(path: str, default: Any) -> Getter:
    names = path.split(".")
    if len(names) == 1:

        def read_own(source: Source) -> Any:
            value = source.get(path)
            return default if value is None else value

        return read_own

    def read_below(source: Source) -> Any:
        value: Any = source
        for name in names:
            value = value.get(name) if isinstance(value, Mapping) else None
        return default if value is None else value

    return read_below
