"""Answers to GET requests say how a client can ask whether they have changed."""

from __future__ import annotations

from collections.abc import Mapping

import httpx
import pytest

from tests.support.harness import GatewayClient, category_input

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


async def test_another_caller_or_another_form_of_the_answer_has_another_tag(
    gateway: GatewayClient, category: str
) -> None:
    del category
    other = gateway.as_caller("other")
    forms = [{"accept": "application/graphql-response+json"}, {"accept-encoding": "gzip"}, {"accept-encoding": "zstd"}]
    tags = [(await get(gateway, form)).headers["etag"] for form in forms]
    tags += [(await get(gateway)).headers["etag"], (await get(other)).headers["etag"]]
    assert len(set(tags)) == len(tags)


async def test_errors_and_answers_to_post_have_no_validators(gateway: GatewayClient, category: str) -> None:
    del category
    failed = await get(gateway, {"if-none-match": "*"}, "{ nothing }")
    assert failed.status_code != 304
    assert ("etag" in failed.headers, failed.headers["cache-control"]) == (False, "no-store")
    posted = await gateway.http.post(
        "/graphql", json={"query": "{ viewer { subject } }"}, headers={"if-none-match": "*"}
    )
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
