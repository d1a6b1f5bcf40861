"""Compiles Python functions that make answers from documents, one function for each selection.

A function makes the whole flat part of an answer in one expression. A field whose value already has the right type
needs no function call. If a value does not fit its type, the function raises some exception, and `run` completes the
object again field by field, which reports the error as the specification says.

Each function also counts the texts of its answer in `n`, see `Size`. Stored texts are counted after the whole object,
because the answer only references them. A computed text takes memory, so it is counted at once.

The generated source contains no text of a client, except response names as literals made by `repr`. All other values
are bound to generated names.

With closures, one for each field, the benchmark's page takes 1.5 to 2 times as long (see docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from graphql import (
    GraphQLBoolean,
    GraphQLEnumType,
    GraphQLFloat,
    GraphQLID,
    GraphQLInt,
    GraphQLLeafType,
    GraphQLSchema,
    GraphQLString,
)

from portico.resolvers.answer_bounds import Size
from portico.schema.fields import Getter
from portico.schema.kinds import Kind, types_of
from portico.schema.scalars import BIG, check_big_int

from .plan import Abstract, FieldPlan, Leaf, ListOf, NonNull, Object, ObjectPlan, Shape, is_flat, named_shape

Complete = Callable[[Any, Size], dict[str, Any]]

_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
# The ranges in which our own integer scalars return a value unchanged.
_BOUNDS: dict[Any, tuple[int, int]] = {check_big_int: (-BIG, BIG)}
# The most compiled sources in the cache.
_MAX_CODE = 2_000


_TEXTS = {GraphQLString, GraphQLID}
# The leaves whose values are always short. An ID is built from a key.
_SHORT = {GraphQLID, GraphQLInt, GraphQLFloat, GraphQLBoolean}


class Unfit(Exception):
    """A value does not fit its type."""


@lru_cache(maxsize=_MAX_CODE)
def _code(text: str) -> CodeType:
    """Compiles source text, and caches the result: this is most of the time to make a plan. The same selection has the
    same text in any operation.
    """
    return compile(text, "<plan>", "exec")


class _Source:
    """The source text of some functions, and the values of its names."""

    def __init__(self, *, is_counted: bool = True) -> None:
        self.lines: list[str] = []
        self.is_counted = is_counted
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
    """Returns the function that makes the answer of a document. The fields that are not flat are null in it."""
    if plan.complete is None:
        source = _Source(is_counted=plan.is_counted)
        plan.complete = source.function(_object_function(source, plan))
    return plan.complete


def compile_related(shape: Shape, kind: Kind, schema: GraphQLSchema) -> Complete | None:
    """Returns a function that makes the answer of one related document; None if that needs more than the document."""
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
    return lambda document, size: by_type[type_name(document)](document, size)


def _object_function(source: _Source, plan: ObjectPlan) -> str:
    """Writes the function of an object, after the functions that it calls. Returns its name."""
    body, answer, length = _statements(source, plan)
    name = source.new("object")
    if length:
        body += [f"a = {answer}", f"n[0] += {length}"]
        answer = "a"
    source.lines += [f"def {name}(d, n):", *(f"    {line}" for line in body), f"    return {answer}"]
    return name


def _statements(source: _Source, plan: ObjectPlan) -> tuple[list[str], str, str]:
    """Returns the statements that must run before the answer, its expression, and that of the length of its texts."""
    body: list[str] = []
    texts: dict[str, bool] = {}
    answer = _answer(source, plan, "d", body, texts)
    if not (texts and plan.is_counted):
        return body, answer, ""
    # An embedded object may be missing, and then its texts get no value.
    body.insert(0, " = ".join([*texts, "''"]))
    lengths = [
        f"len({text})" if is_required else f"(len({text}) if {text} else 0)" for text, is_required in texts.items()
    ]
    return body, answer, " + ".join(lengths)


def _answer(
    source: _Source,
    plan: ObjectPlan,
    document: str,
    body: list[str] | None,
    texts: dict[str, bool] | None,
    names: Mapping[str, str] | None = None,
) -> str:
    """Returns the expression of an answer. Appends statements that must run first to `body`, unless that is None.

    Adds the names of its texts to `texts`, each with whether it cannot be null. With None, the answer counts them.
    With `names`, the values are at other names of the document.
    """
    embedded: dict[str, str] = {}
    items = []
    for field in plan.fields:
        composed = _composed(field)
        if field.name == "__typename":
            value = repr(field.parent.name)
        elif composed is not None:
            value = _answer(source, composed, document, None, texts, field.names)
        elif field.is_flat:
            read = _read(source, field, document, body, embedded, names)
            value = _value(source, field.shape, read, _counted_in(field, texts))
        else:
            value = "None"
        items.append(f"{field.response_name!r}: {value}")
    return "{" + ", ".join(items) + "}"


def _composed(field: FieldPlan) -> ObjectPlan | None:
    """Returns the plan of an object of values of the same document; None if its fields are anything but such values."""
    shape = field.shape.inner if isinstance(field.shape, NonNull) else field.shape
    if field.names is None or not isinstance(shape, Object) or not field.is_flat:
        return None
    inner = [one for one in shape.plan.fields if one.name != "__typename"]
    return shape.plan if all(one.path in field.names for one in inner) else None


def _counted_in(field: FieldPlan, texts: dict[str, bool] | None) -> dict[str, bool] | None:
    """Returns where the length of a field's text is counted. A value without a path is computed, and counts at once."""
    return None if field.path is None and isinstance(named_shape(field.shape), Leaf) else texts


