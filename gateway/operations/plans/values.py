"""Completes single values as the specification says: leaves, nulls, types. Error texts are graphql-core's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable
from typing import Any

from graphql import GraphQLError, GraphQLLeafType, GraphQLObjectType, Undefined
from graphql.pyutils import inspect
from strawberry.types.cast import get_strawberry_type_cast

from portico.resolvers.undecodable import is_undecodable

from .plan import Abstract, FieldPlan, Leaf, NonNull, Object, ObjectPlan, Plan, Shape


def plan_finder(shape: Shape, plan: Plan) -> Callable[[Any], ObjectPlan] | None:
    """Returns a function that finds the plan of a document of this shape; None if that needs more than the document."""
    named = shape.inner if isinstance(shape, NonNull) else shape
    if isinstance(named, Object) and named.plan.type.is_type_of is None:
        of_type = named.plan
        return lambda _document: of_type
    if not isinstance(named, Abstract) or named.type_name is None:
        return None
    abstract, type_name, plans = named, named.type_name, named.plans

    def find(document: Any) -> ObjectPlan:
        name = type_name(document)
        found = plans.get(name)
        return abstract.plan_of(object_type(plan, name)) if found is None else found

    return find


def known_plan(plan: Plan, shape: Abstract, value: Any) -> ObjectPlan | None:
    """Returns the plan of a document, or of an instance of a member of a union; None if it needs `resolve_type`."""
    if shape.type_name is not None:
        return shape.plan_of(object_type(plan, shape.type_name(value)))
    name = shape.members.get(value.__class__)
    if name is None or get_strawberry_type_cast(value) is not None:
        return None
    return shape.plan_of(object_type(plan, name))


def complete_leaf(shape: Leaf, value: Any) -> Any:
    coerced = shape.type.coerce_output_value(value)
    if is_undecodable(coerced):
        raise undecodable_error(shape.type)
    if coerced is Undefined or coerced is None:
        raise TypeError(
            f"Expected `{inspect(shape.type)}.coerce_output_value({inspect(value)})` to return non-nullable value, "
            f"returned: {inspect(coerced)}"
        )
    return coerced


def undecodable_error(leaf: GraphQLLeafType) -> GraphQLError:
    return GraphQLError(f"{leaf.name} cannot represent text that is not valid UTF-8.")


class NullValue(TypeError):
    """A value is null although its type does not allow that. The text and the base are graphql-core's."""


def null_error(field: FieldPlan) -> NullValue:
    return NullValue(f"Cannot return null for non-nullable field {field.parent}.{field.name}.")


def object_type(plan: Plan, name: str) -> GraphQLObjectType:
    found = plan.schema.type_map[name]
    assert isinstance(found, GraphQLObjectType)
    return found


def runtime_type(plan: Plan, field: FieldPlan, shape: Abstract, name: Any, value: Any) -> GraphQLObjectType:
    abstract = shape.type
    where = f"to an Object type at runtime for field '{field.parent}.{field.name}'"
    if name is None:
        problem = (
            f"Abstract type '{abstract}' must resolve {where}. Either the '{abstract}' type should provide a "
            "'resolve_type' function or each possible type should provide an 'is_type_of' function."
        )
    elif not isinstance(name, str):
        problem = (
            f"Abstract type '{abstract}' must resolve {where} with value {inspect(value)}, received '{inspect(name)}', "
            "which is not a valid Object type name."
        )
    elif (found := plan.schema.get_type(name)) is None:
        problem = f"Abstract type '{abstract}' was resolved to a type '{name}' that does not exist inside the schema."
    elif not isinstance(found, GraphQLObjectType):
        problem = f"Abstract type '{abstract}' was resolved to a non-object type '{name}'."
    elif not plan.schema.is_sub_type(abstract, found):
        problem = f"Runtime Object type '{found}' is not a possible type for '{abstract}'."
    else:
        return found
    raise GraphQLError(problem, field.nodes)


def close(awaited: Any) -> None:
    """Closes an awaitable that is never awaited."""
    if isinstance(awaited, asyncio.Future):
        awaited.cancel()
    elif hasattr(awaited, "close"):
        awaited.close()


async def collect_list(values: AsyncIterable[Any]) -> list[Any]:
    return [value async for value in values]
