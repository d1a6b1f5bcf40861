"""Validates documents by many rules in one walk.

graphql-core looks up the methods of every rule for every kind of node, for each document anew, and walks a document
again to find where it uses variables. That is most of the time to validate a short document. Here the methods are
looked up once for the rules, and the second walk sees only what has variables.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from graphql import (
    ASTValidationRule,
    DocumentNode,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    GraphQLSchema,
    InlineFragmentNode,
    NameNode,
    Node,
    OperationDefinitionNode,
    SelectionSetNode,
    TypeInfo,
    TypeInfoVisitor,
    ValidationContext,
    Visitor,
    VisitorAction,
    assert_valid_schema,
    visit,
)
from graphql.language import Token, TokenKind
from graphql.language.ast import QUERY_DOCUMENT_KEYS
from graphql.language.visitor import BREAK, SKIP, EnterLeaveVisitor
from graphql.validation.validate import FragmentNestingVisitor, ValidationAbortedError
from graphql.validation.validation_context import NodeWithSelectionSet, VariableUsage, VariableUsageVisitor

# The methods of some rules for one kind of node: the number of the rule, and the name of the method.
_Methods = Sequence[tuple[int, str]]
_Visit = Callable[..., Any]
# What a method returns to skip a node, and to see nothing of the rest.
_SKIPS, _BREAKS = (SKIP, False), (BREAK, True)
# Takes the place of all tokens of a document.
_NO_TOKEN = Token(TokenKind.SOF, 0, 0, 0, 0)
# No rule visits names, which are two of five nodes. Nor do descriptions take part in validation.
_KEYS = {
    kind: tuple(key for key in keys if key not in {"name", "alias", "description"})
    for kind, keys in QUERY_DOCUMENT_KEYS.items()
}


class Rules:
    """Some validation rules. Documents are validated by all of them at once."""

    def __init__(self, rules: Sequence[type[ASTValidationRule]]) -> None:
        self.rules = tuple(rules)
        self._methods: dict[str, tuple[_Methods, _Methods]] = {}

    def errors(
        self, schema: GraphQLSchema, document: DocumentNode, *, max_errors: int, hide_suggestions: bool
    ) -> list[GraphQLError]:
        """Returns the errors that graphql-core's `validate` finds by these rules, in its order."""
        assert_valid_schema(schema)
        errors: list[GraphQLError] = []

        def add(error: GraphQLError) -> None:
            if len(errors) >= max_errors:
                raise ValidationAbortedError("Too many validation errors, error limit reached. Validation aborted.")
            errors.append(error)

        context = _Context(schema, document, TypeInfo(schema), add, hide_suggestions)
        rules = _AllRules(self, context)
        try:
            _check_nesting(document)
            visit(document, rules, _KEYS)
        except ValidationAbortedError as error:
            error.__context__ = None
            errors.append(error.with_traceback(None))
        except RecursionError:
            errors.append(ValidationAbortedError("Validation aborted."))
        rules.clear()
        return errors

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


def _check_nesting(document: DocumentNode) -> None:
    """Raises RecursionError if fragments nest so deeply that the rules would."""
    fragments = {one.name.value: one for one in document.definitions if isinstance(one, FragmentDefinitionNode)}
    if fragments:
        visit(document, FragmentNestingVisitor(fragments))


