"""What the fields of the schema declare about their cost, and the cost of a list without a declaration."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import strawberry
from graphql import GraphQLField, GraphQLInputObjectType, GraphQLList, GraphQLNonNull, GraphQLObjectType, parse

from portico.gateway.operations.limits import Limits
from portico.resolvers.analytics.batches import MAX_ENTRIES
from portico.schema.ads.choosing import KEYWORD_COST
from portico.schema.catalog.products import WEIGHTS_OF_FILTER
from portico.schema.fields import MAX_COSTLY, cost_of, costs
from portico.schema.mutations import MUTATION_COST
from tests.support.aliases import aliased
from tests.support.domains import SCHEMA

TYPES = SCHEMA._schema.type_map.values()
LIMITS = Limits(SCHEMA._schema, max_depth=20, max_cost=50_000)


def cost_within(limits: Limits, text: str, variables: dict[str, object] | None = None) -> float:
    """Returns the cost of the last operation of a text. Fails if it exceeds the limits."""
    document = parse(text)
    return limits.check(document, document.definitions[-1], variables or {})  # type: ignore[arg-type]


def fields() -> Iterator[tuple[str, GraphQLField]]:
    for found in TYPES:
        if isinstance(found, GraphQLObjectType) and not found.name.startswith("__"):
            yield from ((f"{found.name}.{name}", field) for name, field in found.fields.items())


def is_list(field: GraphQLField) -> bool:
    output = field.type.of_type if isinstance(field.type, GraphQLNonNull) else field.type
    return isinstance(output, GraphQLList)


def test_every_list_declares_its_length() -> None:
    assert [name for name, field in fields() if is_list(field) and cost_of(field).length is None] == []


def test_only_the_rows_of_connections_are_as_long_as_a_page() -> None:
    rows = {name for name, field in fields() if cost_of(field).length == "page"}
    connections = {found.name for found in TYPES if found.name.endswith("Connection")}

    assert rows == {f"{name}.{part}" for name in connections for part in ("nodes", "edges")}


def test_costly_input_fields_are_only_at_the_top_of_an_input() -> None:
    costly = {
        found.name
        for found in TYPES
        if isinstance(found, GraphQLInputObjectType) and any(cost_of(field).costly for field in found.fields.values())
    }
    arguments = {str(argument.type) for _, field in fields() for argument in field.args.values()}

    assert costly == {"ProductFilter"}
    assert costly <= arguments


@pytest.mark.parametrize(("name", "cost"), [("User.followers", 12), ("Viewer.blockedUsers", 12), ("Circle.members", 4)])
def test_a_row_of_a_list_of_members_costs_more_than_another_row(name: str, cost: int) -> None:
    """MongoDB looks each member up."""
    assert cost_of(dict(fields())[name]).row == cost


@pytest.mark.parametrize("name", ["User.wall", "Viewer.newsFeed", "Viewer.incoming"])
def test_a_page_of_posts_costs_the_search_for_posts_that_are_not_hidden(name: str) -> None:
    assert cost_of(dict(fields())[name]).extra >= 200


@strawberry.type
class Leaf:
    name: str


@strawberry.type
class Query:
    unknown: list[Leaf]
    known: list[Leaf] = strawberry.field(metadata=costs(length=3))
    heavy: int = strawberry.field(metadata=costs(extra=7, costly=True))


OTHER = strawberry.Schema(Query)._schema


@pytest.mark.parametrize(
    ("text", "cost"),
    [("{ unknown { name } }", 1 + 100), ("{ known { name } }", 1 + 3), ("{ heavy }", 1 + 7)],
)
def test_a_list_without_a_declared_length_costs_as_much_as_the_largest_page(text: str, cost: int) -> None:
    assert cost_within(Limits(OTHER, max_depth=20, max_cost=cost), text) == cost
    with pytest.raises(Exception, match=f"more than {cost - 1} fields"):
        cost_within(Limits(OTHER, max_depth=20, max_cost=cost - 1), text)


def test_fields_of_any_domain_can_be_costly() -> None:
    with pytest.raises(Exception, match=f"`heavy` {MAX_COSTLY + 1} times"):
        cost_within(Limits(OTHER, max_depth=20, max_cost=1_000), f"{{ {aliased('heavy', MAX_COSTLY + 1)} }}")


WEIGHED = [
    ('mutation { serveAds(input: { siteId: "s", zoneId: "z", keywords: ["a", "b"] }) { __typename } }', {}, 2),
    ('mutation { serveAds(input: { siteId: "s", zoneId: "z", keywords: "a" }) { __typename } }', {}, 1),
    ('mutation { serveAds(input: { siteId: "s", zoneId: "z" }) { __typename } }', {}, 0),
    (
        'mutation ($w: [String!]!) { serveAds(input: { siteId: "s", zoneId: "z", keywords: $w }) { __typename } }',
        {"w": ["a"] * 9},
        9,
    ),
    ("mutation ($i: ServeAdsInput!) { serveAds(input: $i) { __typename } }", {"i": {"keywords": ["a"] * 9}}, 9),
    ("mutation ($i: ServeAdsInput!) { serveAds(input: $i) { __typename } }", {"i": {}}, 0),
    ('mutation ($i: ServeAdsInput = { keywords: ["a"] }) { serveAds(input: $i) { __typename } }', {}, 1),
]


@pytest.mark.parametrize(("text", "variables", "keywords"), WEIGHED)
def test_each_keyword_of_a_page_adds_to_the_cost_of_serving_ads(
    text: str, variables: dict[str, object], keywords: int
) -> None:
    assert cost_within(LIMITS, text, variables) == 1 + MUTATION_COST + keywords * KEYWORD_COST


_INVALID = "{ ... on RecordedPayload { invalid { fields { path } } } }"
ENTRY = '{ time: "2024-03-01T10:00:00Z", path: "/" }'


@pytest.mark.parametrize(
    ("text", "variables", "entries"),
    [
        (f"mutation {{ logEvents(input: [{ENTRY} {ENTRY}]) {_INVALID} }}", {}, 2),
        (f"mutation {{ logEvents(input: {ENTRY}) {_INVALID} }}", {}, 1),
        (f"mutation ($i: [LogEventInput!]!) {{ logEvents(input: $i) {_INVALID} }}", {"i": [{}] * 7}, 7),
        (f"mutation ($i: [LogEventInput!]!) {{ logEvents(input: $i) {_INVALID} }}", {"i": [{}] * 1_001}, MAX_ENTRIES),
        (f"fragment F on Mutation {{ logEvents(input: []) {_INVALID} }} mutation {{ ...F }}", {}, MAX_ENTRIES),
    ],
)
def test_the_invalid_entries_of_a_call_count_as_many_as_it_sends(
    text: str, variables: dict[str, object], entries: int
) -> None:
    # A large list counts by its size, too: 0.75 for each value, in steps of 20.
    arguments = 740 if len(str(variables)) > 1_000 else 0
    # Each has four paths of four steps.
    assert cost_within(LIMITS, text, variables) == 1 + MUTATION_COST + 1 + arguments + entries * (1 + 4 * 4)


def test_lists_in_inputs_are_facts_about_the_variables() -> None:
    assert LIMITS.facts({"i": {"keywords": ["a"]}}) == LIMITS.facts({"i": {"keywords": ["b"]}})
    assert LIMITS.facts({"i": {"keywords": ["a"]}}) != LIMITS.facts({"i": {"keywords": ["a", "b"]}})


TYPED: list[tuple[str, dict[str, object]]] = [
    ('{ products(filter: { typed: "ab" }) { totalCountIsExact } }', {}),
    ("query ($t: String) { products(filter: { typed: $t }) { totalCountIsExact } }", {"t": "ab"}),
    ("query ($f: ProductFilter) { products(filter: $f) { totalCountIsExact } }", {"f": {"typed": "ab"}}),
    ('{ node(id: "x") { ... on Category { products(filter: { typed: "ab" }) { totalCountIsExact } } } }', {}),
]


@pytest.mark.parametrize(("text", "variables"), TYPED)
def test_each_word_that_is_typed_is_looked_up_so_a_typed_text_adds_to_the_cost(
    text: str, variables: dict[str, object]
) -> None:
    other = {**variables, "f": {"titleWord": "ab"}} if "f" in variables else variables
    weight = cost_within(LIMITS, text, variables) - cost_within(LIMITS, text.replace("typed", "titleWord"), other)

    assert weight == WEIGHTS_OF_FILTER["filter.typed"]


@pytest.mark.parametrize("nothing", [{"t": None}, {}])
def test_a_text_that_is_not_given_adds_nothing(nothing: dict[str, object]) -> None:
    text, given = TYPED[1]

    weight = cost_within(LIMITS, text, given) - cost_within(LIMITS, text, nothing)
    assert weight == WEIGHTS_OF_FILTER["filter.typed"]
    assert LIMITS.facts(nothing) != LIMITS.facts(given)
    assert LIMITS.facts({"f": {"typed": "ab"}}) != LIMITS.facts({"f": {"titleWord": "ab"}})
