"""Operations of each kind over WebSockets: concurrent, cancelled, and finished after a disconnect."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest
from structlog.testing import capture_logs

from portico.gateway.http.sockets import SocketConnection
from portico.gateway.settings import Settings
from tests.gateway.support.subscribers import acknowledged, assert_answers_ping, ready_socket
from tests.support.fixtures import gateway_with
from tests.support.harness import MUTATIONS, GatewayClient, category_input, running
from tests.support.pausing import failing
from tests.support.sockets import Socket, listening, subscribe, until

VIEWER = "{ viewer { subject } }"
PRODUCTS = "products(first: 100) {{ nodes {{ title sku nonce categories {{ {0} }} }} }}"
MANY = f"{{ {PRODUCTS.format(PRODUCTS.format('id'))} }}"
CREATE = MUTATIONS["createCategory"]
SLOW = '{ category(slug: "slow") { name } }'
gateway = gateway_with(max_operations=3)
socket = ready_socket


class Slow:
    """Holds operations on categories until the test sets `go_on`, and live queries on them until it sets `go_live`.

    Those under way have started and not ended.
    """

    def __init__(self, gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.begun = self.ended = 0
        self.go_on, self.go_live = asyncio.Event(), asyncio.Event()
        self._execute = gateway.state.executor.execute
        monkeypatch.setattr(gateway.state.executor, "execute", self._slowly)

    @property
    def under_way(self) -> int:
        return self.begun - self.ended

    async def _slowly(self, text: str, **more: Any) -> Any:
        if "ategory" not in text:
            return await self._execute(text, **more)
        self.begun += 1
        more["progress"].is_write = "mutation" in text
        try:
            await (self.go_live if "@live" in text else self.go_on).wait()
            return await self._execute(text, **more)
        finally:
            self.ended += 1


@pytest.fixture
def slow(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> Slow:
    return Slow(gateway, monkeypatch)


# Operations


async def test_a_query_answers_once_and_completes(socket: Socket) -> None:
    await socket.send(subscribe("a", "query A { __typename } query B { viewer { subject } }", operationName="A"))

    assert await socket.receive() == {"id": "a", "type": "next", "payload": {"data": {"__typename": "Query"}}}
    assert await socket.receive() == {"id": "a", "type": "complete"}


@pytest.mark.parametrize("length", [124, 125, 126, 127, 65_534, 65_535, 65_536, 65_537])
async def test_messages_of_all_lengths_arrive(socket: Socket, length: int) -> None:
    """A frame has other bytes for the length from 126 bytes on, and from 65,536 bytes on."""
    answer = {"id": "1", "type": "next", "payload": {"data": {"": "Query"}}}
    alias = "a" * (length - len(json.dumps(answer, separators=(",", ":"))))

    await socket.send(subscribe(query=f"{{ {alias}: __typename }}"))

    assert await socket.receive() == {**answer, "payload": {"data": {alias: "Query"}}}
    assert await socket.receive() == {"id": "1", "type": "complete"}


async def test_a_mutation_takes_variables_and_the_caller_of_the_connection(gateway: GatewayClient, port: int) -> None:
    async with acknowledged(port, gateway.token()) as socket:
        await socket.subscribe("1", CREATE, {"input": category_input(slug="a")})

        answer = await socket.receive()
        assert answer["payload"]["data"]["createCategory"]["category"]["slug"] == "a"
        assert await socket.receive() == {"id": "1", "type": "complete"}


async def test_an_error_in_a_field_comes_with_the_data(gateway: GatewayClient, socket: Socket) -> None:
    await socket.subscribe("1", CREATE, {"input": category_input()})

    payload = (await socket.receive())["payload"]
    assert payload["data"] == {"createCategory": None}
    assert payload["errors"][0]["extensions"] == {"code": "UNAUTHENTICATED"}
    assert (await socket.receive())["type"] == "complete"
    assert await gateway.db["categories"].count_documents({}) == 0


async def test_an_invalid_operation_ends_with_an_error_and_does_not_affect_the_others(socket: Socket) -> None:
    for query, code in (
        ("{", "GRAPHQL_PARSE_FAILED"),
        ("{ nothing }", "GRAPHQL_VALIDATION_FAILED"),
        ("subscription { __typename }", "GRAPHQL_VALIDATION_FAILED"),
        ("query ($id: ID!) { node(id: $id) { id } }", "BAD_USER_INPUT"),
        ("query A { __typename } query B { __typename }", "BAD_USER_INPUT"),
        (MANY, "OPERATION_TOO_COMPLEX"),
    ):
        # The id is free again after each error.
        await socket.subscribe("1", query)

        message = await socket.receive()
        assert (message["id"], message["type"]) == ("1", "error")
        assert [error["extensions"]["code"] for error in message["payload"]] == [code]
    await socket.subscribe("1", VIEWER)
    assert (await socket.receive())["type"] == "next"


async def test_an_id_that_is_in_use_closes_the_socket(gateway: GatewayClient, socket: Socket, slow: Slow) -> None:
    key = "é" * 100
    await socket.send(subscribe(key, SLOW))
    await until(lambda: slow.begun == 1)
    await socket.send(subscribe(key))

    code, reason = await socket.closed()
    assert code == 4409
    # A reason may have at most 123 bytes.
    assert reason == "Subscriber for " + "é" * 54
    assert gateway.state.live.counts.sockets == 0


async def test_a_query_may_request_its_plan(settings: Settings) -> None:
    async with (
        running(replace(settings, show_plans=True)) as gateway,
        listening(gateway) as port,
        acknowledged(port) as socket,
    ):
        await socket.send(subscribe(extensions={"plan": True}))

        assert (await socket.receive())["payload"]["extensions"]["plan"]["executor"] == gateway.settings.executor


async def test_operations_run_concurrently_up_to_a_limit(socket: Socket, slow: Slow) -> None:
    for key in "abc":
        await socket.send(subscribe(key, SLOW))
    await until(lambda: slow.begun == 3)
    await socket.send(subscribe("d"))

    refused = await socket.receive()
    assert (refused["id"], refused["type"]) == ("d", "error")
    assert refused["payload"][0]["extensions"] == {"code": "TOO_MANY_OPERATIONS"}
    slow.go_on.set()
    assert {(await socket.receive())["id"] for _ in range(6)} == set("abc")


async def test_a_query_that_its_client_completes_is_cancelled_without_an_answer(socket: Socket, slow: Slow) -> None:
    await socket.send(subscribe("a", SLOW))
    await until(lambda: slow.begun == 1)
    await socket.send({"id": "a", "type": "complete"})
    await until(lambda: slow.ended == 1)
    await socket.send({"id": "a", "type": "complete"})
    await socket.send(subscribe("a"))

    assert await socket.receive() == {"id": "a", "type": "next", "payload": {"data": {"viewer": None}}}


async def disconnect(socket: Socket, how: str) -> None:
    if how == "close":
        await socket.connection.close()
    else:
        socket.connection.transport.abort()


@pytest.mark.parametrize("how", ["complete", "close", "break"])
async def test_a_mutation_finishes_even_if_its_client_completes_it_or_disconnects(
    gateway: GatewayClient, port: int, slow: Slow, how: str
) -> None:
    async with acknowledged(port, gateway.token()) as socket:
        await socket.subscribe("a", CREATE, {"input": category_input(slug="kept")})
        await until(lambda: slow.begun == 1)
        if how == "complete":
            await socket.send({"id": "a", "type": "complete"})
            await assert_answers_ping(socket)
        else:
            await disconnect(socket, how)
        await asyncio.sleep(0.05)
        slow.go_on.set()
        await until(lambda: slow.ended == 1)
        await until(lambda: not slow.under_way)
        assert await gateway.db["categories"].count_documents({"slug": "kept", "pending": None}) == 1
        if how == "complete":
            await assert_answers_ping(socket)


@pytest.mark.parametrize("how", ["close", "break"])
async def test_a_query_is_cancelled_when_its_connection_closes(
    gateway: GatewayClient, port: int, slow: Slow, how: str
) -> None:
    async with acknowledged(port) as socket:
        await socket.send(subscribe("a", SLOW))
        await until(lambda: slow.begun == 1)
        await disconnect(socket, how)

        await until(lambda: slow.ended == 1)
    await until(lambda: gateway.state.live.counts.sockets == 0)
    assert slow.begun == 1
    assert not slow.under_way


async def test_an_answer_to_a_connection_that_breaks_while_a_live_query_starts_is_no_fault(
    gateway: GatewayClient, port: int, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.Event()
    connection_lost = SocketConnection.connection_lost

    def losing(connection: SocketConnection, cause: Exception | None) -> None:
        connection_lost(connection, cause)
        lost.set()

    monkeypatch.setattr(SocketConnection, "connection_lost", losing)
    with capture_logs() as log:
        async with acknowledged(port) as socket:
            await socket.send(subscribe("a", SLOW))
            # The gateway reads no message until the live query has started.
            await socket.send(subscribe("b", f"query @live {SLOW}"))
            await until(lambda: slow.begun == 2)
            await disconnect(socket, "break")
            await lost.wait()
            slow.go_on.set()
            await until(lambda: slow.ended == 1)
            slow.go_live.set()

        await until(lambda: gateway.state.live.counts.sockets == 0)
    assert [entry for entry in log if entry["log_level"] == "error"] == []


async def test_a_fault_shows_only_its_request_id_and_ends_one_operation(
    gateway: GatewayClient, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(gateway.state.executor, "execute", failing(RuntimeError("a secret")))
        await socket.send(subscribe())
        message = await socket.receive()
    await socket.send(subscribe())

    assert message["type"] == "error"
    assert message["payload"][0]["extensions"]["code"] == "INTERNAL"
    assert len(message["payload"][0]["extensions"]["requestId"]) == 32
    assert "secret" not in json.dumps(message)
    assert (await socket.receive())["type"] == "next"