def _read(
    source: _Source,
    field: FieldPlan,
    document: str,
    body: list[str] | None,
    embedded: dict[str, str],
    names: Mapping[str, str] | None,
) -> str:
    """Returns the expression of a field's stored value."""
    path = field.path if names is None or field.path is None else names[field.path]
    parts = () if path is None else tuple(path.split("."))
    if len(parts) == 1:
        is_required = isinstance(field.shape, NonNull) and isinstance(field.shape.inner, Leaf)
        if is_required and field.default is None:
            # A missing value fails, as null would.
            return f"{document}[{parts[0]!r}]"
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
    """Returns the name of a variable with an embedded document, which fields share. A missing document is empty."""
    if name not in embedded:
        made = embedded[name] = source.new("e")
        body.append(f"{made} = {document}.get({name!r})")
        body.append(f"if {made}.__class__ is not dict: {made} = {made} if isinstance({made}, Mapping) else NOTHING")
    return embedded[name]


def _value(source: _Source, shape: Shape, read: str, texts: dict[str, bool] | None) -> str:
    """Returns the expression of a completed value."""
    is_required = isinstance(shape, NonNull)
    inner = shape.inner if isinstance(shape, NonNull) else shape
    match inner:
        case Leaf(type=leaf):
            return _leaf(source, leaf, read, texts, is_required=is_required)
        case ListOf(item=item):
            counts = texts is None or source.is_counted
            return f"{source.bind(_list(item, is_required=is_required, counts=counts))}({read}, n)"
        case Object(plan=plan):
            value = source.new("v")
            answer = _answer(source, plan, value, None, texts)
            # The selection may read nothing of the object, so this checks for null.
            missing = f"{source.bind(_unfit)}()" if is_required else "None"
            return f"({missing} if ({value} := {read}) is None else {answer})"
        case _:
            raise AssertionError(inner)


