"""Documents are validated by all rules in one walk, with the outcome of graphql-core's own validation."""

from __future__ import annotations

import pytest
from graphql import GraphQLError, parse, validate

from portico.gateway.operations.documents import _CLOSED_RULES, _RULES
from portico.gateway.operations.validation import Rules, drop_tokens
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


@pytest.mark.parametrize("text", TEXTS)
def test_errors_keep_their_places_without_tokens(text: str) -> None:
    document = parse(text)
    expected = shown(validate(CORE, document, _RULES.rules))

    drop_tokens(document)

    assert shown(validate(CORE, document, _RULES.rules)) == expected
