"""Documents to answers: Python functions, written for a selection and compiled.

Each function makes the whole flat part of an answer in one expression: no call for a field whose value is of the right
type already. It reports nothing: where a value is not what its type wants it raises, whatever it may be, and `run`
goes through the object again field by field, as the specification has it.

Nothing of a client's text becomes part of the source: names in answers are literals made by `repr`, all else is bound
by generated names.

The same as closures, one for a field, took 1.5 to 2 times as long on the benchmark's page (see docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from types import CodeType
from typing import Any

from graphql import (
    GraphQLBoolean,
    GraphQLID,
    GraphQLInt,
    GraphQLLeafType,
    GraphQLSchema,
    GraphQLString,
)

from portico.schema.fields import Getter
from portico.schema.nodes import Kind, types_of
from portico.schema.scalars import BIG, check_big_int

from .plan import Abstract, FieldPlan, Leaf, ListOf, NonNull, Object, ObjectPlan, Shape, is_flat, named_shape

Complete = Callable[[Any], dict[str, Any]]

_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
# Whole numbers that a scalar of our own takes as they are.
_BOUNDS: dict[Any, tuple[int, int]] = {check_big_int: (-BIG, BIG)}


_MAX_CODE = 2_000


class Unfit(Exception):
    """A value is not what its type wants."""


@lru_cache(maxsize=_MAX_CODE)
def _code(text: str) -> CodeType:
    """Python's compiler takes most of the time of a plan. The same selection makes the same text in any operation."""
    return compile(text, "<plan>", "exec")


class _Source:
    """The text of one module of functions, and what its names stand for."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"Mapping": Mapping, "NOTHING": {}, "Unfit": Unfit}
        self._count = 0

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, value: Any) -> str:
        name = self.new("c")
        self.names[name] = value
        return name

    def function(self, name: str) -> Complete:
        exec(_code("\n".join(self.lines)), self.names)  # noqa: S102 - its text is all our own
        made: Complete = self.names[name]
        return made


def completer(plan: ObjectPlan) -> Complete:
    """Returns the function that makes the answer of a document; what is not flat is null in it, in its place."""
    if plan.complete is None:
        source = _Source()
        plan.complete = source.function(_object_function(source, plan))
    return plan.complete


def compile_related(shape: Shape, kind: Kind, schema: GraphQLSchema) -> Complete | None:
    """Returns a function that makes the answer of one related document; None where it needs more than the document."""
    named = named_shape(shape)
    if isinstance(named, Object):
        return completer(named.plan) if is_flat(named) else None
    if not isinstance(named, Abstract) or named.type_name is None:
        return None
    plans = {found.name: named.plan_of(found) for found in types_of(schema, kind)}
    if any(plan.rest or plan.type.is_type_of for plan in plans.values()):
        return None
    by_type = {name: completer(plan) for name, plan in plans.items()}
    type_name = named.type_name
    return lambda document: by_type[type_name(document)](document)


def _object_function(source: _Source, plan: ObjectPlan) -> str:
    """Writes the function of an object, after those that it calls. Returns its name."""
    body: list[str] = []
    answer = _answer(source, plan, "d", body)
    name = source.new("object")
    source.lines += [f"def {name}(d):", *(f"    {line}" for line in body), f"    return {answer}"]
    return name


def _answer(source: _Source, plan: ObjectPlan, document: str, body: list[str] | None) -> str:
    """Returns the expression of an answer. `body` takes statements before it; None where there is no place for any."""
    embedded: dict[str, str] = {}
    items = []
    for field in plan.fields:
        value = (
            "None" if not field.is_flat else _value(source, field.shape, _read(source, field, document, body, embedded))
        )
        items.append(f"{field.response_name!r}: {value}")
    return "{" + ", ".join(items) + "}"


def _read(source: _Source, field: FieldPlan, document: str, body: list[str] | None, embedded: dict[str, str]) -> str:
    """Returns the expression of a field's value as it is stored."""
    if field.name == "__typename":
        return repr(field.parent.name)
    parts = () if field.path is None else tuple(field.path.split("."))
    if len(parts) == 1:
        found = f"{document}.get({parts[0]!r})"
    elif len(parts) == 2 and body is not None:  # noqa: PLR2004
        found = f"{_embedded(source, parts[0], document, body, embedded)}.get({parts[1]!r})"
    else:
        return f"{source.bind(field.read)}({document})"
    if field.default is None:
        return found
    value = source.new("v")
    return f"({source.bind(field.default)} if ({value} := {found}) is None else {value})"


