"""Whether a query with the directive `@live` is live: its condition can be a variable."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.harness import GatewayClient
from tests.support.sockets import Socket


async def test_the_directive_can_depend_on_a_variable(socket: Socket) -> None:
    await socket.init()
    query = "query ($on: Boolean!) @live(if: $on) { viewer { subject } }"
    await socket.subscribe("1", query, {"on": False})
    assert (await socket.receive())["type"] == "next"
    assert (await socket.receive())["type"] == "complete"
    await socket.subscribe("2", query, {"on": True})
    assert (await socket.receive())["type"] == "next"
    await socket.subscribe("3", "mutation @live { __typename }")
    assert (await socket.receive())["payload"][0]["extensions"]["code"] == "GRAPHQL_VALIDATION_FAILED"


@pytest.mark.parametrize(
    ("head", "variables", "is_live"),
    [
        ("$on: Boolean", {"on": True}, True),
        ("$on: Boolean", {"on": False}, False),
        ("$on: Boolean", {}, True),
        ("$on: Boolean", {"on": None}, None),
        ("$on: Boolean = false", {}, False),
        ("$on: Boolean = true", {}, True),
        ("$on: Boolean = true", {"on": None}, None),
        ("$on: Boolean = null", {}, None),
    ],
)
async def test_a_condition_can_be_left_out_but_not_null(
    gateway: GatewayClient, socket: Socket, head: str, variables: dict[str, Any], is_live: bool | None
) -> None:
    query = f"query ({head}) @live(if: $on) {{ viewer {{ subject }} }}"
    await socket.init()

    await socket.subscribe("1", query, variables)
    received = await socket.receive()
    answer = await gateway.ask(query, variables)

    if is_live is None:
        assert received["type"] == "error"
        assert answer.body == {"errors": received["payload"]}
        assert answer.body["errors"] == [
            {
                "message": "Argument 'if' of `@live` must not be null.",
                "locations": [{"line": 1, "column": query.index("@live") + 1}],
                "extensions": {"code": "BAD_USER_INPUT"},
            }
        ]
        return
    assert received["type"] == "next"
    assert gateway.state.live_queries.counts.listeners == int(is_live)
    assert answer.data == {"viewer": {"subject": "tester"}}
