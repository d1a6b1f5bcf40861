"""Validates documents by many rules in one walk.

graphql-core looks up the methods of every rule for every kind of node, for each document anew. That is half of the time
to validate a short document. Here they are looked up once for the rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphql import (
    ASTValidationRule,
    DocumentNode,
    GraphQLError,
    GraphQLSchema,
    NameNode,
    Node,
    SelectionSetNode,
    ValidationContext,
    Visitor,
    validate,
)
from graphql.language import Token, TokenKind
from graphql.language.ast import QUERY_DOCUMENT_KEYS
from graphql.language.visitor import BREAK, SKIP, EnterLeaveVisitor

# The methods of some rules for one kind of node: the number of the rule, and the name of the method.
_Methods = Sequence[tuple[int, str]]
_Visit = Callable[..., Any]
# What a method returns to skip a node, and to see nothing of the rest.
_SKIPS, _BREAKS = (SKIP, False), (BREAK, True)
# Takes the place of all tokens of a document.
_NO_TOKEN = Token(TokenKind.SOF, 0, 0, 0, 0)


class Rules:
    """Some validation rules. Documents are validated by all of them at once."""

    def __init__(self, rules: Sequence[type[ASTValidationRule]]) -> None:
        self.rules = tuple(rules)
        self._methods: dict[str, tuple[_Methods, _Methods]] = {}

    def errors(
        self, schema: GraphQLSchema, document: DocumentNode, *, max_errors: int, hide_suggestions: bool
    ) -> list[GraphQLError]:
        """Returns the errors that graphql-core's `validate` finds by these rules, in its order."""

        def one_rule(context: ValidationContext) -> Visitor:
            return _AllRules(self, context)

        rule: Any = one_rule
        return validate(schema, document, [rule], max_errors=max_errors, hide_suggestions=hide_suggestions)

    def methods(self, kind: str) -> tuple[_Methods, _Methods]:
        """Returns the methods that are called when the walk enters and leaves a node of this kind."""
        found = self._methods.get(kind)
        if found is None:
            found = self._methods[kind] = (self._named("enter", kind), self._named("leave", kind))
        return found

    def _named(self, event: str, kind: str) -> _Methods:
        names = f"{event}_{kind}", event
        chosen = (next((name for name in names if hasattr(rule, name)), None) for rule in self.rules)
        return [(number, name) for number, name in enumerate(chosen) if name is not None]


class _AllRules(Visitor):
    """Visits each node with all rules. A rule that skips a node sees nothing of it until the walk leaves it."""

    def __init__(self, rules: Rules, context: ValidationContext) -> None:
        super().__init__()
        self._rules = rules
        self._visitors: list[Any] = [rule(context) for rule in rules.rules]
        self._skips = [False] * len(self._visitors)
        # The rules that skip a node, by the node.
        self._skipped: dict[int, list[int]] = {}

    def get_enter_leave_for_kind(self, kind: str) -> EnterLeaveVisitor:
        enter, leave = (self._bound(methods) for methods in self._rules.methods(kind))
        return EnterLeaveVisitor(self._enter(enter) if enter else None, self._leave(leave))

    def _bound(self, methods: _Methods) -> list[tuple[int, _Visit]]:
        return [(number, getattr(self._visitors[number], name)) for number, name in methods]

    def _enter(self, methods: Sequence[tuple[int, _Visit]]) -> _Visit:
        skips = self._skips

        def enter(node: Node, *place: Any) -> None:
            for number, method in methods:
                if not skips[number] and (outcome := method(node, *place)) is not None:
                    self._skip(number, outcome, node)

        return enter

    def _leave(self, methods: Sequence[tuple[int, _Visit]]) -> _Visit:
        skips, skipped = self._skips, self._skipped

        def leave(node: Node, *place: Any) -> None:
            for number, method in methods:
                if not skips[number] and method(node, *place) in _BREAKS:
                    skips[number] = True
            if skipped:
                for number in skipped.pop(id(node), ()):
                    skips[number] = False

        return leave

    def _skip(self, number: int, outcome: Any, node: Node) -> None:
        if outcome in _SKIPS:
            self._skips[number] = True
            self._skipped.setdefault(id(node), []).append(number)
        elif outcome in _BREAKS:
            self._skips[number] = True


def slim(document: DocumentNode) -> None:
    """Drops what nobody reads of a valid document: two thirds of its memory, and a third of its objects, which a
    collection of garbage looks at.

    Errors of a valid document show places of neither tokens, names nor selection sets. Equal names are one object.
    """
    names: dict[str, NameNode] = {}
    left: list[Any] = [document]
    while left:
        node = left.pop()
        if isinstance(node, SelectionSetNode):
            _set(node, "loc", None)
        elif node.loc is not None:
            node.loc.start_token = node.loc.end_token = _NO_TOKEN
        for key in QUERY_DOCUMENT_KEYS.get(node.kind, ()):
            below = getattr(node, key)
            if isinstance(below, NameNode):
                _set(below, "loc", None)
                _set(node, key, names.setdefault(below.value, below))
            elif isinstance(below, list | tuple):
                left += below
            elif below is not None:
                left.append(below)


# graphql-core's nodes are frozen. Nobody else has those of a document that was parsed a moment ago.
_set = object.__setattr__
