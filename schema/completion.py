"""Documents to answers, by functions made once for an operation.

A field whose selection reaches only declared fields (stored, computed, related) is completed here: each selected field
becomes a function, and a document becomes an answer by calling them. Related documents are collected over the whole
field first, and then fetched a level at a time, one read however many documents refer to them.

Nothing here reports an error. A value that is not what its type wants, or a function that fails, raises `Unfinished`
(or whatever it raises), and graphql-core's own executor completes the same value again and reports what it finds. So
the answer is always graphql-core's, only sooner.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    GraphQLBoolean,
    GraphQLID,
    GraphQLInterfaceType,
    GraphQLLeafType,
    GraphQLList,
    GraphQLNonNull,
    GraphQLObjectType,
    GraphQLOutputType,
    GraphQLString,
    get_named_type,
    is_leaf_type,
)
from strawberry.schema.schema_converter import GraphQLCoreConverter

from loaders.batching import Loader

from .context import Context
from .fields import Computed, Getter, Related, Stored, declaration_of, getter
from .nodes import KINDS, types_of
from .selections import Selection

_BACKREF = GraphQLCoreConverter.DEFINITION_BACKREF


class Unfinished(Exception):
    """The value is not what its type wants."""


class _NotDeclared(Exception):
    """A selected field has a resolver of its own; graphql-core must call it."""


@dataclass(slots=True)
class Run:
    """One completion: the request's context, and the relations that are still to be fetched."""

    context: Context
    pending: list[tuple[_Relation, Any, dict[str, Any]]] = field(default_factory=list)


Finish = Callable[[Any, Run], Any]


@dataclass(frozen=True, slots=True, eq=False)
class _Relation:
    """A related field: where its answer goes, how its documents are read, and how each is completed."""

    response_name: str
    loader: Callable[[Context], Loader[Any, Any]]
    finish_one: Finish
    many: bool
    nullable: bool


def compiled(return_type: GraphQLOutputType, selection: Selection) -> Finish | None:
    """A function that completes values of this type; None where graphql-core must do it."""
    try:
        return _finish(return_type, selection)
    except _NotDeclared:
        return None


def complete(finish: Finish, value: Any, context: Context) -> Any | Awaitable[Any]:
    """The completed value, or an awaitable of it where related documents are to be fetched. Raises Unfinished."""
    run = Run(context)
    completed = finish(value, run)
    return _fetch_related(completed, run) if run.pending else completed


async def _fetch_related(completed: Any, run: Run) -> Any:
    while run.pending:
        level, run.pending = run.pending, []
        # Every key of the level is asked for before any answer is waited for: they go in one batch.
        asked = [
            [relation.loader(run.context).load(key) for key in (keys if relation.many else (keys,))]
            for relation, keys, _ in level
        ]
        for (relation, _, answer), answers in zip(level, asked, strict=True):
            found = [await document for document in answers]
            finished = [relation.finish_one(document, run) for document in found if document is not None]
            if relation.many:
                answer[relation.response_name] = finished
            elif finished:
                answer[relation.response_name] = finished[0]
            elif not relation.nullable:
                raise Unfinished
    return completed


def _finish(output: GraphQLOutputType, selection: Selection) -> Finish:
    if isinstance(output, GraphQLNonNull):
        return _non_null(output.of_type, selection)
    if isinstance(output, GraphQLList):
        return _list(_finish(output.of_type, selection))
    if is_leaf_type(output):
        return _leaf(output)
    if isinstance(output, GraphQLObjectType):
        return _nullable(_object(output, selection))
    if isinstance(output, GraphQLInterfaceType) and output.name in KINDS:
        return _nullable(_interface(output, selection))
    raise _NotDeclared


def _nullable(finish: Finish) -> Finish:
    return lambda value, run: None if value is None else finish(value, run)


def _non_null(inner: GraphQLOutputType, selection: Selection) -> Finish:
    if inner in {GraphQLString, GraphQLID}:
        return _text
    if inner is GraphQLBoolean:
        return _boolean
    if isinstance(inner, GraphQLObjectType):
        # Its fields fail on None by themselves.
        return _object(inner, selection)
    finish = _finish(inner, selection)

    def finish_non_null(value: Any, run: Run) -> Any:
        finished = finish(value, run)
        if finished is None:
            raise Unfinished
        return finished

    return finish_non_null


