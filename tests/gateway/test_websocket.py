"""GraphQL over WebSockets, message by message: what the protocol requires, and what the gateway refuses."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from pymongo.errors import ConnectionFailure
from starlette.datastructures import Headers
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from portico.gateway.auth import KeysUnavailable
from portico.gateway.http.origins import may_connect
from portico.gateway.settings import Settings
from tests.gateway.support.subscribers import acknowledged, assert_answers_ping, expiring_token
from tests.support.fixtures import gateway_with
from tests.support.harness import GatewayClient
from tests.support.pausing import failing
from tests.support.sockets import Socket, opened, subscribe

VIEWER = "{ viewer { subject } }"
INIT = {"type": "connection_init"}
ORIGIN = "https://shop.example"
gateway = gateway_with(max_operations=3, max_body_bytes=5_000, cors_origins=ORIGIN)


# Opening


async def test_a_connection_is_acknowledged_with_the_subprotocol(socket: Socket) -> None:
    await socket.send({**INIT, "payload": None})

    assert await socket.receive() == {"type": "connection_ack"}
    assert socket.connection.subprotocol == "graphql-transport-ws"


async def test_a_client_with_another_protocol_is_refused(port: int) -> None:
    for subprotocol in (None, "graphql-ws", "soap"):
        async with opened(port, subprotocol=subprotocol) as socket:
            assert await socket.closed() == (4406, "Subprotocol not acceptable")


async def test_a_socket_without_an_init_message_times_out(gateway: GatewayClient, port: int) -> None:
    gateway.state.settings = replace(gateway.state.settings, init_seconds=0.3)
    # The gateway may have accepted the socket long before the client sees that it is open.
    begun = time.monotonic()
    async with opened(port) as socket:
        assert await socket.closed() == (4408, "Connection initialisation timeout")
        assert 0.2 < time.monotonic() - begun < 5


async def test_a_socket_with_an_init_message_stays_open(gateway: GatewayClient, port: int) -> None:
    gateway.state.settings = replace(gateway.state.settings, init_seconds=1.0)
    async with acknowledged(port) as socket:
        await asyncio.sleep(1.2)

        await assert_answers_ping(socket)


async def test_a_second_init_closes_the_socket(socket: Socket) -> None:
    await socket.init()
    await socket.send(INIT)

    assert await socket.closed() == (4429, "Too many initialisation requests")


async def test_an_operation_before_the_acknowledgement_closes_the_socket(socket: Socket) -> None:
    await socket.send(subscribe())

    assert await socket.closed() == (4401, "Unauthorized")


async def test_other_paths_have_no_socket(port: int) -> None:
    for path in ("/", "/graphiql", "/graphql/x"):
        with pytest.raises(InvalidStatus, match="403"):
            await connect(f"ws://127.0.0.1:{port}{path}", proxy=None)


# Authentication


async def test_the_init_message_has_the_token(gateway: GatewayClient, port: int) -> None:
    for name in ("Authorization", "authorization"):
        async with opened(port) as socket:
            await socket.send({**INIT, "payload": {name: f"Bearer {gateway.token('ann')}"}})
            await socket.receive()
            await socket.send(subscribe())

            assert (await socket.receive())["payload"] == {"data": {"viewer": {"subject": "ann"}}}


async def test_a_program_may_send_the_token_as_a_header(gateway: GatewayClient, port: int) -> None:
    async with opened(port, headers={"authorization": f"Bearer {gateway.token('ann')}"}) as socket:
        await socket.init()
        await socket.send(subscribe())

        assert (await socket.receive())["payload"] == {"data": {"viewer": {"subject": "ann"}}}


async def test_an_invalid_token_closes_the_socket(port: int) -> None:
    for given, reason in (
        ("Bearer nonsense", "The token cannot be read."),
        ("nonsense", "The Authorization header must be `Bearer`, then a space and a token."),
        (17, "`Authorization` must be `Bearer`, then a space and a token."),
    ):
        async with opened(port) as socket:
            await socket.send({**INIT, "payload": {"Authorization": given}})

            assert await socket.closed() == (4403, reason)


@pytest.mark.parametrize(
    ("error", "closed"),
    [
        (KeysUnavailable, (1013, "The keys that check tokens cannot be read. Try again later.")),
        (ConnectionFailure("a secret"), (4500, "Internal server error")),
    ],
    ids=["keys that cannot be read", "a fault"],
)
async def test_a_token_that_cannot_be_verified_now_closes_the_socket(
    gateway: GatewayClient, socket: Socket, monkeypatch: pytest.MonkeyPatch, error: Any, closed: tuple[int, str]
) -> None:
    monkeypatch.setattr(gateway.state.authenticator, "identify", failing(error))
    await socket.send(INIT)

    assert await socket.closed() == closed


async def test_the_socket_closes_when_its_token_expires(gateway: GatewayClient, port: int) -> None:
    async with acknowledged(port, expiring_token(gateway)) as socket:
        assert await socket.closed() == (4403, "The token has expired.")


async def test_only_pages_of_the_gateway_and_of_allowed_origins_may_open_a_socket(port: int) -> None:
    for origin in (None, ORIGIN, f"http://127.0.0.1:{port}", f"https://127.0.0.1:{port}"):
        async with opened(port, origin=origin) as socket:
            await socket.init()
    for origin in (
        "http://127.0.0.1",
        "https://evil.example",
        "https://shop.example.evil.example",
        "null",
        "http://[",
        "http://127.0.0.1:x",
        f"ftp://127.0.0.1:{port}",
    ):
        with pytest.raises(InvalidStatus, match="403"):
            async with opened(port, origin=origin):
                pass


async def test_any_page_may_open_a_socket_if_all_origins_are_allowed() -> None:
    headers = Headers({"origin": "https://evil.example", "host": "shop.example"})

    assert may_connect(headers, Settings(cors_origins="*"))
    assert not may_connect(headers, Settings())
    assert may_connect(Headers({"origin": "https://shop.example", "host": "shop.example:443"}), Settings())


# Messages


INVALID: list[tuple[Any, str]] = [
    (b"{}", "it must be a text frame"),
    ("{", "it is not JSON in UTF-8"),
    ("[" * 3_000, "it is nested too deeply"),
    ("[]", "it must be a JSON object"),
    ("{}", "unknown `type`"),
    ({"type": "connection_ack"}, "unknown `type`"),
    ({"type": "next", "id": "1"}, "unknown `type`"),
    ({"type": ["ping"]}, "unknown `type`"),
    ({"type": "ping", "payload": 1}, "`payload` must be an object"),
    ({"type": "pong", "payload": []}, "`payload` must be an object"),
    ({"type": "complete"}, "`id` must be a string that is not empty"),
    ({"type": "complete", "id": 1}, "`id` must be a string that is not empty"),
    (subscribe(key=""), "`id` must be a string that is not empty"),
    (subscribe(key=None), "`id` must be a string that is not empty"),
    ({"type": "subscribe", "id": "1"}, "`query` must be a string that contains a GraphQL operation."),
    (subscribe(query=1), "`query` must be a string that contains a GraphQL operation."),
    (subscribe(variables=[]), "`variables` must be an object."),
    (subscribe(operationName=1), "`operationName` must be a string."),
    (subscribe(extensions=1), "`extensions` must be an object."),
]


async def test_an_invalid_message_closes_the_socket(port: int) -> None:
    for message, reason in INVALID:
        async with acknowledged(port) as socket:
            await socket.send(message)

            assert await socket.closed() == (4400, f"Invalid message: {reason}"), message


async def test_a_message_that_is_too_long_closes_the_socket(socket: Socket) -> None:
    await socket.init()
    await socket.send(subscribe(query=VIEWER + " " * 5_000))

    assert (await socket.closed())[0] == 1009


async def test_pings_are_answered_even_before_the_init_message(socket: Socket) -> None:
    await socket.send({"type": "ping"})
    await socket.send({"type": "ping", "payload": {"number": 1}})
    await socket.send({"type": "pong"})

    assert await socket.receive() == {"type": "pong"}
    assert await socket.receive() == {"type": "pong", "payload": {"number": 1}}


# The end


async def test_a_stopping_gateway_closes_the_socket_with_a_reason(gateway: GatewayClient, socket: Socket) -> None:
    await socket.init()

    gateway.app.state.gateway.stop_streams()

    assert await socket.closed() == (1012, "The gateway is stopping")
