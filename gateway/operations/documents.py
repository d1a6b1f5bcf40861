"""Parses and validates operations, and caches them by their text."""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any

from graphql import (
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    GraphQLSyntaxError,
    NoSchemaIntrospectionCustomRule,
    OperationDefinitionNode,
    OperationType,
    get_operation_ast,
    parse,
    specified_rules,
    validate,
)
from graphql.validation.rules import overlapping_fields_can_be_merged
from strawberry.schema.validation_rules.maybe_null import MaybeNullValidationRule
from strawberry.schema.validation_rules.one_of import OneOfInputValidationRule

from portico.gateway.operations.plans.plan import NotCompiled, Plan
from portico.gateway.operations.plans.variables import Variables
from portico.gateway.settings import Settings
from portico.resolvers.lru import Lru

from .limits import Limits, too_complex
from .max_ages import max_age
from .numbers import LargeIntegers, may_be_too_large
from .validation import Rules, slim
from .weights import Weighed

# The bound on comparing the fields of one operation with each other. The library's default allows two seconds.
overlapping_fields_can_be_merged.MAX_COMPLEXITY_BUDGET = 20_000
_RULES = Rules((*specified_rules, MaybeNullValidationRule, OneOfInputValidationRule))
_CLOSED_RULES = Rules((*_RULES.rules, NoSchemaIntrospectionCustomRule))
# A longer text is not cached, because it would evict many others.
LONGEST_KEPT = 20_000
# The total length of the cached texts. A parsed operation with its plan uses about a hundred times the memory of its
# text, so the cache takes 45 MB at most. A thousand operations of an application have some 300,000 characters.
_KEPT_CHARACTERS = 400_000
_KEPT_REFUSALS = 256
_COSTS_KEPT = 64
_MAX_COMMENTS = 1_000
MAX_ERRORS = 20


class InvalidOperation(Exception):
    """This schema cannot run the text. `errors` say why, each with a code."""

    def __init__(self, errors: list[GraphQLError]) -> None:
        super().__init__(errors[0].message)
        self.errors = errors


@dataclass(slots=True)
class Operation:
    """A valid document, with values computed from it. All its requests share it."""

    document: DocumentNode
    selections: dict[Hashable, Any] = field(default_factory=dict)
    plans: dict[Hashable, Plan | NotCompiled] = field(default_factory=dict)
    variables: dict[int, Variables] = field(default_factory=dict)
    conditions: dict[int, tuple[str, ...]] = field(default_factory=dict)
    costs: dict[Hashable, float] = field(default_factory=dict)
    definitions: dict[str | None, OperationDefinitionNode] = field(default_factory=dict)
    max_ages: dict[str | None, int] = field(default_factory=dict)

    def definition(self, name: str | None) -> OperationDefinitionNode:
        """Returns the operation of this name; with None, the only one. Raises InvalidOperation if there is none."""
        known = self.definitions.get(name)
        if known is not None:
            return known
        found = get_operation_ast(self.document, name)
        if found is None:
            message = (
                "The document has several operations. Name the one to run."
                if name is None
                else f"The document has no operation {name!r}."
            )
            raise InvalidOperation([GraphQLError(message, extensions={"code": "BAD_USER_INPUT"})])
        # The document has as many names as operations, so this is bounded.
        self.definitions[name] = found
        return found


