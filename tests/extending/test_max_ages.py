"""Answers that stores before the gateway may use without asking, as the fields of a domain declare."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest
from bson import ObjectId
from graphql import OperationDefinitionNode, parse

from portico.gateway.operations.max_ages import max_age
from portico.gateway.settings import Settings
from portico.schema import Kind, costs
from tests.support.harness import GatewayClient
from tests.support.kept_answers import caching
from tests.support.library import serving
from tests.support.sockets import until

SHOW = "query ($id: ID!) { show(id: $id) { id seats } }"
VIEWED = "query ($id: ID!) { show(id: $id) { seats } viewer { subject } }"
NODE = "query ($id: ID!) { node(id: $id) { id } }"


@pytest.fixture(params=[False, True], ids=["without the cache", "with the cache"])
async def theater(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> AsyncIterator[GatewayClient]:
    booking = replace(settings, domains="accounts,comments,booking")
    chosen = caching(booking) if request.param else booking
    async with serving(monkeypatch, chosen, "booking", "tests.extending.booking") as gateway:
        yield gateway


async def open_show(gateway: GatewayClient) -> str:
    """Stores a show, and returns its id."""
    show = {"_id": ObjectId(), "seats": 3, "price": 30, "currency": "USD", "venue": "globe"}
    await gateway.db["shows"].insert_one(show)
    return Kind.encode_id("Show", show["_id"])


async def get(gateway: GatewayClient, query: str, show: str, *, with_token: bool = True) -> httpx.Response:
    headers = {"authorization": f"Bearer {gateway.token()}"} if with_token else {}
    answer = await gateway.http.get(
        "/graphql", params={"query": query, "variables": f'{{"id":"{show}"}}'}, headers=headers
    )
    assert "errors" not in answer.json()
    return answer


def said(answer: httpx.Response) -> tuple[str, str]:
    return answer.headers["cache-control"], answer.headers["vary"]


async def test_an_answer_that_is_that_of_every_caller_is_public(theater: GatewayClient) -> None:
    show = await open_show(theater)
    shared = "public, max-age=60", "Accept"
    for with_token in (True, False):
        assert said(await get(theater, SHOW, show, with_token=with_token)) == shared
    cache = theater.state.cache
    if cache is not None:
        await until(lambda: cache.fence.is_open)
        while not cache.counts.hits:
            answer = await get(theater, SHOW, show)
            assert said(answer) == shared
        # The cache of the gateway knows the change. Stores before it may not.
        await theater.db["shows"].update_many({}, {"$set": {"seats": 9}})
        assert (await get(theater, SHOW, show)).json()["data"]["show"]["seats"] == 9


async def test_an_answer_for_which_the_caller_was_asked_is_private(
    theater: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    show = await open_show(theater)
    assert said(await get(theater, VIEWED, show)) == ("private, no-cache", "Accept, Authorization")
    schema = theater.state.executor._schema
    assert schema.query_type is not None
    viewer = schema.query_type.fields["viewer"]
    definition = viewer.extensions["strawberry-definition"]
    monkeypatch.setattr(definition, "metadata", {**definition.metadata, **costs(max_age=30)})
    theater.state.executor.operations.get(VIEWED).max_ages.clear()
    for _ in range(6):
        # Also when the answer comes from the cache.
        assert said(await get(theater, VIEWED, show)) == ("private, max-age=30", "Accept, Authorization")
    assert said(await get(theater, VIEWED, show, with_token=False)) == ("public, max-age=30", "Accept, Authorization")


async def test_an_answer_that_others_may_get_does_not_say_what_its_caller_may_still_ask_for(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited = replace(settings, domains="accounts,comments,booking", caller_rate=1_000, address_rate=1_000)
    async with serving(monkeypatch, limited, "booking", "tests.extending.booking") as gateway:
        show = await open_show(gateway)
        for with_token in (True, False):
            public = await get(gateway, SHOW, show, with_token=with_token)
            assert said(public) == ("public, max-age=60", "Accept")
            assert not [name for name in public.headers if name.startswith("ratelimit")]
        private = await get(gateway, VIEWED, show)
        assert {"ratelimit", "ratelimit-policy"} <= set(private.headers)


async def test_what_does_not_declare_it_is_asked_for_each_time(theater: GatewayClient) -> None:
    show = await open_show(theater)
    answer = await get(theater, NODE, show)
    assert said(answer) == ("private, no-cache", "Accept, Authorization")


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("query", "seconds"),
    [
        (SHOW, 60),
        ("query ($id: ID!) { __typename show(id: $id) { ...F ...F } } fragment F on Show { id }", 60),
        ("query ($id: ID!) { ... { show(id: $id) { ... on Node { id } } } }", 60),
        ("query ($id: ID!) { show(id: $id) { id } ...G } fragment G on Query { viewer { subject } }", 0),
        ("query ($id: ID!) { show(id: $id) { id } __schema { description } }", 0),
        ("{ __typename }", 0),
        ("{ __service { capabilities { identifier value } } }", 300),
        ("query ($id: ID!) { show(id: $id) { id } __service { capabilities { identifier } } }", 60),
        ("query ($id: ID!) { show(id: $id) { discussion { id } } }", 0),
    ],
)
@pytest.mark.parametrize("theater", [0], indirect=True)
async def test_the_least_age_of_the_fields_is_that_of_the_answer(
    theater: GatewayClient, query: str, seconds: int
) -> None:
    document = parse(query)
    operation = next(node for node in document.definitions if isinstance(node, OperationDefinitionNode))
    assert max_age(theater.state.executor._schema, document, operation) == seconds


def test_a_negative_age_is_refused() -> None:
    with pytest.raises(ValueError, match="`max_age` must be 0 seconds or more; got -1"):
        costs(max_age=-1)
