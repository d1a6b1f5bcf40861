"""Documents are validated by all rules in one walk, with the outcome of graphql-core's own validation."""

from __future__ import annotations

import pytest
from graphql import (
    DocumentNode,
    GraphQLError,
    NameNode,
    Node,
    SelectionSetNode,
    Visitor,
    get_location,
    parse,
    print_ast,
    validate,
    visit,
)

from portico.gateway.operations.documents import _CLOSED_RULES, _RULES
from portico.gateway.operations.validation import Rules, slim
from tests.support.domains import SCHEMA

CORE = SCHEMA._schema

# Each has errors of one or more rules, also below a node that a rule skips.
TEXTS = [
    "{ viewer { subject } }",
    "{ viewer }",
    "{ viewer { subject { deeper } missing } nothing }",
    "query A { viewer { subject } } query A { viewer { subject } } { viewer { subject } }",
    "query ($unused: Int, $twice: Int, $twice: Int) { products(first: $undefined) { nodes { title } } }",
    "query ($list: [Product]) { products(first: $list) { nodes { title } } }",
    "query ($text: String) { products(first: $text) { nodes { title } } }",
    "{ products(first: 1, first: 2, other: 3) { nodes { title(a: 1) } } }",
    '{ products(first: "ten") { nodes { title: sku title } } }',
    "{ product { sku } node { id } }",
    "{ ...missing ...spare } fragment spare on Category { name } fragment spare on Nothing { name }",
    "{ ...a } fragment a on Query { ...b } fragment b on Query { ...a }",
    "{ ...on Int { a } viewer { ...on Product { sku } } }",
    "fragment unused on Product { sku } { viewer { subject } }",
    "{ viewer @include { subject @nothing } products @skip(if: true) @skip(if: false) { nodes { sku } } }",
    "subscription { commentPosted(discussionId: 1) { text } __typename viewer }",
    "type Thing { a: Int } extend schema { query: Thing } { viewer { subject } }",
    "mutation { createProduct(input: {sku: 1, sku: 2, unknown: {a: {b: 1}}}) { __typename } }",
    "mutation { createProduct(input: null) { __typename } }",
    "{ __schema { types { name } } __type(name: 1) { fields { type { fields { type { fields { name } } } } } } }",
    "query ($a: Int = 1, $b: Boolean!) { products(first: $a) { nodes { title @include(if: $b) } } }",
]


def shown(errors: list[GraphQLError]) -> list[tuple[str, object]]:
    return [(error.message, error.locations) for error in errors]


@pytest.mark.parametrize("rules", [_RULES, _CLOSED_RULES], ids=["open", "closed"])
@pytest.mark.parametrize("text", TEXTS)
def test_the_errors_are_those_of_graphql_core(text: str, rules: Rules) -> None:
    document = parse(text)
    for most in (20, 2):
        expected = validate(CORE, document, rules.rules, max_errors=most, hide_suggestions=most == 2)

        found = rules.errors(CORE, document, max_errors=most, hide_suggestions=most == 2)

        assert shown(found) == shown(expected)


def test_most_of_these_texts_have_errors() -> None:
    assert [text for text in TEXTS if not validate(CORE, parse(text), _RULES.rules)] == [TEXTS[0], TEXTS[-1]]


class _Places(Visitor):
    """The places of the nodes that the errors of a valid document can show, and all names."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, object]] = []

    def enter(self, node: Node, *_: object) -> None:
        if isinstance(node, NameNode):
            self.found.append(("name", node.value))
        elif not isinstance(node, SelectionSetNode):
            assert node.loc is not None
            self.found.append((node.kind, get_location(node.loc.source, node.loc.start)))


def places(document: DocumentNode) -> list[tuple[str, object]]:
    visitor = _Places()
    visit(document, visitor)
    return visitor.found


def test_a_slim_document_keeps_its_names_and_the_places_that_errors_show() -> None:
    text = """query Q($id: ID! = "x", $is: Boolean!) { a: node(id: $id) { id ...F @include(if: $is) } }
    fragment F on Category { children(first: 3) { nodes { id name } } ... on Node { __typename } }"""
    document = parse(text)
    whole = places(document)

    slim(document)

    assert places(document) == whole
    assert print_ast(document) == print_ast(parse(text))
