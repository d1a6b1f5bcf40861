"""GraphQL over HTTP: methods, media types and bodies, and the error for each invalid one."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, running
from tests.support.wire import through_wire

JSON = "application/json; charset=utf-8"
RESPONSE = "application/graphql-response+json; charset=utf-8"
QUERY = "{ viewer { subject } }"
CATEGORY = "query Named($slug: String!) { category(slug: $slug) { name } } query Other { __typename }"
MUTATION = (
    'mutation { createCategory(input: { name: "A", slug: "a" }) { __typename } } query Reading { viewer { subject } }'
)


async def post(
    gateway: GatewayClient, body: bytes | str | Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> httpx.Response:
    content = json.dumps(body) if isinstance(body, Mapping) else body
    sent = {"content-type": "application/json", **(headers or {})}
    return await gateway.http.post("/graphql", content=content, headers=sent)


async def get(gateway: GatewayClient, headers: Mapping[str, str] | None = None, **parameters: str) -> httpx.Response:
    return await gateway.http.get("/graphql", params=parameters, headers=dict(headers or {}))


def assert_refused(response: httpx.Response, status: int, code: str) -> None:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] in {JSON, RESPONSE}
    assert response.headers["cache-control"] == "no-store"
    body = response.json()
    assert list(body) == ["errors"]
    assert [error["extensions"]["code"] for error in body["errors"]] == [code]
    assert all(error["message"] for error in body["errors"])


@pytest.mark.parametrize(
    ("accept", "media_type"),
    [
        ("application/json", JSON),
        ("application/graphql-response+json", RESPONSE),
        ("APPLICATION/JSON; charset=utf-8", JSON),
        ("*/*", JSON),
        ("application/*", JSON),
        ("", JSON),
        ("application/graphql-response+json, application/json", RESPONSE),
        ("application/json, application/graphql-response+json", RESPONSE),
        ("application/graphql-response+json;q=0.1, application/json;q=0.2", JSON),
        ("application/json;q=0.1, application/graphql-response+json;q=0.2", RESPONSE),
        ("text/html, application/xhtml+xml, */*;q=0.8", JSON),
        ("text/html, application/graphql-response+json;q=0.5, */*;q=0.1", RESPONSE),
        ("application/json;q=0, */*", RESPONSE),
        ("application/graphql-response+json;q=0.5, */*;q=0.8", JSON),
        ("application/json;q=0.5, */*;q=0.8", RESPONSE),
        ("application/json;q=nonsense, application/graphql-response+json", RESPONSE),
    ],
)
async def test_the_answer_has_the_media_type_that_the_client_prefers(
    reader: GatewayClient, accept: str, media_type: str
) -> None:
    response = await post(reader, {"query": QUERY}, {"accept": accept})

    assert response.status_code == 200
    assert response.headers["content-type"] == media_type
    assert response.json() == {"data": {"viewer": None}}


async def test_a_client_without_an_accept_header_gets_plain_json(reader: GatewayClient) -> None:
    del reader.http.headers["accept"]

    response = await post(reader, {"query": QUERY})

    assert response.headers["content-type"] == JSON


async def test_several_accept_headers_are_combined(reader: GatewayClient) -> None:
    headers = [("accept", "text/html"), ("accept", "application/json"), ("content-type", "application/json")]

    response = await reader.http.post("/graphql", content=json.dumps({"query": QUERY}), headers=headers)

    assert response.status_code == 200


@pytest.mark.parametrize("accept", ["text/html", "image/*", "application/json;q=0", "nonsense", ";;,,", "*/*;q=7"])
async def test_a_client_that_accepts_no_json_gets_an_error_in_json(reader: GatewayClient, accept: str) -> None:
    response = await post(reader, {"query": QUERY}, {"accept": accept})

    assert_refused(response, 406, "NOT_ACCEPTABLE")


async def test_an_invalid_operation_is_400_only_for_clients_that_accept_the_newer_media_type(
    reader: GatewayClient,
) -> None:
    for accept, status in (("application/graphql-response+json", 400), ("application/json", 200)):
        response = await post(reader, {"query": "{ nonsense }"}, {"accept": accept})
        assert_refused(response, status, "GRAPHQL_VALIDATION_FAILED")


async def test_an_operation_that_started_is_200_with_data_and_errors(reader: GatewayClient) -> None:
    query = "{ viewer { subject } products(first: 0) { nodes { id } } }"

    response = await post(reader, {"query": query}, {"accept": "application/graphql-response+json"})

    assert response.status_code == 200
    assert response.json()["data"] == {"viewer": None, "products": None}
    assert [error["path"] for error in response.json()["errors"]] == [["products"]]


async def test_every_answer_has_its_own_request_id(reader: GatewayClient) -> None:
    answers = [
        await post(reader, {"query": QUERY}),
        await post(reader, {"query": QUERY}, {"traceparent": "nonsense"}),
        await post(reader, "not json"),
        await reader.http.delete("/graphql"),
    ]

    ids = {answer.headers["x-request-id"] for answer in answers}

    assert len(ids) == 4
    assert all(len(request_id) == 32 and int(request_id, 16) for request_id in ids)


async def test_a_query_may_be_sent_by_get_with_variables_and_an_operation_name(gateway: GatewayClient) -> None:
    await gateway.result("createCategory", {"name": "Jazz", "slug": "jazz"})

    response = await get(gateway, query=CATEGORY, variables='{"slug": "jazz"}', operationName="Named")

    assert response.status_code == 200
    assert response.json() == {"data": {"category": {"name": "Jazz"}}}


async def test_empty_parameters_are_ignored(reader: GatewayClient) -> None:
    response = await get(reader, query=QUERY, variables="", operationName="", extensions="")

    assert response.json() == {"data": {"viewer": None}}


@pytest.mark.parametrize(
    "query_string",
    [
        "",
        "query=",
        "query=%7B&variables=nonsense",
        "query=%7Bviewer%7Bsubject%7D%7D&variables=%5B1%5D",
        "query=%7Bviewer%7Bsubject%7D%7D&variables=" + "%5B" * 2000,
        "query=%7Bviewer%7Bsubject%7D%7D&extensions=1",
        "query=%FF%FE",
        "query=%7B%7D&" + "&".join(f"x{number}=1" for number in range(30)),
        "=&=&=",
    ],
)
async def test_an_invalid_get_is_refused(reader: GatewayClient, query_string: str) -> None:
    response = await reader.http.get(f"/graphql?{query_string}")

    assert_refused(response, 400, "BAD_REQUEST")


async def test_a_mutation_by_get_is_refused(reader: GatewayClient) -> None:
    refused = await get(reader, query='mutation { createCategory(input: { name: "A", slug: "a" }) { __typename } }')
    named = await get(reader, query=MUTATION.replace("mutation", "mutation Writing"), operationName="Writing")
    reading = await get(reader, query=MUTATION.replace("mutation", "mutation Writing"), operationName="Reading")

    for response in (refused, named):
        assert_refused(response, 405, "METHOD_NOT_ALLOWED")
        assert response.headers["allow"] == "POST"
    assert reading.json() == {"data": {"viewer": None}}
    assert await reader.db["categories"].count_documents({}) == 0


async def test_head_is_get_without_a_body(reader: GatewayClient) -> None:
    response = await reader.http.head("/graphql", params={"query": QUERY})

    assert (response.status_code, response.headers["content-type"]) == (200, JSON)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"])
async def test_other_methods_are_refused_with_a_list_of_the_allowed_ones(reader: GatewayClient, method: str) -> None:
    response = await reader.http.request(method, "/graphql", content=json.dumps({"query": QUERY}))

    assert_refused(response, 405, "METHOD_NOT_ALLOWED")
    assert response.headers["allow"] == "GET, HEAD, POST"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b" ",
        b"null",
        b"1",
        b'"x"',
        b"[]",
        b"true",
        b"{}",
        b"{",
        b"not json",
        b"query { viewer { subject } }",
        b"query=%7Bviewer%7Bsubject%7D%7D",
        b'[{"query": "{ viewer { subject } }"}]',
        b'{"query": null}',
        b'{"query": ""}',
        b'{"query": "  \\n "}',
        b'{"query": 1}',
        b'{"query": ["{ viewer { subject } }"]}',
        b'{"query": "{ viewer { subject } }", "variables": []}',
        b'{"query": "{ viewer { subject } }", "variables": "{}"}',
        b'{"query": "{ viewer { subject } }", "variables": 1}',
        b'{"query": "{ viewer { subject } }", "operationName": 1}',
        b'{"query": "{ viewer { subject } }", "extensions": []}',
        b'{"query": "\xff\xfe"}',
        b'{"query": "\\ud800"}',
        '{"query": "{ viewer { subject } }"}'.encode("utf-16"),
        b'{"query": "{ viewer { subject } }", "variables": {"n": ' + b"9" * 5000 + b"}}",
        b'{"query": "{ viewer { subject } }", "variables": {"n": 1e999}}',
        b'{"query": "{ viewer { subject } }", "variables": {"n": NaN}}',
        b"[" * 100_000,
        b'{"query": "{ viewer { subject } }", "variables": ' + b'{"a":' * 100_000,
        b"9" * 5000,
    ],
)
async def test_an_invalid_body_is_refused(reader: GatewayClient, body: bytes) -> None:
    assert_refused(await post(reader, body), 400, "BAD_REQUEST")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"{", "The body is not JSON in UTF-8."),
        (b'{"query": "\xff"}', "The body is not JSON in UTF-8."),
        (b'{"query": ' + b"[" * 2_000 + b"]" * 2_000 + b"}", "The body is nested too deeply."),
        (b'{"variables": [1e400]}', "The body has a number that exceeds a 64-bit float."),
        (b'{"variables": [' + b"9" * 400 + b"]}", "The body has a number that exceeds a 64-bit float."),
    ],
    ids=["not JSON", "not UTF-8", "deep", "large", "long"],
)
async def test_a_body_that_cannot_be_parsed_is_refused_with_the_cause(
    reader: GatewayClient, body: bytes, message: str
) -> None:
    assert (await post(reader, body)).json()["errors"][0]["message"] == message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 100_000, "GRAPHQL_PARSE_FAILED"),
        ("{" * 100_000, "GRAPHQL_PARSE_FAILED"),
        ("{a" * 100_000, "OPERATION_TOO_COMPLEX"),
        ("{ nodes(ids: " + "[" * 100_000, "OPERATION_TOO_COMPLEX"),
        ("{ nodes(ids: " + "{a:" * 100_000, "OPERATION_TOO_COMPLEX"),
        ("query ($a: " + "[" * 100_000, "OPERATION_TOO_COMPLEX"),
        ('"' * 100_001, "GRAPHQL_PARSE_FAILED"),
        ("#" * 100_000, "GRAPHQL_PARSE_FAILED"),
        ("\0", "GRAPHQL_PARSE_FAILED"),
        ("{ a \ufeff\u2028 }}", "GRAPHQL_PARSE_FAILED"),
        ("{}", "GRAPHQL_PARSE_FAILED"),
        ("subscription {}", "GRAPHQL_PARSE_FAILED"),
        ('{ product(sku: "LP-0001") {} }', "GRAPHQL_PARSE_FAILED"),
        ('{ product(sku: "LP-0001") { ... on Product {} } }', "GRAPHQL_PARSE_FAILED"),
        ('{ product(sku: "LP-0001") { ...F } } fragment F on Product {}', "GRAPHQL_PARSE_FAILED"),
        ('mutation { createCategory(input: { name: "A", slug: "a" }) {} }', "GRAPHQL_PARSE_FAILED"),
    ],
)
async def test_a_text_that_is_not_an_operation_is_refused(reader: GatewayClient, text: str, code: str) -> None:
    response = await post(reader, {"query": text}, {"accept": "application/graphql-response+json"})

    assert_refused(response, 400, code)


async def test_null_is_the_same_as_absent(reader: GatewayClient) -> None:
    body = {"query": QUERY, "variables": None, "operationName": None, "extensions": None, "other": 1}

    assert (await post(reader, body)).json() == {"data": {"viewer": None}}


async def test_the_last_of_duplicate_keys_counts(reader: GatewayClient) -> None:
    response = await post(reader, b'{"query": "{ nonsense }", "query": "{ viewer { subject } }"}')

    assert response.json() == {"data": {"viewer": None}}


async def test_deeply_nested_variables_are_a_client_error(reader: GatewayClient) -> None:
    nested: Any = []
    for _ in range(900):
        nested = [nested]

    answer = await reader.ask("query ($ids: [ID!]!) { nodes(ids: $ids) { id } }", {"ids": nested})

    assert answer.codes == ["BAD_USER_INPUT"]
    assert len(answer.body["errors"][0]["message"]) < 200


@pytest.mark.parametrize(
    "content_type",
    [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON;charset=UTF-8",
        'application/json; charset="utf-8"',
        "application/json; profile=x",
    ],
)
async def test_json_is_accepted_in_utf_8(reader: GatewayClient, content_type: str) -> None:
    query = "query ($slug: String!) { category(slug: $slug) { name } }"
    body = json.dumps({"query": query, "variables": {"slug": "é"}}, ensure_ascii=False)

    response = await post(reader, body, {"content-type": content_type})

    assert response.json() == {"data": {"category": None}}


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "text/plain",
        "application/graphql",
        "application/x-www-form-urlencoded",
        "application/json; charset=iso-8859-1",
        "application/json; charset=utf-16",
        "application/jsonp",
        "nonsense",
    ],
)
async def test_other_media_types_of_a_body_are_refused(reader: GatewayClient, content_type: str) -> None:
    response = await post(reader, {"query": QUERY}, {"content-type": content_type})

    assert_refused(response, 415, "UNSUPPORTED_MEDIA_TYPE")


async def test_a_compressed_body_is_refused(reader: GatewayClient) -> None:
    body = gzip.compress(json.dumps({"query": QUERY}).encode())

    response = await post(reader, body, {"content-encoding": "gzip"})

    assert_refused(response, 415, "UNSUPPORTED_ENCODING")
    assert response.headers["accept-encoding"] == "identity"


async def test_a_browser_gets_a_page_from_the_endpoint_and_an_api_client_does_not(reader: GatewayClient) -> None:
    browser = {"accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}

    page = await get(reader, browser)
    query = await get(reader, browser, query=QUERY)
    api = await get(reader)

    assert page.status_code == 200
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert query.json() == {"data": {"viewer": None}}
    assert_refused(api, 400, "BAD_REQUEST")


async def test_a_running_gateway_is_alive_and_ready(reader: GatewayClient) -> None:
    for path in ("/livez", "/readyz"):
        response = await reader.http.get(path)
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


async def test_a_gateway_without_its_database_is_alive_and_not_ready(settings: Settings) -> None:
    with through_wire(settings) as (wire, over_wire):
        async with running(over_wire) as gateway:
            wire.cut()

            live, ready = await gateway.http.get("/livez"), await gateway.http.get("/readyz")

            assert live.status_code == 200
            assert (ready.status_code, ready.json()) == (503, {"status": "unavailable", "mongodb": "unreachable"})

            wire.restore()
            assert (await gateway.http.get("/readyz")).status_code == 200
