"""Turns generated operations into realistic requests: with arguments that find objects, variables and conditions."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from graphql import (
    ArgumentNode,
    DirectiveNode,
    DocumentNode,
    FieldNode,
    GraphQLSchema,
    InlineFragmentNode,
    NameNode,
    OperationDefinitionNode,
    TypeInfo,
    TypeInfoVisitor,
    VariableDefinitionNode,
    VariableNode,
    Visitor,
    parse,
    parse_type,
    parse_value,
    print_ast,
    value_from_ast_untyped,
    visit,
)
from graphql.language.visitor import REMOVE

# Larger values would only be refused, and refusals have separate tests.
_MAX_FIRST = 5
# Enough ids that some are of the requested types.
_IDS = 12
# Other operations of the document, which use the same names for other variables.
_OTHERS = (
    "query Other($v0: Boolean!, $v1: Boolean = false) { __typename @include(if: $v0) a: __typename @skip(if: $v1) }",
    "query Other($v0: [ID!]!, $v1: ProductFilter) { nodes(ids: $v0) { id } products(filter: $v1) { totalCount } }",
)


@dataclass
class Request:
    """A document with the variables of one operation. `operation` is its name if the document has several."""

    text: str
    variables: dict[str, Any] = field(default_factory=dict)
    operation: str | None = None


def as_client_request(schema: GraphQLSchema, text: str, known: Mapping[str, Sequence[str]], seed: int) -> Request:
    """Returns the operation with existing values for the arguments in `known`, some as variables, and conditions."""
    rng = random.Random(seed)
    document = visit(parse(text), _Found(known, rng))
    type_info = TypeInfo(schema)
    lift = _Lift(type_info, rng)
    document = visit(document, TypeInfoVisitor(type_info, lift))
    (definition,) = (node for node in document.definitions if isinstance(node, OperationDefinitionNode))
    beside = list(parse(rng.choice(_OTHERS)).definitions) if rng.random() < 0.2 else []
    name = "Chosen" if beside else None
    declared = OperationDefinitionNode(
        operation=definition.operation,
        name=NameNode(value=name) if name else definition.name,
        selection_set=definition.selection_set,
        directives=definition.directives,
        variable_definitions=tuple(lift.definitions),
    )
    rest = [node for node in document.definitions if node is not definition]
    definitions = rng.sample([declared, *beside], len(beside) + 1) + rest
    return Request(print_ast(DocumentNode(definitions=tuple(definitions))), lift.values, name)


class _Found(Visitor):
    """Gives arguments values that find objects."""

    def __init__(self, known: Mapping[str, Sequence[str]], rng: random.Random) -> None:
        super().__init__()
        self._known = known
        self._rng = rng

    def enter_argument(self, node: ArgumentNode, *_: Any) -> Any:
        name = node.name.value
        if name == "after":
            return REMOVE
        if name == "first":
            return _argument(name, str(self._rng.randint(1, _MAX_FIRST)))
        if name in self._known and self._rng.random() < 0.9:
            values = self._known[name]
            one = self._rng.choice(values)
            return _argument(name, orjson.dumps(self._rng.sample(values, _IDS) if name == "ids" else one).decode())
        if name == "filter" and self._rng.random() < 0.8:
            # Most random filters match nothing.
            return _argument(name, "{}")
        return None


def _argument(name: str, value: str) -> ArgumentNode:
    return ArgumentNode(name=NameNode(value=name), value=parse_value(value))


class _Lift(Visitor):
    """Turns some arguments into variables, and adds directives with variables."""

    def __init__(self, type_info: TypeInfo, rng: random.Random) -> None:
        super().__init__()
        self._type_info = type_info
        self._rng = rng
        self.definitions: list[VariableDefinitionNode] = []
        self.values: dict[str, Any] = {}

    def leave_argument(self, node: ArgumentNode, *_: Any) -> Any:
        input_type = self._type_info.get_input_type()
        if self._rng.random() < 0.5 or input_type is None or _is_of_directive(node):
            return None
        value = value_from_ast_untyped(node.value)
        try:
            orjson.dumps(value)
        except TypeError:
            return None
        variable = self._new(parse_type(str(input_type)), value, node.value)
        return ArgumentNode(name=node.name, value=variable)

    def leave_field(self, node: FieldNode, *_: Any) -> Any:
        if self._rng.random() < 0.85:
            return None
        return FieldNode(
            alias=node.alias,
            name=node.name,
            arguments=node.arguments,
            directives=(*(node.directives or ()), self._directive()),
            selection_set=node.selection_set,
        )

    def leave_inline_fragment(self, node: InlineFragmentNode, *_: Any) -> Any:
        if self._rng.random() < 0.85:
            return None
        return InlineFragmentNode(
            type_condition=node.type_condition,
            directives=(*(node.directives or ()), self._directive()),
            selection_set=node.selection_set,
        )

    def _directive(self) -> DirectiveNode:
        """Returns `@include` or `@skip` with a variable. If the variable has a default, its value may be null."""
        name = self._rng.choice(["include", "skip"])
        value: bool | None = self._rng.random() < 0.5
        declared, default = parse_type("Boolean!"), None
        if self._rng.random() < 0.3:
            declared, default = parse_type("Boolean"), parse_value("true" if self._rng.random() < 0.5 else "false")
            value = None if self._rng.random() < 0.1 else value
        condition = self._new(declared, value, default, is_nullable=default is not None)
        return DirectiveNode(
            name=NameNode(value=name), arguments=(ArgumentNode(name=NameNode(value="if"), value=condition),)
        )

    def _new(self, declared: Any, value: Any, default: Any = None, *, is_nullable: bool = False) -> VariableNode:
        variable = VariableNode(name=NameNode(value=f"v{len(self.definitions)}"))
        # Some variables are left out, so their default applies.
        is_default = default is not None and self._rng.random() < 0.2
        self.definitions.append(
            VariableDefinitionNode(
                variable=variable,
                type=declared,
                default_value=default if is_default or is_nullable else None,
                directives=(),
            )
        )
        if not is_default:
            self.values[variable.name.value] = value
        return variable


def _is_of_directive(node: ArgumentNode) -> bool:
    return node.name.value == "if"


def comparable(body: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parts of the answer that two executors must agree on.

    Errors may be in any order. If several errors cause the same null, any one of them may be reported (section 6.4.4
    of the specification). So for an error below a null, only the path of the null counts.
    """
    errors = body.get("errors", [])
    exact, spread = [], set()
    for error in errors:
        path = error.get("path")
        place = _null_at(body.get("data"), path) if path else None
        if path and place != path:
            spread.add(orjson.dumps(place))
        else:
            shown = {**error, "extensions": {"code": error["extensions"]["code"]}}
            exact.append(orjson.dumps(shown, option=orjson.OPT_SORT_KEYS))
    covered = {
        place for place in spread if not any(orjson.loads(one).get("path") == orjson.loads(place) for one in exact)
    }
    return {"data": orjson.dumps(body.get("data")), "errors": sorted(exact), "nulls": sorted(covered)}


def _null_at(data: Any, path: Sequence[Any]) -> list[Any]:
    """Returns the part of the path that leads to a null."""
    reached: list[Any] = []
    for key in path:
        if data is None:
            break
        data = data[key]
        reached.append(key)
    return reached
