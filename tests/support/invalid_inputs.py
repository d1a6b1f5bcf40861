"""Invalid values for each argument of a mutation, by the types of the schema."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from graphql import (
    GraphQLEnumType,
    GraphQLInputObjectType,
    GraphQLList,
    GraphQLScalarType,
    get_nullable_type,
    is_required_input_field,
)

# A place in an input: the names of fields, and positions in lists.
Place = tuple[str | int, ...]
# Values that no rule of any domain allows everywhere, by the name of the scalar.
WRONG: dict[str, tuple[Any, ...]] = {
    "String": ("", "\0", "x" * 300_000),
    "Int": (-1, 0, 2_000_000_000),
    "BigInt": (-1, 2**62),
    "Float": (-1e9, 1e300),
    "JSON": ([],),
    "DateTime": ("1900-01-01T00:00:00.000Z",),
}
VALID: dict[str, Any] = {
    "String": "a",
    "ID": "x",
    "Int": 1,
    "BigInt": 1,
    "Float": 1.0,
    "Boolean": True,
    "JSON": {},
    "DateTime": "2026-01-01T00:00:00.000Z",
}
KEYS = {"idempotencyKey"}


def leaves(shown_as: Any, given: Any, place: Place = ()) -> Iterator[tuple[Place, tuple[Any, ...]]]:
    """Yields the place of each scalar of an input, also of those that it leaves out, with wrong values for it."""
    shown_as = get_nullable_type(shown_as)
    if isinstance(shown_as, GraphQLList):
        entries = given if isinstance(given, list) and given else [None]
        for number, entry in enumerate(entries[:1]):
            yield from leaves(shown_as.of_type, entry, (*place, number))
    elif isinstance(shown_as, GraphQLInputObjectType):
        for name, field in shown_as.fields.items():
            is_given = isinstance(given, dict) and name in given
            if name not in KEYS and (is_given or not shown_as.is_one_of):
                yield from leaves(field.type, given[name] if is_given else None, (*place, name))
    elif isinstance(shown_as, GraphQLScalarType) and shown_as.name in WRONG:
        yield place, WRONG[shown_as.name]


def changed(shown_as: Any, given: Any, values: dict[Place, Any]) -> Any:
    """Returns a copy of the input with these values, and with valid ones for what else they need."""
    found = copy.deepcopy(given)
    for place, value in values.items():
        found = _put(shown_as, found, place, value)
    return found


def _put(shown_as: Any, given: Any, place: Place, value: Any) -> Any:
    if not place:
        return value
    shown_as = get_nullable_type(shown_as)
    step, *rest = place
    if isinstance(shown_as, GraphQLList):
        entries = list(given or [None])
        entries[int(step)] = _put(shown_as.of_type, entries[int(step)], tuple(rest), value)
        return entries
    found = filled(shown_as) if given is None else dict(given)
    found[step] = _put(shown_as.fields[step].type, found.get(step), tuple(rest), value)
    return found


def filled(shown_as: Any) -> Any:
    """Returns a valid value of an input type, with its required fields only."""
    shown_as = get_nullable_type(shown_as)
    if isinstance(shown_as, GraphQLList):
        return [filled(shown_as.of_type)]
    if isinstance(shown_as, GraphQLEnumType):
        return next(iter(shown_as.values))
    if isinstance(shown_as, GraphQLInputObjectType):
        required = [(name, field.type) for name, field in shown_as.fields.items() if is_required_input_field(field)]
        return {name: filled(kind) for name, kind in required}
    return VALID[shown_as.name]
