"""What the specification says of single values: leaves, nulls, types of objects. The texts are graphql-core's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Iterable
from typing import Any

from graphql import GraphQLError, GraphQLObjectType, Undefined
from graphql.pyutils import inspect

from .plan import Abstract, FieldPlan, Leaf, Plan


def complete_flat(field: FieldPlan, keys: Any, documents: Any, answer: dict[str, Any], done: dict[Any, Any]) -> bool:
    """Answers related documents by the compiled function. False where that does not do, and nothing was changed.

    What refers to the same document shares its answer.
    """
    relation = field.relation
    assert relation is not None
    complete = relation.complete_one
    if complete is None:
        return False
    try:
        if not relation.many:
            document = documents.get(keys)
            if document is None:
                return False
            if keys not in done:
                done[keys] = complete(document)
            answer[field.response_name] = done[keys]
            return True
        completed = []
        for key in keys:
            found = done.get(key)
            if found is None:
                document = documents.get(key)
                if document is None:
                    continue
                found = done[key] = complete(document)
            completed.append(found)
    except Exception:  # noqa: BLE001 - field by field it is found again, and reported
        return False
    answer[field.response_name] = completed
    return True


def existing(keys: Iterable[Any], documents: Any) -> list[Any]:
    return [document for key in keys if (document := documents.get(key)) is not None]


def completed_leaf(shape: Leaf, value: Any) -> Any:
    coerced = shape.type.coerce_output_value(value)
    if coerced is Undefined or coerced is None:
        raise TypeError(
            f"Expected `{inspect(shape.type)}.coerce_output_value({inspect(value)})` to return non-nullable value, "
            f"returned: {inspect(coerced)}"
        )
    return coerced


def null_error(field: FieldPlan) -> TypeError:
    return TypeError(f"Cannot return null for non-nullable field {field.parent}.{field.name}.")


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
    """Nobody is going to wait for it."""
    if isinstance(awaited, asyncio.Future):
        awaited.cancel()
    elif hasattr(awaited, "close"):
        awaited.close()


async def collected(values: AsyncIterable[Any]) -> list[Any]:
    return [value async for value in values]
