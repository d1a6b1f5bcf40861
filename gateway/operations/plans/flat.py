"""Compiles Python functions that make answers from documents, one function for each selection.

A function makes the whole flat part of an answer in one expression. A field whose value already has the right type
needs no function call. If a value does not fit its type, the function raises some exception, and `run` completes the
object again field by field, which reports the error as the specification says.

Each function also counts the texts of its answer in `n`, see `Size`. Stored texts are counted after the whole object,
because the answer only references them. A computed text takes memory, so it is counted at once. Other functions count
no stored texts, for documents that are shown once (`fresh`), or whose size is bounded (`related`).

The generated source contains no text of a client, except response names as literals made by `repr`. All other values
are bound to generated names.

With closures, one for each field, the benchmark's page takes 1.5 to 2 times as long (see docs/performance.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
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
from portico.schema.kinds import Kind, types_of
from portico.schema.scalars import BIG, check_big_int

from .flat_ids import id_expression
from .flat_values import Unfit, coercion, counted_texts, each, required, sequence, some_texts, unfit
from .plan import (
    Abstract,
    Complete,
    CompleteAll,
    Completers,
    FieldPlan,
    Leaf,
    ListOf,
    NonNull,
    Object,
    ObjectPlan,
    Shape,
    is_flat,
    is_plain,
    named_shape,
)

_MIN_INT, _MAX_INT = -(2**31), 2**31 - 1
# The ranges in which our own integer scalars return a value unchanged.
_BOUNDS: dict[Any, tuple[int, int]] = {check_big_int: (-BIG, BIG)}
# The most compiled sources in the cache.
_MAX_CODE = 2_000


_TEXTS = {GraphQLString, GraphQLID}
# The leaves whose values are always short. An ID is built from a key.
_SHORT = {GraphQLID, GraphQLInt, GraphQLFloat, GraphQLBoolean}


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
        self.names: dict[str, Any] = {"Mapping": Mapping, "NOTHING": {}, "Unfit": Unfit, "join": "".join}
        # The names of the texts that are not counted, by what was read.
        self.texts: dict[tuple[str, GraphQLLeafType, bool], str] = {}
        self._count = 0

    def new(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, value: Any) -> str:
        name = self.new("c")
        self.names[name] = value
        return name

    def function(self, name: str) -> Any:
        exec(_code("\n".join(self.lines)), self.names)  # noqa: S102 - its text is all our own
        return self.names[name]


def completer(plan: ObjectPlan) -> Complete:
    """Returns the function that makes the answer of a document. The fields that are not flat are null in it."""
    if plan.complete is None:
        source = _Source(is_counted=plan.is_counted)
        plan.complete = source.function(_object_function(source, plan))
    made: Complete = plan.complete
    return made


def compile_related(shape: Shape, kind: Kind, schema: GraphQLSchema) -> Completers | None:
    """Returns the functions that make answers of related documents; None if these need more than the documents."""
    named = named_shape(shape)
    if isinstance(named, Object):
        if not is_flat(named):
            return None
        plan = named.plan
        if not is_plain(plan):
            return Completers(completer(plan), None)
        # Few answers need to be counted, so the function that counts is compiled when one does.
        return Completers(_counting(plan), _loop(plan, is_counted=False))
    if not isinstance(named, Abstract) or named.type_name is None:
        return None
    plans = {found.name: named.plan_of(found) for found in types_of(schema, kind)}
    if any(plan.rest or plan.type.is_type_of for plan in plans.values()):
        return None
    type_name = named.type_name
    by_type = {name: completer(plan) for name, plan in plans.items()}

    def complete_one(document: Any, size: Size) -> dict[str, Any]:
        return by_type[type_name(document)](document, size)

    return Completers(complete_one, None)


def _counting(plan: ObjectPlan) -> Complete:
    def complete(document: Any, size: Size) -> dict[str, Any]:
        return completer(plan)(document, size)

    return complete


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
    if not (texts and source.is_counted):
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
        elif field.id_of is not None and names is None:
            value = id_expression(source.names, *field.id_of, document)
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
            return _list(source, item, read, is_required=is_required, counts=texts is None or source.is_counted)
        case Object(plan=plan):
            value = source.new("v")
            answer = _answer(source, plan, value, None, texts)
            # The selection may read nothing of the object, so this checks for null.
            missing = f"{source.bind(unfit)}()" if is_required else "None"
            return f"({missing} if ({value} := {read}) is None else {answer})"
        case _:
            raise AssertionError(inner)


def _leaf(
    source: _Source, leaf: GraphQLLeafType, read: str, texts: dict[str, bool] | None, *, is_required: bool
) -> str:
    if leaf in _TEXTS and texts is not None and not source.is_counted:
        return _text(source, leaf, read, is_required=is_required)
    value = source.new("v")
    if leaf is GraphQLString:
        if texts is not None:
            texts[value] = is_required
        return ("n.added" if texts is None else "") + _string(value, read, is_required=is_required)
    slow = source.bind(coercion(leaf, is_required=is_required))
    if leaf is GraphQLID:
        return f"({value} if ({value} := {read}).__class__ is str else {slow}({value}))"
    bounds = (_MIN_INT, _MAX_INT) if leaf is GraphQLInt else _BOUNDS.get(leaf.coerce_output_value)
    if leaf is GraphQLBoolean or bounds is not None:
        in_bounds = f" and {bounds[0]} <= {value} <= {bounds[1]}" if bounds else ""
        of_class = "int" if bounds else "bool"
        return f"({value} if ({value} := {read}).__class__ is {of_class}{in_bounds} else {slow}({value}))"
    is_shown_once = texts is not None and not source.is_counted
    if is_short(leaf) or (leaf.name == "JSON" and is_shown_once):
        return f"{slow}({read})"
    return f"n.added({slow}({read}))"


def _text(source: _Source, leaf: GraphQLLeafType, read: str, *, is_required: bool) -> str:
    """Returns the expression of a text that is not counted. What reads the same again uses its value."""
    known = source.texts.get((read, leaf, is_required))
    if known is not None:
        return known
    value = source.texts[read, leaf, is_required] = source.new("v")
    if leaf is GraphQLString:
        return _string(value, read, is_required=is_required)
    slow = source.bind(coercion(leaf, is_required=is_required))
    return f"({value} if ({value} := {read}).__class__ is str else ({value} := {slow}({value})))"


def _string(value: str, read: str, *, is_required: bool) -> str:
    """Returns the expression of a string, which is at this name afterwards.

    Adding an empty text fails for anything else, so that `run` coerces it. It takes a third of the time of a comparison
    of the class.
    """
    if is_required:
        return f"({value} := {read} + '')"
    return f"(None if ({value} := {read}) is None else {value} + '')"


def is_short(leaf: GraphQLLeafType) -> bool:
    """Returns whether all values of the type are short."""
    return leaf in _SHORT or isinstance(leaf, GraphQLEnumType) or leaf.name in {"BigInt", "DateTime"}


def _list(source: _Source, item: Shape, read: str, *, is_required: bool, counts: bool) -> str:
    """Returns the expression of a completed list. A loop is a function: those in an expression cannot assign names."""
    inner = item.inner if isinstance(item, NonNull) else None
    value = source.new("v")
    if isinstance(inner, Leaf) and inner.type in _TEXTS:
        slow = source.bind(sequence(counted_texts if counts else some_texts, is_required=is_required))
        if counts:
            return f"{slow}({read}, n)"
        # `join` fails if one of them is no text.
        return (
            f"({value} if ({value} := {read}).__class__ is list and join({value}) is not None else {slow}({value}, n))"
        )
    if isinstance(inner, Object) and _refuses_null(inner.plan):
        complete = _loop(inner.plan, is_counted=counts)
    else:
        complete = each(_item(item))
    slow = source.bind(sequence(complete, is_required=is_required))
    fast = source.bind(complete)
    return f"({fast}({value}, n) if ({value} := {read}).__class__ is list else {slow}({value}, n))"


def _loop(plan: ObjectPlan, *, is_counted: bool) -> CompleteAll:
    """Returns a function that makes the answers of the objects in a list, without a call for each."""
    source = _Source(is_counted=is_counted)
    body, answer, length = _statements(source, plan)
    name = source.new("objects")
    source.lines += [f"def {name}(values, n):", "    found = []", "    size = 0", "    for d in values:"]
    source.lines += [f"        {line}" for line in (*body, f"found.append({answer})")]
    source.lines += [f"        size += {length}", "    n[0] += size"] if length else []
    source.lines += ["    return found"]
    made: CompleteAll = source.function(name)
    return made


def _item(item: Shape) -> Callable[[Any, Size], Any]:
    is_required = isinstance(item, NonNull)
    inner = item.inner if isinstance(item, NonNull) else item
    source = _Source()
    match inner:
        case Object(plan=plan) if is_required:
            return required(completer(plan))
        case _:
            name = source.new("item")
            source.lines += [f"def {name}(d, n):", f"    return {_value(source, item, 'd', None)}"]
            made: Callable[[Any, Size], Any] = source.function(name)
            return made


def _refuses_null(plan: ObjectPlan) -> bool:
    """Returns whether the function of an object fails for null. It does not if it reads nothing of the document."""
    return any(field.is_flat and field.path is not None and field.path.count(".") <= 1 for field in plan.fields)
