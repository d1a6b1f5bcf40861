"""Parsed and validated operations, kept by their text."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    GraphQLSyntaxError,
    OperationDefinitionNode,
    get_operation_ast,
    parse,
    specified_rules,
    validate,
)
from graphql.validation.rules import overlapping_fields_can_be_merged
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule

from portico.gateway.operations.plans.plan import NotCompiled, Plan
from portico.gateway.settings import Settings

from .limits import Limits, too_complex
from .numbers import LargeIntegers, may_be_too_large

# What comparing the fields of one operation with each other may take; the library's own bound allows two seconds.
overlapping_fields_can_be_merged.MAX_COMPLEXITY_BUDGET = 20_000
_RULES = (*specified_rules, MaybeNullValidationRule, OneOfInputValidationRule)
# A text longer than this is not kept: it would push many others out.
_LONGEST_KEPT = 20_000
# A parsed operation takes about a hundred times the memory of its text.
_KEPT_CHARACTERS = 1_000_000
_KEPT_REFUSALS = 256
_COSTS_KEPT = 64
_MAX_COMMENTS = 1_000
MAX_ERRORS = 20


class InvalidOperation(Exception):
    """The text is no operation that this schema can run. `errors` say why, each with a code."""

    def __init__(self, errors: list[GraphQLError]) -> None:
        super().__init__(errors[0].message)
        self.errors = errors


@dataclass(slots=True)
class Operation:
    """A document that is valid, with what has been worked out about it. Shared by all its requests."""

    document: DocumentNode
    selections: dict[Hashable, Any] = field(default_factory=dict)
    plans: dict[Hashable, Plan | NotCompiled] = field(default_factory=dict)
    conditions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    accepted: set[Hashable] = field(default_factory=set)

    def definition(self, name: str | None) -> OperationDefinitionNode:
        """Returns the operation of this name. Raises InvalidOperation where there is none, or more than one and no name."""
        found = get_operation_ast(self.document, name)
        if found is None:
            wanted = "The document has several operations; name one." if name is None else f"No operation {name!r}."
            raise InvalidOperation([GraphQLError(wanted, extensions={"code": "BAD_USER_INPUT"})])
        return found


class Operations:
    """Turns texts into operations; the latest used are kept, up to a bound."""

    def __init__(self, schema: GraphQLSchema, settings: Settings) -> None:
        self._schema = schema
        self._settings = settings
        self._limits = Limits(schema, max_depth=settings.max_depth, max_cost=settings.max_cost)
        self._kept: OrderedDict[str, Operation] = OrderedDict()
        self._kept_characters = 0
        self._refused: OrderedDict[bytes, list[GraphQLError]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> Operation:
        """Returns the operation with this text. Raises InvalidOperation."""
        operation = self._kept.get(text)
        if operation is not None:
            self._kept.move_to_end(text)
            return operation
        operation = Operation(self._parse_once(text))
        if len(text) <= _LONGEST_KEPT:
            self._keep(text, operation)
        return operation

    def _keep(self, text: str, operation: Operation) -> None:
        self._kept[text] = operation
        self._kept_characters += len(text)
        while len(self._kept) > self._settings.cached_operations or self._kept_characters > _KEPT_CHARACTERS:
            dropped, _ = self._kept.popitem(last=False)
            self._kept_characters -= len(dropped)

    def _parse_once(self, text: str) -> DocumentNode:
        """As `_parse`. A refusal is kept: a text that is costly to refuse costs that once."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        refused = self._refused.get(key)
        if refused is None:
            try:
                return self._parse(text)
            except InvalidOperation as invalid:
                refused = self._refused[key] = [_shown(error) for error in invalid.errors]
                if len(self._refused) > _KEPT_REFUSALS:
                    self._refused.popitem(last=False)
        self._refused.move_to_end(key)
        # A new one each time: an exception gathers the frames of all that raise it.
        raise InvalidOperation(refused)

    def _parse(self, text: str) -> DocumentNode:
        try:
            document = parse(text, max_lexical_tokens=self._settings.max_tokens, max_comments=_MAX_COMMENTS)
            errors = self._errors(document, text)
        except GraphQLSyntaxError as error:
            raise InvalidOperation([_syntax_error(error)]) from None
        except RecursionError:
            raise InvalidOperation([too_complex("The operation is nested too deeply.")]) from None
        if errors:
            if errors[-1].message == "Validation aborted.":
                raise InvalidOperation([too_complex("The operation is too intricate to be checked.")])
            for wrong in errors:
                wrong.extensions = {"code": "GRAPHQL_VALIDATION_FAILED", **(wrong.extensions or {})}
            raise InvalidOperation(errors)
        return document

    def _errors(self, document: DocumentNode, text: str) -> list[GraphQLError]:
        if may_be_too_large(text) and (
            errors := validate(self._schema, document, [LargeIntegers], max_errors=MAX_ERRORS)
        ):
            return errors
        return validate(self._schema, document, _RULES, max_errors=MAX_ERRORS)

    def check(self, operation: Operation, name: str | None, variables: Mapping[str, Any]) -> OperationDefinitionNode:
        """Returns the definition to run. Raises InvalidOperation where it is missing, or over a limit with these variables."""
        definition = operation.definition(name)
        key = (name, self._limits.facts(variables))
        if key in operation.accepted:
            return definition
        try:
            self._limits.check(operation.document, definition, variables)
        except GraphQLError as error:
            raise InvalidOperation([error]) from None
        if len(operation.accepted) < _COSTS_KEPT:
            operation.accepted.add(key)
        return definition


def _shown(error: GraphQLError) -> GraphQLError:
    """Returns what a client is shown of the error: without its syntax tree, and the frames of the request that met it."""
    shown = GraphQLError(error.message, extensions=error.extensions)
    shown.locations = error.locations
    return shown


def _syntax_error(error: GraphQLSyntaxError) -> GraphQLError:
    if "Parsing aborted" in error.message:
        return too_complex(error.message.removeprefix("Syntax Error: "))
    error.extensions = {"code": "GRAPHQL_PARSE_FAILED"}
    return error