class _Context(ValidationContext):
    """Finds the uses of variables and the spreads of a node, each once.

    graphql-core keeps them by the values of the nodes, so that each look-up computes the hash of a whole tree.
    """

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._uses: dict[int, list[VariableUsage]] = {}
        self._all_uses: dict[int, list[VariableUsage]] = {}
        self._spreads: dict[int, list[FragmentSpreadNode]] = {}

    @property
    def type_info(self) -> TypeInfo:
        return self._type_info

    def get_fragment_spreads(self, node: SelectionSetNode) -> list[FragmentSpreadNode]:
        found = self._spreads.get(id(node))
        if found is None:
            found = self._spreads[id(node)] = []
            left = [node]
            while left:
                for selection in left.pop().selections:
                    if isinstance(selection, FragmentSpreadNode):
                        found.append(selection)
                    elif isinstance(selection, FieldNode | InlineFragmentNode) and selection.selection_set:
                        left.append(selection.selection_set)
        return found

    def get_variable_usages(self, node: NodeWithSelectionSet) -> list[VariableUsage]:
        found = self._uses.get(id(node))
        if found is None:
            visitor = _Uses(self._type_info, node if isinstance(node, FragmentDefinitionNode) else None)
            if _may_use_variables(node):
                visit(node, TypeInfoVisitor(self._type_info, visitor), _KEYS)
            found = self._uses[id(node)] = visitor.usages
        return found

    def get_recursive_variable_usages(self, operation: OperationDefinitionNode) -> list[VariableUsage]:
        found = self._all_uses.get(id(operation))
        if found is None:
            found = self._all_uses[id(operation)] = super().get_recursive_variable_usages(operation)
        return found


class _Uses(VariableUsageVisitor):
    """Collects the uses of variables. Skips the fields whose text names none."""

    def enter_field(self, node: FieldNode, *_: Any) -> VisitorAction:
        return None if _may_use_variables(node) else SKIP


def _may_use_variables(node: Node) -> bool:
    return node.loc is None or "$" in node.loc.source.body[node.loc.start : node.loc.end]


class _AllRules(Visitor):
    """Visits each node with all rules. A rule that skips a node sees nothing of it until the walk leaves it."""

    def __init__(self, rules: Rules, context: _Context) -> None:
        super().__init__()
        self._rules = rules
        self._type_info = context.type_info
        self._visitors: list[Any] = [rule(context) for rule in rules.rules]
        self._skips = [False] * len(self._visitors)
        # The rules that skip a node, by the node.
        self._skipped: dict[int, list[int]] = {}
        self._visits: dict[str, EnterLeaveVisitor] = {}

    def clear(self) -> None:
        """Forgets the rules. They refer to each other, so that they would stay until garbage is collected."""
        self._visits.clear()
        self._visitors.clear()

    def get_enter_leave_for_kind(self, kind: str) -> EnterLeaveVisitor:
        found = self._visits.get(kind)
        if found is None:
            enter, leave = (self._bound(methods) for methods in self._rules.methods(kind))
            found = self._visits[kind] = EnterLeaveVisitor(self._enter(kind, enter), self._leave(kind, leave))
        return found

    def _bound(self, methods: _Methods) -> list[tuple[int, _Visit]]:
        return [(number, getattr(self._visitors[number], name)) for number, name in methods]

    def _enter(self, kind: str, methods: Sequence[tuple[int, _Visit]]) -> _Visit:
        skips, note = self._skips, getattr(self._type_info, f"enter_{kind}", None)

        def enter(node: Node, *place: Any) -> None:
            if note is not None:
                note(node)
            for number, method in methods:
                if not skips[number] and (outcome := method(node, *place)) is not None:
                    self._skip(number, outcome, node)

        return enter

    def _leave(self, kind: str, methods: Sequence[tuple[int, _Visit]]) -> _Visit:
        skips, skipped, note = self._skips, self._skipped, getattr(self._type_info, f"leave_{kind}", None)

        def leave(node: Node, *place: Any) -> None:
            for number, method in methods:
                if not skips[number] and method(node, *place) in _BREAKS:
                    skips[number] = True
            if skipped:
                for number in skipped.pop(id(node), ()):
                    skips[number] = False
            if note is not None:
                note()

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
    if document.loc is not None:
        _unlink(document.loc.start_token)
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


def _unlink(token: Token | None) -> None:
    """Parts tokens that refer to each other, so that they go without a collection of garbage."""
    while token is not None:
        token.prev, token.next, token = None, None, token.next


# graphql-core's nodes are frozen. Nobody else has those of a document that was parsed a moment ago.
_set = object.__setattr__
