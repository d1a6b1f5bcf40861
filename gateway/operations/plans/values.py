"""Completes single values as the specification says: leaves, nulls, types of objects, keys. Error texts are
graphql-core's.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any

from graphql import GraphQLError, GraphQLLeafType, GraphQLObjectType, Undefined
from graphql.pyutils import inspect

from portico.resolvers.answer_bounds import Meter, Size
from portico.resolvers.errors import NotFound
from portico.resolvers.undecodable import is_undecodable
from portico.schema.nodes import require_decodable

from .places import Place
from .plan import Abstract, FieldPlan, Leaf, NonNull, Object, ObjectPlan, Plan, Relation, Shape

# The answer of a document, with its size.
Sized = tuple[Any, float]
# A relation to read: (its field, the keys in the parent document, the answer that gets the value, the place of that
# answer). A plain tuple, because each relation of each row has one: a NamedTuple takes seven times as long to build.
RelationEntry = tuple[FieldPlan, Any, dict[str, Any], Place | None]
# A relation with the numbers of its keys among all keys that are read together.
Numbered = tuple[RelationEntry, list[int]]


def place_of(entry: RelationEntry) -> Place:
    field, _, answer, place = entry
    return place, answer, field.response_name, field.is_nullable, field.parent.name


def collect_keys(
    entries: Sequence[RelationEntry], *, has_undecodable: bool
) -> tuple[dict[Any, int], list[Numbered], list[tuple[RelationEntry, Exception]]]:
    """Returns all keys with their numbers, the relations that have them, and the relations with unusable keys and their
    errors. With `has_undecodable`, a key can be text that is not valid UTF-8.
    """
    keys: dict[Any, int] = {}
    number_of = keys.setdefault
    fit: list[Numbered] = []
    unfit: list[tuple[RelationEntry, Exception]] = []
    for entry in entries:
        field, found, _, _ = entry
        before = len(keys)
        try:
            if has_undecodable:
                require_decodable(found)
            # Hashes each key once: an ObjectId is slow to hash. The rest of the work uses the numbers.
            if field.relation.many:  # type: ignore[union-attr]
                numbers = [number_of(key, len(keys)) for key in found]
            else:
                numbers = [number_of(found, len(keys))]
        except (TypeError, GraphQLError) as error:
            unfit.append((entry, error))
            for key in list(keys)[before:]:
                del keys[key]
        else:
            fit.append((entry, numbers))
    return keys, fit, unfit


def _in_order(documents: Mapping[Any, Any], keys: Mapping[Any, int]) -> list[Any]:
    """Returns the document of each key, or None, by the numbers of the keys."""
    if len(documents) == len(keys) and all(map(is_, documents, keys)):
        return list(documents.values())
    return [documents.get(key) for key in keys]


def complete_flat(relation: Relation, documents: Sequence[Any], most: float) -> list[Sized | None] | None:
    """Returns the answers of related documents in their order, with their sizes. Relations to the same document share
    its answer.

    None if there is no compiled function for them, or a document does not fit its type.
    """
    complete = relation.complete_one
    if complete is None:
        return None
    if relation.is_checked and any(isinstance(document, Exception) for document in documents):
        return None
    done: list[Sized | None] = []
    size = Size(most)
    try:
        for document in documents:
            if document is None:
                done.append(None)
            else:
                size[0] = 0
                done.append((complete(document, size), size[0]))
    except Exception:  # noqa: BLE001 - completing field by field raises it again, and reports it
        return None
    return done


def place_related(
    entries: Iterable[Numbered], documents: Mapping[Any, Any], keys: Mapping[Any, int], meter: Meter
) -> Iterator[RelationEntry]:
    """Puts the answers of related documents into their places, and counts them. Yields the relations that must be
    completed field by field.
    """
    if meter.has_undecodable:
        # Only completing field by field checks the texts.
        yield from (entry for entry, _ in entries)
        return
    size = meter.size
    found = _in_order(documents, keys)
    completed: dict[Any, list[Sized | None] | None] = {}
    for entry, numbers in entries:
        field, _, answer, _ = entry
        relation = field.relation
        assert relation is not None
        if relation.complete_one not in completed:
            completed[relation.complete_one] = complete_flat(relation, found, size[1])
        done = completed[relation.complete_one]
        if done is None or not (relation.many or done[numbers[0]] is not None):
            yield entry
            continue
        shown = [one for number in numbers if (one := done[number]) is not None]
        before = size[0]
        total = before + sum([length for _, length in shown])
        if total > size[1]:
            # Finds the field where the answer becomes too large.
            yield entry
            continue
        size[0] = total
        answers = [one for one, _ in shown]
        answer[field.response_name] = answers if relation.many else answers[0]


def related_value(field: FieldPlan, relation: Relation, keys: Any, documents: Any) -> Any:
    """Returns the related document or documents. Raises NotFound for a missing one, if the field is not nullable."""
    if relation.many:
        return [document for key in keys if (document := documents.get(key)) is not None]
    document = documents.get(keys)
    if document is None and not field.is_nullable:
        raise NotFound(relation.kind)
    return document


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
