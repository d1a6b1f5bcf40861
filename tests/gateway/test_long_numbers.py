"""Whole numbers of more than 64 bits in variables: they are never read as floats, whichever way a request comes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from portico.gateway.given_json import parse_exactly
from tests.support.harness import GatewayClient, create_product, product_input
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, body_of, upload_parts
from tests.support.sockets import POSTED, listening, opened, subscribe

CREATE = """mutation ($input: CreateProductInput!) { createProduct(input: $input) { __typename
  ... on InvalidInput { path code message }
  ... on ProductPayload { product { ... on GeneralProduct { details } } } } }"""
REFUSED = {
    "__typename": "InvalidInput",
    "path": ["details", "a"],
    "code": "OUT_OF_RANGE",
    "message": "A whole number must fit into 64 bits.",
}
LONG = [2**63, 2**64 - 1, 2**64, -(2**63) - 1, -(2**64), 10**30, -(10**308)]


def variables(number: Any) -> dict[str, Any]:
    return {"input": product_input(type="T", details={"a": number})}


@pytest.mark.parametrize("number", LONG, ids=lambda number: f"{number:.1e}")
async def test_details_refuse_a_whole_number_of_more_than_64_bits(gateway: GatewayClient, number: int) -> None:
    assert (await gateway.data(CREATE, variables(number)))["createProduct"] == REFUSED


@pytest.mark.parametrize("number", [1e30, -1.5e300, 0.12345678901234567890123, "1" * 30, -0.0])
async def test_details_accept_other_numbers_and_texts_with_many_digits(gateway: GatewayClient, number: Any) -> None:
    given = variables(number) | {"unused": 10**30}

    created = (await gateway.data(CREATE, given))["createProduct"]

    assert created["product"]["details"] == {"a": number}


async def test_a_float_may_be_written_with_many_digits(gateway: GatewayClient) -> None:
    product = await create_product(gateway, shipping={"weight": 10**22})

    stored = await gateway.db["products"].find_one({"sku": product["sku"]})
    assert stored is not None
    assert stored["shipping"]["weight"] == 1e22


async def test_a_multipart_body_keeps_whole_numbers(gateway: GatewayClient) -> None:
    headers = {"content-type": CONTENT_TYPE, "authorization": f"Bearer {gateway.token()}", **PREFLIGHT}

    answer = await gateway.http.post(
        "/graphql", content=body_of(upload_parts(CREATE, variables(2**64), {})), headers=headers
    )

    assert answer.json()["data"]["createProduct"] == REFUSED


async def test_a_socket_keeps_whole_numbers(gateway: GatewayClient) -> None:
    async with listening(gateway) as port, opened(port) as socket:
        await socket.init(gateway.token())
        await socket.subscribe("1", CREATE, variables(2**64))

        assert (await socket.receive())["payload"]["data"]["createProduct"] == REFUSED


async def test_a_subscription_and_a_live_query_may_have_them_in_their_variables(gateway: GatewayClient) -> None:
    given = {"unused": [10**30], "id": "x"}
    async with listening(gateway) as port, opened(port) as socket:
        await socket.init(gateway.token())
        await socket.send(subscribe("1", POSTED, variables=given))
        await socket.send(subscribe("2", "query @live { viewer { subject } }", variables=given))
        received = {message["id"]: message["payload"] for message in [await socket.receive() for _ in range(2)]}

    assert received["1"][0]["extensions"]["code"] == "NOT_FOUND"
    assert received["2"]["data"]["viewer"]


async def test_a_url_keeps_whole_numbers(reader: GatewayClient) -> None:
    query = "query ($n: Int) { products(first: $n) { __typename } }"

    answer = await reader.http.get("/graphql", params={"query": query, "variables": json.dumps({"n": 10**20})})

    assert "100000000000000000000" in answer.json()["errors"][0]["message"]


@pytest.mark.parametrize("text", [b'{"a": 18446744073709551616}', b"[0.18446744073709551616, -18446744073709551616]"])
def test_a_text_is_parsed_as_the_standard_library_does(text: bytes) -> None:
    assert parse_exactly(text) == json.loads(text)
