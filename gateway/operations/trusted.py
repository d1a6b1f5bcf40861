"""Trusted documents: the operations of known clients, checked and compiled when the gateway starts."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from graphql import GraphQLError, OperationDefinitionNode

from .documents import InvalidOperation, Operation, Operations
from .manifests import DocumentsError, TrustedDocument, texts_by_id
from .plans.executor import PlanExecutor
from .plans.plan import Plan
from .plans.ready import make_ready

# An operation has a plan for each combination of its conditions. With more conditions, plans are made when needed.
_MOST_CONDITIONS = 3
_MOST_SHOWN = 50
# Validating a document leaves cycles, which are collected after so many documents.
_COLLECTED = 20

T = TypeVar("T")


def checked(documents: Iterable[TrustedDocument], operations: Operations) -> Mapping[str, Operation]:
    """Returns the operations of all documents by their texts.

    Raises DocumentsError if a document does not fit the schema. It names all of them, with their clients.
    """
    found: dict[str, Operation] = {}
    wrong: list[str] = []
    for document in _collecting(documents):
        if document.text in found:
            continue
        try:
            found[document.text] = operations.parse(document.text)
        except InvalidOperation as invalid:
            wrong += [f"  * {document.label}: {_shown(error)}" for error in invalid.errors]
    if wrong:
        hidden = len(wrong) - _MOST_SHOWN
        more = [f"  * and {hidden:,} more errors"] if hidden > 0 else []
        raise DocumentsError("\n".join(["Trusted documents do not fit the schema:", *wrong[:_MOST_SHOWN], *more]))
    return found


def _collecting(given: Iterable[T]) -> Iterator[T]:
    """Yields the same values. Meanwhile, the garbage collector looks at new objects only, because most of them stay."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        for number, one in enumerate(given, start=1):
            yield one
            if number % _COLLECTED == 0:
                gc.collect(0)
    finally:
        if was_enabled:
            gc.enable()


def _shown(error: GraphQLError) -> str:
    place = next(iter(error.locations or ()), None)
    return error.message if place is None else f"{error.message} (line {place.line}, column {place.column})"


class Trusted:
    """The trusted documents of a gateway, by their ids. Without documents, it trusts nothing."""

    def __init__(self, documents: Sequence[TrustedDocument] = ()) -> None:
        self.documents = documents
        self._texts = texts_by_id(documents)

    def __len__(self) -> int:
        return len(self.documents)

    def text(self, key: str) -> str | None:
        """Returns the text of the document with this id; None if there is none."""
        return self._texts.get(key)


def compile_all(operations: Iterable[Operation], plans: PlanExecutor) -> None:
    """Compiles the plans of these operations, so that their first call takes as long as a later one."""
    for operation in _collecting(operations):
        definitions = [one for one in operation.document.definitions if isinstance(one, OperationDefinitionNode)]
        names: list[str | None] = [None] if len(definitions) == 1 else []
        for definition in definitions:
            names.append(None if definition.name is None else definition.name.value)
            conditions = plans.conditions(operation, definition)
            if len(conditions) > _MOST_CONDITIONS:
                continue
            for values in itertools.product((True, False), repeat=len(conditions)):
                plan = plans.plan(operation, definition, dict(zip(conditions, values, strict=True)))
                if isinstance(plan, Plan):
                    make_ready(plan)
        for name in names:
            operation.definition(name)
