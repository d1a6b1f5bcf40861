"""The ids by which a caller knows its request come back."""

from __future__ import annotations

import pytest

from tests.support.harness import GatewayClient
from tests.support.sockets import EVENTS

QUERY = {"query": "{ viewer { subject } }"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


async def id_of(gateway: GatewayClient, headers: dict[str, str]) -> str:
    """The id of the answer to a request with these headers."""
    answer = await gateway.http.post("/graphql", json=QUERY, headers=headers)
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
    answer = await reader.http.post("/graphql", json=QUERY, headers={**EVENTS, "x-request-id": "mine"})

    assert answer.headers["x-request-id"] == "mine"
