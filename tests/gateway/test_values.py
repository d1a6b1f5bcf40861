"""How the values of a request are parsed: integers, dates with times, and JSON of any shape."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.harness import GatewayClient, create_product, product_input

CREATE = (
    "mutation ($input: CreateProductInput!) { createProduct(input: $input) "
    "{ __typename ... on ProductPayload { product { issueDate pricing { list { amount } } "
    "... on GeneralProduct { details } } } ... on InvalidInput { path } } }"
)
LITERAL = (
    'mutation ($text: String, $list: [Int]) {{ createProduct(input: {{ sku: "A", type: "T", title: "T", '
    "pricing: {{ list: {{ amount: {amount} }}, retail: {{ amount: 1 }} }}, details: {details} }}) "
    "{{ __typename ... on ProductPayload {{ product {{ pricing {{ list {{ amount }} }} "
    "... on GeneralProduct {{ details }} }} }} ... on InvalidInput {{ path }} }} }}"
)


def priced(amount: Any) -> dict[str, Any]:
    return product_input(pricing={"list": {"amount": amount}, "retail": {"amount": 1}})


# The size of a page


@pytest.mark.parametrize("first", [1, 100, 1.0, None])
async def test_a_page_has_1_to_100_rows(gateway: GatewayClient, first: float | None) -> None:
    await create_product(gateway, sku="A")

    found = await gateway.data("query ($n: Int) { products(first: $n) { nodes { sku } } }", {"n": first})

    assert found == {"products": {"nodes": [{"sku": "A"}]}}


@pytest.mark.parametrize("first", [0, -1, 101, 2**31 - 1, -(2**31)])
async def test_a_page_of_another_size_is_refused(reader: GatewayClient, first: int) -> None:
    answer = await reader.ask("query ($n: Int) { products(first: $n) { nodes { sku } } }", {"n": first})

    assert answer.body["errors"][0]["message"] == f"`first` must be between 1 and 100; got {first}."
    assert answer.body["errors"][0]["extensions"] == {"code": "BAD_USER_INPUT", "argument": ["first"]}


@pytest.mark.parametrize("first", [2**31, -(2**31) - 1, 1.5, "1", True, [1], {"a": 1}, 1e300])
async def test_a_page_size_must_be_a_32_bit_integer(reader: GatewayClient, first: Any) -> None:
    answer = await reader.ask("query ($n: Int) { products(first: $n) { nodes { sku } } }", {"n": first})

    assert answer.codes == ["BAD_USER_INPUT"]
    assert "data" not in answer.body


@pytest.mark.parametrize("literal", ["2147483648", "9" * 100, "9" * 5000, "1.5", '"1"', "true", "[1]", "{a: 1}", "ONE"])
async def test_an_invalid_literal_for_a_page_size_is_refused(reader: GatewayClient, literal: str) -> None:
    answer = await reader.ask("{ products(first: " + literal + ") { nodes { sku } } }")

    assert answer.codes == ["GRAPHQL_VALIDATION_FAILED"]


# BigInt


@pytest.mark.parametrize(("amount", "kept"), [(2**53 - 1, 2**53 - 1), (1200.0, 1200), (9007199254740991.0, 2**53 - 1)])
async def test_a_big_int_has_up_to_53_bits(gateway: GatewayClient, amount: float, kept: int) -> None:
    created = (await gateway.data(CREATE, {"input": priced(amount)}))["createProduct"]

    assert created["product"]["pricing"]["list"] == {"amount": kept}
    assert isinstance(created["product"]["pricing"]["list"]["amount"], int)


@pytest.mark.parametrize("amount", [2**53, -(2**53), 2**64, 10**30, 1e300, 12.5, "12", True, [1], {}, None])
async def test_a_big_int_that_is_out_of_range_or_not_an_integer_is_refused(reader: GatewayClient, amount: Any) -> None:
    answer = await reader.ask(CREATE, {"input": priced(amount)})

    assert answer.codes == ["BAD_USER_INPUT"]
    assert "data" not in answer.body


@pytest.mark.parametrize(
    ("amount", "shown"), [(True, "true"), ("É", '"É"'), ([None, 1.5], "[null, 1.5]"), ({"a": "b" * 99}, None)]
)
async def test_a_value_that_is_not_a_big_int_is_shown_as_json(
    reader: GatewayClient, amount: Any, shown: str | None
) -> None:
    answer = await reader.ask(CREATE, {"input": priced(amount)})

    shown = shown or '{"a": "' + "b" * 53 + "…"
    assert answer.body["errors"][0]["message"].endswith(f"a value that is not a whole number: {shown}.")


@pytest.mark.parametrize("amount", ["9007199254740992", "9" * 300, "9" * 5000, "1.5", "1e999", '"1"', "true", "null"])
async def test_an_invalid_literal_for_a_big_int_is_refused(reader: GatewayClient, amount: str) -> None:
    answer = await reader.ask(LITERAL.format(amount=amount, details="{}"))

    assert set(answer.codes) == {"GRAPHQL_VALIDATION_FAILED"}
    assert len(answer.body["errors"][0]["message"]) < 500


# DateTime


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2012-03-09T20:55:36.000Z", "2012-03-09T20:55:36.000Z"),
        ("2012-03-09T20:55:36Z", "2012-03-09T20:55:36.000Z"),
        ("2012-03-09t20:55:36z", "2012-03-09T20:55:36.000Z"),
        ("2012-03-09T20:55:36.1239Z", "2012-03-09T20:55:36.123Z"),
        ("2012-03-09T20:55:36.123456789Z", "2012-03-09T20:55:36.123Z"),
        ("2012-03-09T20:55:36+01:00", "2012-03-09T19:55:36.000Z"),
        ("2012-03-09T20:55:36-23:59", "2012-03-10T20:54:36.000Z"),
        ("2012-03-09T20:55:36-00:00", "2012-03-09T20:55:36.000Z"),
        ("2012-02-29T00:00:00Z", "2012-02-29T00:00:00.000Z"),
        ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"),
        ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"),
    ],
)
async def test_a_date_time_is_stored_in_utc_to_the_millisecond(gateway: GatewayClient, given: str, kept: str) -> None:
    created = (await gateway.data(CREATE, {"input": product_input(issueDate=given)}))["createProduct"]

    assert created["product"]["issueDate"] == kept


@pytest.mark.parametrize(
    "given",
    [
        "2012-03-09",
        "2012-03-09T20:55:36",
        "2012-03-09 20:55:36Z",
        "2012-03-09T20:55Z",
        "2012-03-09T20:55:36+0100",
        "2012-03-09T20:55:36+24:00",
        "2012-03-09T20:55:36+00:60",
        "2012-03-09T20:55:36-01:99",
        "2012-02-30T00:00:00Z",
        "2013-02-29T00:00:00Z",
        "2012-13-01T00:00:00Z",
        "2012-03-09T24:00:00Z",
        "2012-03-09T20:55:60Z",
        "0000-01-01T00:00:00Z",
        "0001-01-01T00:00:00+23:59",
        "9999-12-31T23:59:59-00:01",
        "10000-01-01T00:00:00Z",
        "-2012-03-09T20:55:36Z",
        "2012-W10-5T00:00:00Z",
        "\uff12\uff10\uff11\uff12-03-09T20:55:36Z",
        "2012-03-09T20:55:36Z\n",
        "now",
        "",
        1331326536,
        1.5,
        True,
        ["2012-03-09T20:55:36Z"],
    ],
)
async def test_an_invalid_date_time_is_refused(reader: GatewayClient, given: Any) -> None:
    answer = await reader.ask(CREATE, {"input": product_input(issueDate=given)})

    assert answer.codes == ["BAD_USER_INPUT"]
    assert "DateTime" in answer.body["errors"][0]["message"]


# The place of a wrong literal


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ('{ pageCounts(from: "2026-03-01T00:00:00Z", to: "x") { path } }', '"x"'),
        ("{ pageCounts(from: 5, to: 6) { path } }", "5"),
        ('{ products(filter: { minPrice: "100" }) { nodes { sku } } }', '"100"'),
        ("{ products(filter: { minPrice: 9007199254740992 }) { nodes { sku } } }", "9007199254740992"),
        ('query ($least: BigInt = "1") { products(filter: { minPrice: $least }) { nodes { sku } } }', '"1"'),
        ("{ products(first: true) { nodes { sku } } }", "true"),
    ],
)
async def test_a_wrong_literal_is_refused_with_its_place(reader: GatewayClient, query: str, wrong: str) -> None:
    answer = await reader.ask(query)

    assert answer.body["errors"][0]["locations"] == [{"line": 1, "column": query.index(wrong) + 1}], answer.body
    assert all("locations" in error for error in answer.body["errors"])


# JSON


@pytest.mark.parametrize(
    ("literal", "kept"),
    [
        ("{}", {}),
        ("{ a: 1, b: 1.5, c: true, d: null, e: [1, [2]], f: { g: ONE } }", None),
        (
            "{ text: $text, list: $list, both: [$text, $list] }",
            {"text": "x", "list": [1, None], "both": ["x", [1, None]]},
        ),
        ("{ n: 9223372036854775807 }", {"n": 9223372036854775807}),
        ("{ n: -9223372036854775808 }", {"n": -9223372036854775808}),
        ('{ a: """block""" }', {"a": "block"}),
    ],
)
async def test_a_json_literal_may_contain_variables(gateway: GatewayClient, literal: str, kept: Any) -> None:
    query = LITERAL.format(amount=1, details=literal)
    used = {"text": "x", "list": [1, None]} if "$text" in literal else {}
    if not used:
        query = query.replace("($text: String, $list: [Int]) ", "")

    created = (await gateway.data(query, used))["createProduct"]

    expected = {"a": 1, "b": 1.5, "c": True, "d": None, "e": [1, [2]], "f": {"g": "ONE"}} if kept is None else kept
    assert created["product"]["details"] == expected


async def test_a_variable_that_is_not_given_leaves_out_its_json_field(gateway: GatewayClient) -> None:
    query = LITERAL.format(amount=1, details="{ a: 1, text: $text, both: [$text, $list] }")

    created = (await gateway.data(query, {"list": None}))["createProduct"]

    assert created["product"]["details"] == {"a": 1, "both": [None, None]}


@pytest.mark.parametrize("number", ["9" * 5000, "1e999", "-1e999"])
async def test_a_number_that_json_cannot_represent_is_refused(gateway: GatewayClient, number: str) -> None:
    query = LITERAL.format(amount=1, details="{ a: [" + number + "] }").replace("($text: String, $list: [Int]) ", "")

    answer = await gateway.ask(query)

    assert answer.codes == ["GRAPHQL_VALIDATION_FAILED"]
    assert await gateway.db["products"].count_documents({}) == 0


@pytest.mark.parametrize("number", ["9223372036854775808", "-9223372036854775809", "9" * 300])
async def test_an_integer_of_more_than_64_bits_is_an_invalid_input(gateway: GatewayClient, number: str) -> None:
    query = LITERAL.format(amount=1, details="{ n: " + number + " }").replace("($text: String, $list: [Int]) ", "")

    created = (await gateway.data(query))["createProduct"]

    assert created == {"__typename": "InvalidInput", "path": ["details", "n"]}


@pytest.mark.parametrize("details", [1, "text", True, [], [{}]])
async def test_details_must_be_an_object(gateway: GatewayClient, details: Any) -> None:
    created = (await gateway.data(CREATE, {"input": product_input(type="T", details=details)}))["createProduct"]

    assert created == {"__typename": "InvalidInput", "path": ["details"]}


# Inputs


@pytest.mark.parametrize(
    "change",
    [
        {"nonsense": 1},
        {"sku": None},
        {"sku": 1},
        {"title": ["T"]},
        {"properties": [{"name": "a"}]},
        {"properties": [None]},
        {"categoryIds": [1.5]},
        {"pricing": None},
        {"pricing": {"list": {"amount": 1}}},
        {"shipping": {"weight": "heavy"}},
    ],
)
async def test_an_input_of_the_wrong_shape_is_refused_before_any_command(
    gateway: GatewayClient, change: dict[str, Any]
) -> None:
    gateway.commands.clear()

    answer = await gateway.ask(CREATE, {"input": product_input(**change)})

    assert answer.codes == ["BAD_USER_INPUT"]
    assert gateway.commands.sent == []
