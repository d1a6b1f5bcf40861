"""Operations are parsed once: what is kept of them, and what is not."""

from __future__ import annotations

import gc
from dataclasses import replace

from portico.gateway.settings import Settings
from portico.schema.context import Context
from tests.support.harness import GatewayClient, create_category, running


async def test_a_limited_number_of_operations_is_cached(settings: Settings) -> None:
    async with running(replace(settings, cached_operations=10)) as gateway:
        for number in range(30):
            assert await gateway.data(f"{{ a{number}: __typename }}") == {f"a{number}": "Query"}

        assert len(gateway.state.executor.operations) == 10


async def test_a_very_long_operation_is_not_cached(gateway: GatewayClient) -> None:
    await gateway.data("{ __typename " + " " * 20_000 + "}")
    await gateway.ask("{ nonsense }")
    await gateway.ask("nonsense")

    assert len(gateway.state.executor.operations) == 0


async def test_the_operation_cache_keeps_no_requests_in_memory(gateway: GatewayClient) -> None:
    refused = ("{ nonsense }", "nonsense", '{ products(first: "x") { nodes { id } } }', "{ a" * 300 + " }" * 300)
    texts = (*refused, "{ __schema { queryType { name } } }")
    # The first request makes the context of the gateway from which all others are copied.
    await gateway.data("{ __typename }")
    before = _contexts()

    first = [(await gateway.ask(text)).body for text in texts]
    again = [[(await gateway.ask(text)).body for text in texts] for _ in range(3)]

    assert again == [first] * 3
    assert _contexts() <= before


def _contexts() -> int:
    """The number of requests in memory."""
    gc.collect()
    return sum(issubclass(type(found), Context) for found in gc.get_objects())


async def test_a_cached_operation_uses_the_variables_of_each_request(gateway: GatewayClient) -> None:
    query = (
        "query Q($slug: String!, $more: Boolean!) { category(slug: $slug) { name ... @include(if: $more) { slug } } }"
    )
    for slug in ("jazz", "rock"):
        await create_category(gateway, slug=slug, name=slug.capitalize())
    kept = len(gateway.state.executor.operations)

    asked = [{"slug": slug, "more": more} for slug in ("jazz", "rock", "x") for more in (False, True)]
    answers = [await gateway.data(query, variables) for variables in asked]

    assert [answer["category"] for answer in answers] == [
        {"name": "Jazz"},
        {"name": "Jazz", "slug": "jazz"},
        {"name": "Rock"},
        {"name": "Rock", "slug": "rock"},
        None,
        None,
    ]
    assert len(gateway.state.executor.operations) == kept + 1


async def test_the_named_operation_of_a_document_runs(gateway: GatewayClient) -> None:
    query = "query A { a: __typename } query B { b: __typename }"

    assert await gateway.data(query, operation="B") == {"b": "Query"}
    assert await gateway.data(query, operation="A") == {"a": "Query"}
    for name in (None, "C"):
        assert (await gateway.ask(query, operation=name)).codes == ["BAD_USER_INPUT"]