def _embedded(source: _Source, name: str, document: str, body: list[str], embedded: dict[str, str]) -> str:
    """Returns a name for an embedded document, which several fields read; an empty one where there is none."""
    if name not in embedded:
        made = embedded[name] = source.new("e")
        body.append(f"{made} = {document}.get({name!r})")
        body.append(f"if {made}.__class__ is not dict: {made} = {made} if isinstance({made}, Mapping) else NOTHING")
    return embedded[name]


def _value(source: _Source, shape: Shape, read: str) -> str:
    """Returns the expression of a completed value."""
    is_required = isinstance(shape, NonNull)
    inner = shape.inner if isinstance(shape, NonNull) else shape
    match inner:
        case Leaf(type=leaf):
            return _leaf(source, leaf, read, is_required=is_required)
        case ListOf(item=item):
            return f"{source.bind(_list(item, is_required=is_required))}({read})"
        case Object(plan=plan):
            value = source.new("v")
            answer = _answer(source, plan, value, None)
            # Nothing selected on it may read it at all.
            missing = f"{source.bind(_unfit)}()" if is_required else "None"
            return f"({missing} if ({value} := {read}) is None else {answer})"
        case _:
            raise AssertionError(inner)


def _leaf(source: _Source, leaf: GraphQLLeafType, read: str, *, is_required: bool) -> str:
    slow = source.bind(_coercion(leaf, is_required=is_required))
    value = source.new("v")
    if leaf in {GraphQLString, GraphQLID}:
        return f"({value} if ({value} := {read}).__class__ is str else {slow}({value}))"
    if leaf is GraphQLBoolean:
        return f"({value} if ({value} := {read}).__class__ is bool else {slow}({value}))"
    bounds = _BOUNDS.get(leaf.coerce_output_value)
    if leaf is GraphQLInt:
        bounds = (_MIN_INT, _MAX_INT)
    if bounds is not None:
        fits = f"({value} := {read}).__class__ is int and {bounds[0]} <= {value} <= {bounds[1]}"
        return f"({value} if {fits} else {slow}({value}))"
    return f"{slow}({read})"


def _coercion(leaf: GraphQLLeafType, *, is_required: bool) -> Getter:
    coerce = leaf.coerce_output_value

    def coerced(value: Any) -> Any:
        if value is None and not is_required:
            return None
        if value is None or isinstance(value, Exception):
            raise Unfit
        found = coerce(value)
        if found is None:
            raise Unfit
        return found

    return coerced


def _list(item: Shape, *, is_required: bool) -> Getter:
    """Returns a function that completes a list. It stands by itself, for an expression in a loop cannot name its values."""
    required_text = isinstance(item, NonNull) and isinstance(item.inner, Leaf) and item.inner.type in _TEXTS
    complete = None if required_text else _item(item)

    def completed(values: Any) -> Any:
        if values is None and not is_required:
            return None
        if values.__class__ is not list and not isinstance(values, list | tuple):
            raise Unfit
        if complete is not None:
            return [complete(value) for value in values]
        for value in values:
            if value.__class__ is not str:
                raise Unfit
        return list(values)

    return completed


_TEXTS = {GraphQLString, GraphQLID}


def _item(item: Shape) -> Getter:
    is_required = isinstance(item, NonNull)
    inner = item.inner if isinstance(item, NonNull) else item
    source = _Source()
    match inner:
        case Object(plan=plan) if is_required:
            # Where nothing reads the document, null must not pass for one.
            return _required(completer(plan))
        case Leaf(type=leaf):
            return _coercion(leaf, is_required=is_required)
        case _:
            name = source.new("item")
            source.lines += [f"def {name}(d):", f"    return {_value(source, item, 'd')}"]
            return source.function(name)


def _required(complete: Complete) -> Getter:
    def completed(value: Any) -> Any:
        if value is None:
            raise Unfit
        return complete(value)

    return completed


def _unfit() -> None:
    raise Unfit