class Operations:
    """Turns texts into operations, and caches the most recently used."""

    def __init__(self, schema: GraphQLSchema, settings: Settings) -> None:
        self._schema = schema
        self._settings = settings
        self._hide_suggestions = not settings.allows_introspection
        self._rules = _RULES if settings.allows_introspection else _CLOSED_RULES
        self._limits = Limits(
            schema, max_depth=settings.max_depth, max_cost=settings.max_cost, max_fields=settings.max_tokens
        )
        self._kept: Lru[str, Operation] = Lru(
            settings.cached_operations, most_size=_KEPT_CHARACTERS, size_of=lambda text, _operation: len(text)
        )
        self._refused: Lru[bytes, list[GraphQLError]] = Lru(_KEPT_REFUSALS)
        # The operations of the trusted documents by their texts. They stay.
        self.trusted: Mapping[str, Operation] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, text: str) -> Operation:
        """Returns the operation with this text. Raises InvalidOperation."""
        operation = self.trusted.get(text) or self._kept.get(text)
        if operation is not None:
            return operation
        operation = Operation(self._parse_once(text))
        if len(text) <= LONGEST_KEPT:
            self._kept.put(text, operation)
        return operation

    def is_known_mutation(self, text: str, name: str | None) -> bool:
        """Returns whether `get` and `check` have little to do, because they have had this mutation before."""
        operation = self.trusted.get(text) or self._kept.get(text)
        definition = None if operation is None else operation.definitions.get(name)
        return definition is not None and definition.operation is OperationType.MUTATION

    def parse(self, text: str) -> Operation:
        """Returns the operation with this text, without caching it. Raises InvalidOperation."""
        return Operation(self._parse(text))

    def _parse_once(self, text: str) -> DocumentNode:
        """Parses the text as `_parse` does, and caches refusals: some texts are costly to refuse."""
        key = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        refused = self._refused.get(key)
        if refused is None:
            try:
                return self._parse(text)
            except InvalidOperation as invalid:
                refused = [_shown(error) for error in invalid.errors]
                self._refused.put(key, refused)
        # A new exception each time: an exception collects the frames of every request that raises it.
        raise InvalidOperation(refused)

    def _parse(self, text: str) -> DocumentNode:
        try:
            document = parse(
                text,
                max_lexical_tokens=self._settings.max_tokens,
                max_comments=_MAX_COMMENTS,
                # graphql-core accepts selections of nothing by default, which the specification does not allow.
                allow_empty_selection_sets=False,
            )
            errors = self._errors(document, text)
        except GraphQLSyntaxError as error:
            raise InvalidOperation([_syntax_error(error)]) from None
        except RecursionError:
            raise InvalidOperation([too_complex("The operation is nested too deeply. Use fewer levels.")]) from None
        if errors:
            if errors[-1].message == "Validation aborted.":
                raise InvalidOperation(
                    [
                        too_complex(
                            "The operation is too complex to validate. Select fewer fields, or use fewer fragments."
                        )
                    ]
                )
            for wrong in errors:
                wrong.extensions = {"code": "GRAPHQL_VALIDATION_FAILED", **(wrong.extensions or {})}
            raise InvalidOperation(errors)
        slim(document)
        return document

    def _errors(self, document: DocumentNode, text: str) -> list[GraphQLError]:
        if may_be_too_large(text) and (
            errors := validate(self._schema, document, [LargeIntegers], max_errors=MAX_ERRORS)
        ):
            return errors
        return self._rules.errors(
            self._schema, document, max_errors=MAX_ERRORS, hide_suggestions=self._hide_suggestions
        )

    def check(
        self, operation: Operation, name: str | None, variables: Mapping[str, Any]
    ) -> tuple[OperationDefinitionNode, float]:
        """Returns the operation to run, and its cost.

        Raises InvalidOperation if it is missing, or these variables exceed a limit.
        """
        definition = operation.definition(name)
        key = (id(definition), self._limits.facts(variables))
        cost = operation.costs.get(key)
        if cost is not None:
            return definition, cost
        try:
            cost = self._limits.check(operation.document, definition, variables)
        except GraphQLError as error:
            raise InvalidOperation([error]) from None
        if len(operation.costs) < _COSTS_KEPT:
            operation.costs[key] = cost
        return definition, cost

    def max_age(self, text: str, name: str | None) -> int:
        """Returns how many seconds old an answer may be, see `max_ages`. Raises InvalidOperation."""
        operation = self.get(text)
        if name not in operation.max_ages:
            operation.max_ages[name] = max_age(self._schema, operation.document, operation.definition(name))
        return operation.max_ages[name]

    def weights(
        self, operation: Operation, definition: OperationDefinitionNode, variables: Mapping[str, Any]
    ) -> list[Weighed]:
        """Returns the fields of a checked operation with what they add to its cost."""
        return self._limits.weights(operation.document, definition, variables)


def _shown(error: GraphQLError) -> GraphQLError:
    """Returns a copy of the error without the syntax tree and the frames of the request that caused it."""
    shown = GraphQLError(error.message, extensions=error.extensions)
    shown.locations = error.locations
    return shown


def _syntax_error(error: GraphQLSyntaxError) -> GraphQLError:
    if "Parsing aborted" in error.message:
        return too_complex(error.message.removeprefix("Syntax Error: "))
    error.extensions = {"code": "GRAPHQL_PARSE_FAILED"}
    return error
