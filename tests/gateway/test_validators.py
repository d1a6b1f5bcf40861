"""Headers of answers: how a client can ask whether an answer has changed, and the ids by which it knows its request."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from tests.support.harness import GatewayClient, category_input
from tests.support.sockets import EVENTS

QUERY = "query ($slug: String!) { category(slug: $slug) { name } viewer { subject } }"


@pytest.fixture
async def category(gateway: GatewayClient) -> str:
    made = await gateway.result("createCategory", category_input(slug="jazz", name="Jazz"))
    return str(made["category"]["id"])


async def get(gateway: GatewayClient, headers: Mapping[str, str] | None = None, query: str = QUERY) -> httpx.Response:
    token = {"authorization": f"Bearer {gateway.token()}"}
    parameters = {"query": query, "variables": '{"slug": "jazz"}'}
    return await gateway.http.get("/graphql", params=parameters, headers={**token, **(headers or {})})


async def test_an_answer_that_the_client_has_is_not_sent_again(gateway: GatewayClient, category: str) -> None:
    first = await get(gateway)
    tag = first.headers["etag"]
    assert first.status_code == 200
    assert tag.startswith('"')
    assert first.headers["cache-control"] == "private, no-cache"
    assert {"Accept", "Authorization"} <= {name.strip() for name in first.headers["vary"].split(",")}

    for known in (tag, f'"other", {tag}', f"W/{tag}", "*"):
        again = await get(gateway, {"if-none-match": known})
        assert (again.status_code, again.content) == (304, b"")
        assert (again.headers["etag"], again.headers["cache-control"]) == (tag, "private, no-cache")
        assert "content-length" not in again.headers

    await gateway.result("renameCategory", {"id": category, "name": "Blues"})
    changed = await get(gateway, {"if-none-match": tag})
    assert changed.status_code == 200
    assert changed.json()["data"]["category"] == {"name": "Blues"}
    assert changed.headers["etag"] != tag


@pytest.mark.usefixtures("category")
async def test_another_caller_or_another_form_of_the_answer_has_another_tag(gateway: GatewayClient) -> None:
    other = gateway.as_caller("other")
    forms = [{"accept": "application/graphql-response+json"}, {"accept-encoding": "gzip"}, {"accept-encoding": "zstd"}]
    tags = [(await get(gateway, form)).headers["etag"] for form in forms]
    tags += [(await get(gateway)).headers["etag"], (await get(other)).headers["etag"]]
    assert len(set(tags)) == len(tags)


@pytest.mark.usefixtures("category")
async def test_errors_and_answers_to_post_have_no_validators(gateway: GatewayClient) -> None:
    failed = await get(gateway, {"if-none-match": "*"}, "{ nothing }")
    assert failed.status_code != 304
    assert ("etag" in failed.headers, failed.headers["cache-control"]) == (False, "no-store")
    body = {"query": "{ viewer { subject } }"}
    posted = await gateway.http.post("/graphql", json=body, headers={"if-none-match": "*"})
    assert (posted.status_code, "etag" in posted.headers) == (200, False)


async def test_a_head_request_has_the_validators_of_its_answer(gateway: GatewayClient) -> None:
    parameters = {"query": "{ viewer { subject } }"}
    asked = await gateway.http.get("/graphql", params=parameters)
    headed = await gateway.http.head("/graphql", params=parameters)
    assert headed.headers["etag"] == asked.headers["etag"]


async def test_what_the_gateway_can_do_may_be_known_without_asking(gateway: GatewayClient) -> None:
    service = "{ __service { capabilities { identifier } } }"
    anonymous = gateway.http.build_request("GET", "/graphql", params={"query": service})
    for answer in (await get(gateway, query=service), await gateway.http.send(anonymous)):
        assert (answer.headers["cache-control"], answer.headers["vary"]) == ("public, max-age=300", "Accept")
        again = await get(gateway, {"if-none-match": answer.headers["etag"]}, service)
        assert (again.status_code, again.headers["cache-control"]) == (304, "public, max-age=300")
    # One field that does not declare it is enough.
    mixed = await get(gateway, query="{ __service { capabilities { identifier } } viewer { subject } }")
    assert mixed.headers["cache-control"] == "private, no-cache"
    refused = await get(gateway, query="{ __service { capabilities { identifier } } product(sku: 7) { title } }")
    assert refused.headers["cache-control"] == "no-store"


# Ids

BODY = {"query": "{ viewer { subject } }"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


async def id_of(gateway: GatewayClient, headers: dict[str, str]) -> str:
    """The id of the answer to a request with these headers."""
    answer = await gateway.http.post("/graphql", json=BODY, headers=headers)
    found: str = answer.headers["x-request-id"]
    return found


@pytest.mark.parametrize("given", ["a", "7f3c.A_b~1:2/x+y=z@host-9", "x" * 128])
async def test_a_valid_request_id_of_the_caller_is_kept(reader: GatewayClient, given: str) -> None:
    assert await id_of(reader, {"x-request-id": given}) == given


@pytest.mark.parametrize("given", ["", "x" * 129, "a b", "a\tb", "\x1b[31m", "a,b", '"a"'])
async def test_any_other_request_id_is_replaced(reader: GatewayClient, given: str) -> None:
    found = await id_of(reader, {"x-request-id": given})

    assert found != given
    assert len(found) == 32


async def test_without_a_request_id_the_trace_id_is_the_request_id(reader: GatewayClient) -> None:
    assert await id_of(reader, {"traceparent": PARENT}) == TRACE
    assert await id_of(reader, {"traceparent": PARENT, "x-request-id": "mine"}) == "mine"
    assert await id_of(reader, {"traceparent": f"01-{TRACE}-00f067aa0ba902b7-01-later"}) == TRACE


@pytest.mark.parametrize(
    "given",
    [
        TRACE,
        PARENT.upper(),
        f"{PARENT}-more",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-00f067aa0ba902b7-0",
        f"01-{TRACE}-00f067aa0ba902b7-01-{'x' * 300}",
    ],
)
async def test_a_trace_parent_that_is_not_valid_is_ignored(reader: GatewayClient, given: str) -> None:
    found = await id_of(reader, {"traceparent": given})

    assert found.lower() not in given.lower()
    assert len(found) == 32


async def test_a_stream_of_events_has_the_id_too(reader: GatewayClient) -> None:
    answer = await reader.http.post("/graphql", json=BODY, headers={**EVENTS, "x-request-id": "mine"})

    assert answer.headers["x-request-id"] == "mine"