def _leaf(
    source: _Source, leaf: GraphQLLeafType, read: str, texts: dict[str, bool] | None, *, is_required: bool
) -> str:
    slow = source.bind(_coercion(leaf, is_required=is_required))
    value = source.new("v")
    if leaf is GraphQLString and texts is None:
        return f"n.added({value} if ({value} := {read}).__class__ is str else {slow}({value}))"
    if leaf in _TEXTS:
        if leaf is GraphQLString and texts is not None:
            texts[value] = is_required
        return f"({value} if ({value} := {read}).__class__ is str else {slow}({value}))"
    if leaf is GraphQLBoolean:
        return f"({value} if ({value} := {read}).__class__ is bool else {slow}({value}))"
    bounds = _BOUNDS.get(leaf.coerce_output_value)
    if leaf is GraphQLInt:
        bounds = (_MIN_INT, _MAX_INT)
    if bounds is not None:
        fits = f"({value} := {read}).__class__ is int and {bounds[0]} <= {value} <= {bounds[1]}"
        return f"({value} if {fits} else {slow}({value}))"
    is_shown_once = texts is not None and not source.is_counted
    if is_short(leaf) or (leaf.name == "JSON" and is_shown_once):
        return f"{slow}({read})"
    return f"n.added({slow}({read}))"


def is_short(leaf: GraphQLLeafType) -> bool:
    """Returns whether all values of the type are short."""
    return leaf in _SHORT or isinstance(leaf, GraphQLEnumType) or leaf.name in {"BigInt", "DateTime"}


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


def _list(item: Shape, *, is_required: bool, counts: bool) -> Callable[[Any, Size], Any]:
    """Returns a function that completes a list. It is separate, because loops in an expression cannot assign names."""
    inner = item.inner if isinstance(item, NonNull) else None
    if isinstance(inner, Leaf) and inner.type in _TEXTS:
        return _texts(is_required=is_required, counts=counts)
    loops = isinstance(inner, Object) and _refuses_null(inner.plan)
    complete = _loop(inner.plan) if isinstance(inner, Object) and loops else _each(_item(item))

    def completed(values: Any, size: Size) -> Any:
        if values.__class__ is not list and not isinstance(values, list | tuple):
            return _none_unless(values, is_required=is_required)
        return complete(values, size)

    return completed


def _texts(*, is_required: bool, counts: bool) -> Callable[[Any, Size], Any]:
    """Returns a function that completes a list of texts. A page has many, so it calls no function of ours."""

    def completed(values: Any, size: Size) -> Any:
        if values.__class__ is not list and not isinstance(values, list | tuple):
            return _none_unless(values, is_required=is_required)
        # Fails if one of them is no text.
        joined = "".join(values)
        if counts:
            size[0] += len(joined)
        return list(values)

    return completed


def _none_unless(values: Any, *, is_required: bool) -> None:
    """Returns the answer of a value that is no list. Raises Unfit unless it is a null that may be there."""
    if values is not None or is_required:
        raise Unfit


def _each(complete: Callable[[Any, Size], Any]) -> Callable[[Sequence[Any], Size], list[Any]]:
    return lambda values, size: [complete(value, size) for value in values]


def _loop(plan: ObjectPlan) -> Callable[[Any, Size], Any]:
    """Returns a function that makes the answers of the objects in a list, without a call for each."""
    source = _Source(is_counted=plan.is_counted)
    body, answer, length = _statements(source, plan)
    name = source.new("objects")
    source.lines += [f"def {name}(values, n):", "    found = []", "    size = 0", "    for d in values:"]
    source.lines += [f"        {line}" for line in (*body, f"found.append({answer})", f"size += {length or 0}")]
    source.lines += ["    n[0] += size", "    return found"]
    return source.function(name)


def _item(item: Shape) -> Callable[[Any, Size], Any]:
    is_required = isinstance(item, NonNull)
    inner = item.inner if isinstance(item, NonNull) else item
    source = _Source()
    match inner:
        case Object(plan=plan) if is_required:
            return _required(completer(plan))
        case _:
            name = source.new("item")
            source.lines += [f"def {name}(d, n):", f"    return {_value(source, item, 'd', None)}"]
            return source.function(name)


def _refuses_null(plan: ObjectPlan) -> bool:
    """Returns whether the function of an object fails for null. It does not if it reads nothing of the document."""
    return any(field.is_flat and field.path is not None and field.path.count(".") <= 1 for field in plan.fields)


def _required(complete: Complete) -> Complete:
    def completed(value: Any, size: Size) -> Any:
        if value is None:
            raise Unfit
        return complete(value, size)

    return completed


def _unfit() -> None:
    raise Unfit
