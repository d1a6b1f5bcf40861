"""The plan of an operation: a tree of its fields, computed once for its text and the values of its conditions.

A field is *flat* if declared functions (`schema.fields`) compute its whole value from its document, without another
read. The other fields are relations and fields with resolvers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from graphql import (
    FieldNode,
    FragmentDefinitionNode,
    GraphQLAbstractType,
    GraphQLError,
    GraphQLField,
    GraphQLLeafType,
    GraphQLObjectType,
    GraphQLSchema,
    OperationDefinitionNode,
    OperationType,
)

from portico.loaders.batching import Loader
from portico.resolvers.answer_bounds import Size
from portico.schema.context import Context
from portico.schema.fields import Getter
from portico.schema.selections import Selection

from .arguments import Arguments


class NotCompiled(Exception):
    """Only graphql-core can run the operation. The text names the part that is not supported."""


class InvalidVariables(Exception):
    """The variables do not fit the operation. `errors` name each variable that is wrong or missing."""

    def __init__(self, errors: list[GraphQLError]) -> None:
        super().__init__(errors[0].message)
        self.errors = errors


@dataclass(slots=True, eq=False)
class NonNull:
    inner: Shape


@dataclass(slots=True, eq=False)
class ListOf:
    item: Shape
    is_nullable: bool


@dataclass(slots=True, eq=False)
class Leaf:
    type: GraphQLLeafType


@dataclass(slots=True, eq=False)
class Object:
    plan: ObjectPlan


@dataclass(slots=True, eq=False)
class Abstract:
    """An interface or union. The plan of each type is compiled when the first value of the type occurs.

    `type_name` finds the type from the document alone; None if that needs `resolve_type`. `members` are the names of
    the types whose values are instances of these classes.
    """

    type: GraphQLAbstractType
    resolve_type: Callable[..., Any]
    type_name: Callable[[Any], str] | None
    members: Mapping[Any, str]
    compile_for: Callable[[GraphQLObjectType], ObjectPlan]
    plans: dict[str, ObjectPlan] = field(default_factory=dict)

    def plan_of(self, object_type: GraphQLObjectType) -> ObjectPlan:
        plan = self.plans.get(object_type.name)
        if plan is None:
            plan = self.plans[object_type.name] = self.compile_for(object_type)
        return plan


Shape = NonNull | ListOf | Leaf | Object | Abstract


# Makes the answer of a document, or the answers of several. Adds the texts to the size.
Complete = Callable[[Any, Size], dict[str, Any]]
CompleteAll = Callable[[Sequence[Any], Size], list[Any]]


class Completers(NamedTuple):
    """How to make the answers of related documents: of one, and of many without counting their stored texts.

    `many` is None if an answer can show a text twice, or if its type depends on the document.
    """

    one: Complete
    many: CompleteAll | None


@dataclass(slots=True, eq=False)
class Relation:
    """How to read related documents: one read per level, by the keys that `keys_of` finds in each document.

    `is_own` says that the path is a name in the document itself. `completers` make the answers of the documents; None
    if these need more than the documents. With `is_checked`, the loader leaves out documents that the caller may not
    see, and returns an error for a document whose rule fails.
    """

    kind: str
    path: str
    many: bool
    is_own: bool
    projection: Mapping[str, int] | None
    keys_of: Getter
    is_checked: bool
    loader: Callable[[Context], Loader[Any, Any]]
    completers: Completers | None


@dataclass(slots=True, eq=False)
class FieldPlan:
    """One field of an answer. `read` computes its value from the document; if it is None, `own` reads it from another
    object. If both are None, `resolve` is called.

    With `names`, the value is an object of values at these names of the document. With `id_of`, it is the id of the
    object of this kind whose key is at this path.
    """

    response_name: str
    name: str
    nodes: list[FieldNode]
    parent: GraphQLObjectType
    definition: GraphQLField
    is_nullable: bool
    shape: Shape
    selection: Selection
    arguments: Arguments
    read: Getter | None = None
    own: Getter | None = None
    default: Any = None
    path: str | None = None
    names: Mapping[str, str] | None = None
    id_of: tuple[str, str] | None = None
    relation: Relation | None = None
    resolve: Callable[..., Any] | None = None

    @property
    def is_flat(self) -> bool:
        return self.read is not None and is_flat(self.shape)


@dataclass(slots=True, eq=False)
class ObjectPlan:
    """The selection on one object type.

    `complete` makes the answer of a document with the flat fields. `rest` are the other fields, in order. With
    `is_counted`, `complete` counts the stored texts.
    """

    type: GraphQLObjectType
    fields: list[FieldPlan]
    rest: list[FieldPlan] = field(default_factory=list)
    complete: Complete | None = None
    is_counted: bool = True


@dataclass(slots=True, eq=False)
class Plan:
    """An operation, compiled for some values of the variables in its directives."""

    schema: GraphQLSchema
    definition: OperationDefinitionNode
    fragments: dict[str, FragmentDefinitionNode]
    root: ObjectPlan

    @property
    def is_serial(self) -> bool:
        return self.definition.operation is OperationType.MUTATION


def is_flat(shape: Shape) -> bool:
    """Returns whether values of this shape need no other read, no resolver, and no call to find their type."""
    match shape:
        case NonNull(inner=inner) | ListOf(item=inner):
            return is_flat(inner)
        case Object(plan=plan):
            return plan.type.is_type_of is None and not plan.rest
        case Leaf():
            return True
        case Abstract():
            return False


def is_plain(plan: ObjectPlan) -> bool:
    """Returns whether the object, with the objects inside, shows no field twice. So its texts are no longer than it."""
    names = {field.name for field in plan.fields}
    inner = (named_shape(field.shape) for field in plan.fields if field.is_flat)
    return len(names) == len(plan.fields) and all(is_plain(one.plan) for one in inner if isinstance(one, Object))


def named_shape(shape: Shape) -> Leaf | Object | Abstract:
    """Returns the shape inside of lists and non-nulls."""
    while isinstance(shape, NonNull | ListOf):
        shape = shape.inner if isinstance(shape, NonNull) else shape.item
    return shape
