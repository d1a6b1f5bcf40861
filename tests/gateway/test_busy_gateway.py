"""A gateway whose event loop was busy reads what clients have sent meanwhile before it calls them too slow."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from starlette.types import Message
from websockets.frames import Frame, Opcode

from portico.gateway.http.multipart import MultipartBody
from portico.gateway.http.sending import ClientTimeout
from portico.gateway.settings import Settings
from tests.support.fixtures import gateway_with
from tests.support.harness import GatewayClient, running
from tests.support.multipart import CONTENT_TYPE, body_of, part
from tests.support.sockets import listening

SECONDS = 0.5
BODY = b'{"query": "{ __typename }"}'
HEAD = b"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(BODY)
ANSWER = {"data": {"__typename": "Query"}}
UPGRADE = (
    b"GET /graphql HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    b"Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
)


def masked(opcode: Opcode, data: bytes) -> bytes:
    """Returns a frame of a client."""
    return Frame(opcode, data).serialize(mask=True)


async def frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """Reads a short frame of the gateway. Returns its opcode and its data."""
    first, length = await reader.readexactly(2)
    return first & 0x0F, await reader.readexactly(length)


def be_busy() -> None:
    """Blocks the event loop for longer than a client has."""
    time.sleep(2 * SECONDS)


@contextlib.asynccontextmanager
async def upgraded(settings: Settings) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Opens a WebSocket to a gateway with these settings, and sends no message."""
    async with running(settings) as gateway, listening(gateway) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            writer.write(UPGRADE)
            await reader.readuntil(b"\r\n\r\n")
            yield reader, writer


async def while_reading(work: Callable[[], None]) -> None:
    """Runs the work while the event loop reads from connections. It calls timers before it reads again."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    near, far = socket.socketpair()

    def run() -> None:
        loop.remove_reader(near)
        work()
        done.set()

    with near, far:
        loop.add_reader(near, run)
        far.send(b"x")
        await done.wait()


# Its clients have half a second for their headers, and for a body.
impatient = gateway_with(header_seconds=SECONDS, body_seconds=SECONDS)


@pytest.mark.parametrize("sent_before", [HEAD[:20], HEAD, HEAD + BODY[:5]], ids=["headers", "body", "rest of the body"])
async def test_a_request_that_arrives_while_the_gateway_is_busy_is_answered(
    impatient: GatewayClient, sent_before: bytes
) -> None:
    async with listening(impatient) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with contextlib.closing(writer):
            writer.write(sent_before)
            await asyncio.sleep(0.2)

            os.write(writer.get_extra_info("socket").fileno(), (HEAD + BODY)[len(sent_before) :])
            be_busy()

            answer = await reader.readuntil(b"}}")
            assert json.loads(answer.partition(b"\r\n\r\n")[2]) == ANSWER


async def test_a_pong_that_arrives_while_the_gateway_is_busy_keeps_the_socket_open(settings: Settings) -> None:
    async with upgraded(replace(settings, keep_alive_seconds=2 * SECONDS, init_seconds=60.0)) as (reader, writer):
        _, ping = await frame(reader)

        def answer() -> None:
            os.write(writer.get_extra_info("socket").fileno(), masked(Opcode.PONG, ping))
            be_busy()
            be_busy()

        await while_reading(answer)
        await asyncio.sleep(0.1)
        writer.write(masked(Opcode.TEXT, b'{"type": "ping"}'))
        # The next ping of the keep-alive comes at once.
        while (found := await frame(reader))[0] == Opcode.PING:
            pass
        assert found == (Opcode.TEXT, b'{"type":"pong"}')


async def test_a_first_message_that_arrives_while_the_gateway_is_busy_is_acknowledged(settings: Settings) -> None:
    async with upgraded(replace(settings, init_seconds=SECONDS)) as (reader, writer):
        os.write(writer.get_extra_info("socket").fileno(), masked(Opcode.TEXT, b'{"type": "connection_init"}'))
        be_busy()

        assert await frame(reader) == (Opcode.TEXT, b'{"type":"connection_ack"}')
        writer.write(masked(Opcode.TEXT, b'{"type": "ping"}'))
        assert await frame(reader) == (Opcode.TEXT, b'{"type":"pong"}')


async def test_a_part_of_an_upload_that_arrives_while_the_gateway_is_busy_is_read() -> None:
    near, far = socket.socketpair()
    near.setblocking(False)

    async def receive() -> Message:
        return {"type": "http.request", "body": await asyncio.get_running_loop().sock_recv(near, 65_536)}

    with near, far:
        body = MultipartBody(receive, CONTENT_TYPE, SECONDS)
        reading = asyncio.create_task(body.next_part())
        await asyncio.sleep(0)

        far.sendall(body_of([part("operations", b"{}")]))
        be_busy()

        found = await reading
    assert found is not None
    assert found.name == "operations"


async def test_a_client_that_sends_nothing_in_time_is_too_slow() -> None:
    with pytest.raises(TimeoutError):
        async with ClientTimeout(0.01):
            await asyncio.Event().wait()
    async with ClientTimeout(60):
        await asyncio.sleep(0)
