"""Completes the documents of a list together: a page has dozens, and each does the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from portico.resolvers.answer_bounds import Size

from .flat import completer
from .flat_values import Unfit
from .places import Place
from .plan import Abstract, ListOf, NonNull, Object, ObjectPlan
from .related import RelationEntry

_LISTS = (list, tuple)


class Rows(NamedTuple):
    """The answers of the documents, and their relations, which are still to be read."""

    completed: list[Any]
    relations: list[RelationEntry]


def complete_rows(
    shape: ListOf, plan_of: Callable[[Any], ObjectPlan], values: Sequence[Any], here: Place, size: Size
) -> Rows | None:
    """Returns the answers of documents; None, and counts nothing, if one of them needs more than its flat fields and
    its relations, or does not fit its type.
    """
    before = size[0]
    rows = Rows([], [])
    try:
        _complete(shape, plan_of, values, here, size, rows)
        size.require()
    except Exception:  # noqa: BLE001 - completing one by one raises it again, and reports it
        size[0] = before
        return None
    return rows


def _complete(
    shape: ListOf,
    plan_of: Callable[[Any], ObjectPlan],
    values: Sequence[Any],
    here: Place,
    size: Size,
    rows: Rows,
) -> None:
    named = shape.item.inner if isinstance(shape.item, NonNull) else shape.item
    of_type = named.plan if isinstance(named, Object) else None
    plans, type_name = ({}, None) if not isinstance(named, Abstract) else (named.plans, named.type_name)
    (completed, relations), is_nullable = rows, shape.is_nullable
    for index, value in enumerate(values):
        if value.__class__ is not dict:
            raise Unfit
        plan = of_type or (type_name and plans.get(type_name(value))) or plan_of(value)
        answer = (plan.complete or completer(plan))(value, size)
        completed.append(answer)
        for field in plan.rest:
            relation = field.relation
            if relation is None:
                raise Unfit
            keys = value.get(relation.path) if relation.is_own else relation.keys_of(value)
            if keys:
                relations.append((field, keys, answer, (here, completed, index, is_nullable, None)))
            elif relation.many and (keys is None or keys.__class__ in _LISTS):
                answer[field.response_name] = []
            else:
                raise Unfit
