"""Operations with files over HTTP: one field reads each file, and the answer has the form that the client accepts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import httpx
import pytest

from tests.content.support.photos import picture
from tests.support.harness import GatewayClient, create_product
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, body_of, upload_parts

ONE_READER = (
    "The gateway reads a file as it arrives, once. Send it again, as another part, for each field that uses it."
)
EVENTS = "text/event-stream; charset=utf-8"
ADDED = "{ __typename ... on ImagesPayload { product { sku images(first: 1) { alt } } } }"
ADD = f"mutation ($a: AddImageInput!) {{ addImage(input: $a) {ADDED} }}"
BOTH = f"""mutation ($a: AddImageInput!, $b: AddImageInput!) {{
  a: addImage(input: $a) {ADDED}
  b: addImage(input: $b) {ADDED}
}}"""
SHARED = f"""mutation ($id: ID!, $file: Upload!) {{
  a: addImage(input: {{ ofId: $id, file: $file, alt: "a" }}) {ADDED}
  ...Second
}}
fragment Second on Mutation {{ b: addImage(input: {{ ofId: $id, file: $file, alt: "b" }}) {ADDED} }}"""
ONE_OF_TWO = f"""mutation ($id: ID!, $file: Upload!, $isFirst: Boolean!) {{
  a: addImage(input: {{ ofId: $id, file: $file, alt: "a" }}) @include(if: $isFirst) {ADDED}
  b: addImage(input: {{ ofId: $id, file: $file, alt: "b" }}) @skip(if: $isFirst) {ADDED}
}}"""


async def send(
    gateway: GatewayClient, query: str, variables: dict[str, Any], *paths: Sequence[str], accept: str = ""
) -> httpx.Response:
    """Sends an operation with the same picture for each of the lists of paths."""
    files = {str(number): (list(each), picture()) for number, each in enumerate(paths)}
    headers = {"content-type": CONTENT_TYPE, **PREFLIGHT, "authorization": f"Bearer {gateway.token()}"}
    if accept:
        headers["accept"] = accept
    body = body_of(upload_parts(query, variables, files))
    return await gateway.http.post("/graphql", content=body, headers=headers)


def added(sku: str, alt: str) -> dict[str, Any]:
    return {"__typename": "ImagesPayload", "product": {"sku": sku, "images": [{"alt": alt}]}}


def assert_refused(response: httpx.Response, code: str, message: str) -> None:
    assert response.status_code == 400
    assert response.json() == {"errors": [{"message": message, "extensions": {"code": code}}]}


async def test_a_file_with_several_paths_is_refused_before_anything_runs(gateway: GatewayClient) -> None:
    a, b = await create_product(gateway, sku="A"), await create_product(gateway, sku="B")
    variables = {"a": {"ofId": a["id"], "file": None, "alt": "a"}, "b": {"ofId": b["id"], "file": None, "alt": "b"}}

    refused = await send(gateway, BOTH, variables, ["variables.a.file", "variables.b.file"])
    again = await send(gateway, BOTH, variables, ["variables.a.file"], ["variables.b.file"])

    assert_refused(refused, "BAD_REQUEST", f"`map` can have one path for each file. {ONE_READER}")
    assert again.json() == {"data": {"a": added("A", "a"), "b": added("B", "b")}}


async def test_a_variable_with_a_file_in_several_fields_is_refused_before_anything_runs(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")

    refused = await send(gateway, SHARED, {"id": product["id"], "file": None}, ["variables.file"])

    assert_refused(refused, "BAD_USER_INPUT", f"The fields `a` and `b` both use the file of `$file`. {ONE_READER}")
    assert await gateway.db["images"].count_documents({}) == 0


@pytest.mark.parametrize(("is_first", "name"), [(True, "a"), (False, "b")])
async def test_one_of_several_fields_reads_the_file(gateway: GatewayClient, is_first: bool, name: str) -> None:
    product = await create_product(gateway, sku="A")
    variables = {"id": product["id"], "file": None, "isFirst": is_first}

    response = await send(gateway, ONE_OF_TWO, variables, ["variables.file"])

    assert response.json() == {"data": {name: added("A", name)}}


async def test_the_answer_comes_as_events_if_the_client_accepts_nothing_else(gateway: GatewayClient) -> None:
    product = await create_product(gateway, sku="A")
    variables, path = {"a": {"ofId": product["id"], "file": None, "alt": "a"}}, ["variables.a.file"]

    streamed = await send(gateway, ADD, variables, path, accept="text/event-stream")
    invalid = await send(gateway, "{ nothing }", variables, path, accept="text/event-stream")
    both = await send(gateway, ADD, variables, path, accept="text/event-stream, application/json")

    assert (streamed.status_code, streamed.headers["content-type"]) == (200, EVENTS)
    head, data, *end = streamed.text.splitlines()
    assert (head, *end) == ("event: next", "", "event: complete", "data: ", "")
    assert json.loads(data.removeprefix("data: ")) == {"data": {"addImage": added("A", "a")}}
    assert invalid.headers["content-type"] == EVENTS
    assert "GRAPHQL_VALIDATION_FAILED" in invalid.text
    assert both.json() == {"data": {"addImage": added("A", "a")}}
