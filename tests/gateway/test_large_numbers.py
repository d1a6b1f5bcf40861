"""Integers that are too large get one clear message, at every place in an operation."""

from __future__ import annotations

import json

import pytest

from tests.support.harness import GatewayClient

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
    for text in places:
        for literal, shown in zip(LARGE.values(), (LARGE["20 digits"], SHOWN), strict=True):
            answer = await reader.ask(text.format(sign + literal))

            assert answer.codes == ["GRAPHQL_VALIDATION_FAILED"]
            assert answer.body["errors"][0]["message"] == f"The integer {sign}{shown} is too large: {bound}"
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
