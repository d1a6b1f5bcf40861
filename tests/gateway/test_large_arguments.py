"""Large arguments: each field converts and checks its own, so they add to the cost of an operation by their size.

A variable counts in each field that uses it. Small values are free. Integers that are too large get one clear message,
at every place in an operation.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from portico.schema.kinds import Kind
from tests.support.aliases import aliased
from tests.support.harness import GatewayClient

BY_TAG = "contentByTag(first: 1, tag: $tag) { nodes { id } }"
FILTERED = "products(first: 1, filter: $filter) { nodes { id } }"
# 600,000 bytes, as JSON is sent.
LONG = "É" * 300_000
MANY = {"categoryIds": [""] * 70_000}
SPREAD = """query ($tag: String!) { ...Tagged ...Other ...Other }
  fragment Other on Query { ...Tagged ...Tagged ...Tagged ...Tagged }
  fragment Tagged on Query { contentByTag(first: 1, tag: $tag) { nodes { id } } }"""


async def refusal(gateway: GatewayClient, query: str, variables: dict[str, Any] | None = None) -> str:
    answer = await gateway.ask(query, variables)
    assert answer.codes == ["OPERATION_TOO_COMPLEX"], answer.body
    message: str = answer.body["errors"][0]["message"]
    return message


@pytest.mark.parametrize(
    ("query", "variables"),
    [
        (f"query ($tag: String!) {{ {aliased(BY_TAG, 10)} }}", {"tag": LONG}),
        (f"query ($filter: ProductFilter) {{ {FILTERED} }}", {"filter": MANY}),
        (f"query ($filter: ProductFilter) {{ {aliased(FILTERED, 30)} }}", {"filter": {"genres": [""] * 3_000}}),
        ("query ($ids: [ID!]!) { products(filter: { categoryIds: $ids }) { nodes { id } } }", {"ids": ["x"] * 70_000}),
        (f"query ($id: ID!) {{ {aliased('node(id: $id) { id }', 10)} }}", {"id": Kind.encode_id("Product", LONG)}),
        (
            "query ($after: String) { categories(first: 100) { nodes { products(after: $after) { nodes { id } } } } }",
            {"after": LONG},
        ),
        (SPREAD, {"tag": LONG}),
        (
            "mutation ($hits: [HitInput!]!) { " + aliased("recordHits(input: $hits) { __typename }", 40) + " }",
            {"hits": [{"site": "", "page": ""}] * 1_000},
        ),
    ],
    ids=["text", "list", "lists", "list in an input", "id", "cursor of rows", "fragments", "mutation"],
)
async def test_a_variable_counts_by_its_size_in_each_field_that_uses_it(
    gateway: GatewayClient, query: str, variables: dict[str, Any]
) -> None:
    message = await refusal(gateway, query, variables)
    assert f"The variable `{next(iter(variables))}` counts as " in message


async def test_a_long_default_and_a_long_literal_count_like_a_variable(gateway: GatewayClient) -> None:
    default = f'query ($tag: String! = "{LONG}") {{ {aliased(BY_TAG, 10)} }}'
    literal = f'query {{ ...T ...A ...B }} fragment T on Query {{ node(id: "{LONG}") {{ id }} }} '
    literal += "fragment A on Query { ...T ...T ...B } fragment B on Query { ...T ...T ...T }"

    assert "The variable `tag` counts as 6,000 in each field" in await refusal(gateway, default)
    assert "`node` weighs most: 6,00" in await refusal(gateway, literal)


async def test_the_advice_names_the_field_and_the_variable(gateway: GatewayClient) -> None:
    message = await refusal(gateway, f"query ($filter: ProductFilter) {{ {FILTERED} }}", {"filter": MANY})

    assert message == (
        "The operation can return more than 50,000 fields. `products` weighs most: 52,523 of 52,523. Ask for smaller "
        "pages, or select fewer fields below it. The variable `filter` counts as 52,500 in each field that uses it."
    )


async def test_one_use_of_the_longest_text_is_allowed(gateway: GatewayClient) -> None:
    long = {"id": Kind.encode_id("Product", "x" * 700_000)}

    assert await gateway.data("query ($id: ID!) { node(id: $id) { id } }", long) == {"node": None}


async def test_small_variables_cost_nothing(gateway: GatewayClient) -> None:
    query = f"query ($tag: String!) {{ {aliased(BY_TAG, 10)} }}"
    operations = gateway.state.executor.operations
    found = operations.get(query)

    costs = [operations.check(found, None, {"tag": "x" * length})[1] for length in (1, 999, 1_000)]
    assert costs[0] == costs[1] == costs[2] - 10 * 20


async def test_a_tag_to_search_for_has_a_bound(gateway: GatewayClient) -> None:
    query = f"query ($tag: String!) {{ {BY_TAG} }}"

    answer = await gateway.ask(query, {"tag": "x" * 1_001})
    assert answer.codes == ["BAD_USER_INPUT"]
    assert answer.body["errors"][0]["message"] == "Tag has 1,001 characters; 1,000 are allowed."
    assert await gateway.data(query, {"tag": "x" * 1_000}) == {"contentByTag": {"nodes": []}}


SHOWN = "1" * 20 + "… (5,000 digits)"
LARGE = {"20 digits": "1" + "0" * 20, "5,000 digits": "1" * 5_000}
PRODUCT = (
    'mutation {{ createProduct(input: {{ sku: "a", type: "b", title: "c", pricing: {{ list: {{ amount: 1 }}, '
    "retail: {{ amount: 1 }} }}, FIELD }}) {{ __typename }} }}"
)
# An integer at each place, by the type of the place.
INTS = [
    "{{ products(first: {}) {{ nodes {{ id }} }} }}",
    "query ($n: Int = {}) {{ products(first: $n) {{ __typename }} }}",
]
BIG_INTS = [
    "{{ products(filter: {{ minPrice: {} }}) {{ nodes {{ id }} }} }}",
    "query ($n: BigInt = {}) {{ products(filter: {{ minPrice: $n }}) {{ __typename }} }}",
]
OTHERS = [
    "{{ node(id: {}) {{ id }} }}",
    "{{ nodes(ids: [{}]) {{ id }} }}",
    "query ($id: ID = {}) {{ node(id: $id) {{ id }} }}",
    "{{ category(slug: {}) {{ id }} }}",
    "{{ products(sort: {}) {{ nodes {{ id }} }} }}",
    "{{ products(filter: {}) {{ nodes {{ id }} }} }}",
    "{{ products(filter: {{ inStock: {} }}) {{ nodes {{ id }} }} }}",
    "{{ __typename @include(if: {}) }}",
    "{{ __typename @unknown(if: {}) }}",
    "{{ products(unknown: {}) {{ nodes {{ id }} }} }}",
    PRODUCT.replace("FIELD", "shipping: {{ weight: {} }}"),
    PRODUCT.replace("FIELD", "details: {{ a: [{{ b: {} }}] }}"),
    PRODUCT.replace("FIELD", "issueDate: {}"),
    'mutation {{ uploadPhoto(input: {{ galleryId: "a", slug: "b", title: "c", file: {} }}) {{ __typename }} }}',
]
RANGES = {"Int": (2_147_483_647, INTS), "BigInt": (9_007_199_254_740_991, BIG_INTS)}


@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("name", RANGES)
async def test_an_integer_out_of_range_is_refused_with_the_range(reader: GatewayClient, name: str, sign: str) -> None:
    most, places = RANGES[name]
    lowest = -most - 1 if name == "Int" else -most
    bound = f"`{name}` must be between {lowest} and {most}."
    wrong = "small" if sign else "large"
    for text in places:
        for literal, shown in zip(LARGE.values(), (LARGE["20 digits"], SHOWN), strict=True):
            answer = await reader.ask(text.format(sign + literal))

            assert answer.codes == ["GRAPHQL_VALIDATION_FAILED"]
            assert answer.body["errors"][0]["message"] == f"The integer {sign}{shown} is too {wrong}: {bound}"
            assert answer.body["errors"][0]["locations"]


@pytest.mark.parametrize("text", OTHERS)
async def test_an_integer_of_thousands_of_digits_is_refused_everywhere(reader: GatewayClient, text: str) -> None:
    answer = await reader.ask(text.format(LARGE["5,000 digits"]))

    assert answer.codes == ["GRAPHQL_VALIDATION_FAILED"]
    assert answer.body["errors"][0]["message"] == f"The integer {SHOWN} is too large: it can have at most 309 digits."


async def test_the_largest_integers_of_a_type_are_accepted(reader: GatewayClient) -> None:
    for number in (9_007_199_254_740_991, -9_007_199_254_740_991):
        assert (await reader.ask(BIG_INTS[0].format(number))).data
    for number in (2_147_483_647, -2_147_483_648):
        refused = (await reader.ask(INTS[0].format(number))).body["errors"][0]["message"]
        assert refused == f"`first` must be between 1 and 100; got {number}."
    # It is an `ID`, but of no object.
    assert await reader.data(OTHERS[1].format("9" * 309)) == {"nodes": [None]}


@pytest.mark.parametrize("digits", LARGE)
@pytest.mark.parametrize("name", RANGES)
async def test_a_variable_out_of_range_is_refused_with_the_range(reader: GatewayClient, name: str, digits: str) -> None:
    most, places = RANGES[name]
    text = places[1].format(1)
    body = json.dumps({"query": text, "variables": {"n": 0}}).replace('"n": 0', f'"n": {LARGE[digits]}')

    response = await reader.http.post("/graphql", content=body, headers={"content-type": "application/json"})

    (error,) = response.json()["errors"]
    assert error["extensions"]["code"] in {"BAD_USER_INPUT", "BAD_REQUEST"}
    assert len(error["message"]) < 200
    assert "digits) for integer string" not in error["message"]
    if digits == "20 digits":
        assert ("32-bit" if name == "Int" else f"`BigInt` must be between {-most} and {most}.") in error["message"]