def _text(value: Any, _run: Run) -> Any:
    if type(value) is not str:
        raise Unfinished
    return value


def _boolean(value: Any, _run: Run) -> Any:
    if type(value) is not bool:
        raise Unfinished
    return value


def _leaf(output: GraphQLLeafType) -> Finish:
    coerce = output.coerce_output_value
    plain: type = {"String": str, "ID": str, "Boolean": bool}.get(output.name, _Never)

    def finish_leaf(value: Any, _run: Run) -> Any:
        if value is None or type(value) is plain:
            return value
        coerced = coerce(value)
        if coerced is None:
            raise Unfinished
        return coerced

    return finish_leaf


class _Never:
    """The type of no value."""


def _list(finish: Finish) -> Finish:
    def finish_list(value: Any, run: Run) -> Any:
        if value is None:
            return None
        if type(value) is not list and not isinstance(value, list | tuple):
            raise Unfinished
        return [finish(item, run) for item in value]

    return finish_list


def _object(output: GraphQLObjectType, selection: Selection) -> Finish:
    steps, relations = _steps(output, selection)

    def finish_object(document: Any, run: Run) -> dict[str, Any]:
        if type(document) is not dict and not isinstance(document, Mapping):
            raise Unfinished
        answer: dict[str, Any] = {}
        for name, read, finish in steps:
            answer[name] = finish(read(document), run)
        for relation, read_keys in relations:
            keys = read_keys(document)
            if keys is not None:
                run.pending.append((relation, keys, answer))
            elif not relation.nullable:
                raise Unfinished
        return answer

    return finish_object


def _interface(output: GraphQLInterfaceType, selection: Selection) -> Finish:
    kind = KINDS[output.name]
    by_type = {found.name: _object(found, selection) for found in types_of(selection.schema, kind)}
    type_name = kind.type_name

    def finish_interface(document: Any, run: Run) -> Any:
        return by_type[type_name(document)](document, run)

    return finish_interface


def _steps(
    output: GraphQLObjectType, selection: Selection
) -> tuple[list[tuple[str, Getter, Finish]], list[tuple[_Relation, Getter]]]:
    """What to do for each selected field, in the order of the answer; a relation leaves its place empty at first."""
    steps: list[tuple[str, Getter, Finish]] = []
    relations: list[tuple[_Relation, Getter]] = []
    for response_name, nodes in selection.responses(output).items():
        name = nodes[0].name.value
        if name == "__typename":
            steps.append((response_name, _constant(output.name), _text))
            continue
        graphql_field = output.fields.get(name)
        # The fields of introspection are graphql-core's own.
        definition = None if graphql_field is None else graphql_field.extensions.get(_BACKREF)
        declared = None if definition is None else declaration_of(definition)
        if graphql_field is None or declared is None:
            raise _NotDeclared
        below = selection.below(nodes)
        match declared:
            case Stored(path=path, default=default):
                steps.append((response_name, getter(path, default), _finish(graphql_field.type, below)))
            case Computed(function=function):
                steps.append((response_name, function, _finish(graphql_field.type, below)))
            case Related():
                steps.append((response_name, _constant(None), _as_is))
                relations.append(_relation(response_name, declared, graphql_field.type, below))
            case _:
                raise _NotDeclared
    return steps, relations


def _constant(value: Any) -> Getter:
    return lambda _source: value


def _as_is(value: Any, _run: Run) -> Any:
    return value


def _relation(
    response_name: str, declared: Related, output: GraphQLOutputType, below: Selection
) -> tuple[_Relation, Getter]:
    kind = KINDS[declared.kind]
    projection = below.projection(types_of(below.schema, kind), kind.discriminator)
    name = (kind.name, None if projection is None else tuple(projection))

    def loader(context: Context) -> Loader[Any, Any]:
        return context.loader(name, lambda: kind.read(context.reading, projection))

    related_type = get_named_type(output)
    assert isinstance(related_type, GraphQLObjectType | GraphQLInterfaceType)
    finish_one = _finish(GraphQLNonNull(related_type), below)
    relation = _Relation(
        response_name, loader, finish_one, declared.many, nullable=not isinstance(output, GraphQLNonNull)
    )
    return relation, getter(declared.path, () if declared.many else None)
