"""A refused operation names the field that weighs most, and what would fit. `portico explain` shows all weights."""

from __future__ import annotations

from typing import Any

import pytest
from graphql import OperationDefinitionNode, parse

from portico.gateway.operations.limits import Limits
from portico.gateway.operations.weights import Weighed
from portico.schema.kinds import Kind
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient

LIMITS = Limits(SCHEMA._schema, max_depth=20, max_cost=50_000)
WIDE = " ".join(f"a{number}: title" for number in range(600))


def weighed(text: str, variables: dict[str, Any] | None = None) -> tuple[float, list[Weighed]]:
    document = parse(text)
    operation = document.definitions[0]
    assert isinstance(operation, OperationDefinitionNode)
    given = variables or {}
    return LIMITS.check(document, operation, given), LIMITS.weights(document, operation, given)


OPERATIONS = [
    "{ products(first: 10) { nodes { title categories { name } } pageInfo { endCursor } } viewer { subject } }",
    "{ products { edges { node { ...P } } } } fragment P on Product { title tags: properties { name } }",
    '{ node(id: "x") { ... on Category { products(last: 7) { nodes { id } } children(first: 3) { nodes { id } } } } }',
    '{ nodes(ids: ["x", "y"]) { id ... on Product { title } } }',
    "mutation ($i: ServeAdsInput!) { serveAds(input: $i) { ... on ServedAdsPayload { ads { id } } } }",
    "{ viewer { characters { inventory { name } location { name } } orders(first: 3) { edges { node { id } } } } }",
]


@pytest.mark.parametrize("text", OPERATIONS)
def test_the_weights_of_the_root_fields_are_the_cost(text: str) -> None:
    cost, fields = weighed(text)

    assert sum(one.weight for one in fields) == pytest.approx(cost)
    assert_parts(fields)


def assert_parts(fields: list[Weighed]) -> None:
    """Asserts that the fields below a field weigh less than the field."""
    for one in fields:
        assert sum(inner.weight for inner in one.below) <= one.weight
        assert_parts(one.below)


@pytest.mark.parametrize(
    ("one", "many"),
    [
        ('nodes(ids: ["x"])', f"nodes(ids: [{', '.join(['x'.join(chr(34) * 2)] * 25)}])"),
        ("nodes(ids: $one)", "nodes(ids: $many)"),
    ],
)
def test_a_list_of_ids_costs_as_many_objects_as_it_has_ids(one: str, many: str) -> None:
    variables = {"one": ["x"], "many": ["x"] * 25}
    costs = [
        weighed(f"query ($one: [ID!]!, $many: [ID!]!) {{ {text} {{ id ... on Product {{ title sku }} }} }}", variables)[
            0
        ]
        for text in (one, many)
    ]

    assert costs[1] - 1 == 25 * (costs[0] - 1)


async def test_a_hundred_fields_of_one_object_by_its_id_are_cheap(reader: GatewayClient) -> None:
    selection = f"... on Product {{ {WIDE} }}"

    few = await reader.ask(f'{{ nodes(ids: ["{Kind.encode_id("Product", "p")}"]) {{ {selection} }} }}')
    many = await reader.ask(f"query ($ids: [ID!]!) {{ nodes(ids: $ids) {{ {selection} }} }}", {"ids": ["x"] * 100})

    assert few.data == {"nodes": [None]}
    assert many.codes == ["OPERATION_TOO_COMPLEX"]


@pytest.mark.parametrize("last", [1, 10])
def test_a_number_of_items_costs_as_many(last: int) -> None:
    text = f'{{ node(id: "x") {{ ... on Post {{ latestComments(last: {last}) {{ id posted }} }} }} }}'
    less, _ = weighed(text.replace("id posted", "id"))

    assert weighed(text)[0] - less == last


async def test_the_refusal_names_the_heaviest_field_and_the_size_that_fits(reader: GatewayClient) -> None:
    text = f"query ($first: Int) {{ viewer {{ subject }} list: products(first: $first) {{ nodes {{ {WIDE} }} }} }}"

    refused = await reader.ask(text, {"first": 100})

    (error,) = refused.body["errors"]
    assert error["message"] == (
        "The operation can return more than 50,000 fields. `list.nodes` weighs most: 60,100 of 60,123. "
        "With pages of about 83 for `list`, it fits."
    )
    assert (await reader.ask(text, {"first": 83})).codes == []
    assert (await reader.ask(text, {"first": 84})).codes == ["OPERATION_TOO_COMPLEX"]


async def test_the_refusal_of_a_list_without_pages_names_it(reader: GatewayClient) -> None:
    prices = " ".join(f"p{number}: price" for number in range(200))

    (error,) = (await reader.ask(f'{{ location(id: "x") {{ inventory {{ id {prices} }} }} }}')).body["errors"]

    assert "`location.inventory` weighs most: " in error["message"]
    assert error["message"].endswith("Ask for smaller pages, or select fewer fields below it.")


async def test_fragments_without_a_field_are_refused_as_fast_as_any(reader: GatewayClient) -> None:
    """Each fragment spreads the next one twice: without a bound, the weights of the last are taken 2^60 times."""
    chain = " ".join(f"fragment F{number} on Product {{ ...F{number + 1} ...F{number + 1} }}" for number in range(60))
    page = "products(first: 100) { nodes { ...F0 categories { children(first: 100) { nodes { name slug } } } } }"
    text = f"{{ {page} }} {chain} fragment F60 on Product {{ __typename }}"

    (error,) = (await reader.ask(text)).body["errors"]

    assert error["message"].startswith("The operation can return more than 50,000 fields. `products.nodes")
