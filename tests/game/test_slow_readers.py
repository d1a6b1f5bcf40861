"""Clients of `locationChanged` that read slowly, or stop for a while: they get new states instead of old ones."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from structlog.testing import capture_logs
from websockets.asyncio.client import ClientConnection, connect
from websockets.client import ClientProtocol
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import parse_uri

from portico.gateway.http.sockets import WINDOW
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database, Document
from tests.game.support.world import add_room, change_room, room_id
from tests.support.fixtures import settings_with
from tests.support.harness import GatewayClient, running
from tests.support.sockets import PROTOCOL, listening, subscribe, wait_until_live

CHANGED = "subscription ($id: ID!) { locationChanged(id: $id) { description } }"
LENGTH, STATES = 240_000, 60
KEEP_ALIVE = 1.0
# The gateway cuts off a client within two seconds.
settings = settings_with(keep_alive_seconds=KEEP_ALIVE)


@contextlib.asynccontextmanager
async def watching(gateway: GatewayClient, room: Document) -> AsyncIterator[ClientConnection]:
    """Yields the socket of a client that watches the room. Its library reads only what the client asks for."""
    async with (
        listening(gateway) as port,
        connect(
            f"ws://127.0.0.1:{port}/graphql",
            subprotocols=[Subprotocol(PROTOCOL)],
            proxy=None,
            max_size=None,
            max_queue=1,
            ping_interval=None,
        ) as socket,
    ):
        await socket.send(json.dumps({"type": "connection_init"}))
        assert json.loads(await socket.recv()) == {"type": "connection_ack"}
        await socket.send(json.dumps(subscribe("1", CHANGED, variables={"id": room_id(room)})))
        await wait_until_live(gateway)
        yield socket


async def write_states(db: Database, room: Document) -> None:
    """Changes the room again and again. The description of each state begins with its number."""
    for number in range(1, STATES + 1):
        text = f"{number}:".ljust(LENGTH, "x")
        await change_room(db, room, {"$set": {"description": text}, "$inc": {"version": 1}})
        await asyncio.sleep(0.02)


def number_in(message: Any) -> int:
    text: str = message["payload"]["data"]["locationChanged"]["description"]
    return int(text.partition(":")[0])


async def receive(socket: ClientConnection) -> Any:
    async with asyncio.timeout(30):
        return json.loads(await socket.recv())


async def test_a_slow_reader_is_alive_and_gets_new_states(settings: Settings, db: Database) -> None:
    room = await add_room(db, "Temple")
    async with running(settings) as gateway, watching(gateway, room) as socket:
        writing = asyncio.create_task(write_states(db, room))
        seen, late = [0], 0
        while seen[-1] < STATES:
            seen.append(number_in(await receive(socket)))
            # The states that it has not read yet take longer than the keep-alive, if they all wait in buffers.
            await asyncio.sleep(0.2)
            late += writing.done()
            # What fits into the window, one message beyond it, one that waits, and what the library holds.
            assert late <= WINDOW // LENGTH + 5
        await writing

    assert seen == sorted(set(seen))


async def test_a_reader_that_stops_is_told_that_it_was_cut_off(settings: Settings, db: Database) -> None:
    room = await add_room(db, "Temple")
    seen: list[int] = []
    with capture_logs() as log:
        async with running(settings) as gateway, watching(gateway, room) as socket:
            await write_states(db, room)
            await asyncio.sleep(3 * KEEP_ALIVE)
            # The subscription has ended. Nothing is written to the closed socket.
            await write_states(db, room)
            assert gateway.state.live.counts.listeners == 0
            with contextlib.suppress(ConnectionClosed):
                while True:
                    seen.append(number_in(await receive(socket)))

    assert (socket.close_code, socket.close_reason) == (1011, "keepalive ping timeout")
    assert seen == sorted(seen)
    # Beside the window: a message beyond it, and what the library of the client reads ahead.
    assert len(seen) * LENGTH <= WINDOW + 4 * LENGTH
    assert [entry for entry in log if entry["event"] == "fault"] == []


async def test_a_client_that_does_not_read_its_states_can_still_send(settings: Settings, db: Database) -> None:
    room = await add_room(db, "Temple")
    async with running(replace(settings, keep_alive_seconds=20.0)) as gateway, watching(gateway, room) as socket:
        await write_states(db, room)
        for number in range(20):
            await socket.send(json.dumps({"type": "ping", "payload": {"number": number}}))

        pongs: list[int] = []
        states = [0]
        while len(pongs) < 20 or states[-1] < STATES:
            message = await receive(socket)
            if message["type"] == "pong":
                pongs.append(message["payload"]["number"])
            else:
                states.append(number_in(message))

    assert pongs == list(range(20))
    assert states == sorted(set(states))
    assert len(states) < STATES / 2


class LatestPong(ClientProtocol):
    """A client that answers several pings by one pong, with the data of the latest, as RFC 6455 allows (5.5.3)."""

    pong: Frame | None = None

    def send_frame(self, frame: Frame) -> None:
        if frame.opcode is Opcode.PONG:
            self.pong = frame
        else:
            super().send_frame(frame)

    def answer(self) -> None:
        if self.pong is not None:
            super().send_frame(self.pong)
            self.pong = None


async def test_a_pong_answers_all_pings_before_it(settings: Settings, db: Database) -> None:
    room = await add_room(db, "Temple")
    async with running(settings) as gateway, listening(gateway) as port:
        client = LatestPong(parse_uri(f"ws://127.0.0.1:{port}/graphql"), subprotocols=[Subprotocol(PROTOCOL)])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        client.send_request(client.connect())
        states = [0]

        async def exchange(seconds: float) -> None:
            """Reads everything that has arrived, answers the latest ping, and then does nothing for a while."""
            with contextlib.suppress(TimeoutError):
                while True:
                    client.receive_data(await asyncio.wait_for(reader.read(1 << 20), 0.05))
                    assert client.state is State.OPEN, client.close_rcvd
            for event in client.events_received():
                if isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                    message = json.loads(bytes(event.data))
                    if message["type"] == "next":
                        states.append(number_in(message))
            client.answer()
            writer.write(b"".join(client.data_to_send()))
            await asyncio.sleep(seconds)

        writer.write(b"".join(client.data_to_send()))
        client.receive_data(await reader.readuntil(b"\r\n\r\n"))
        assert client.state is State.OPEN
        client.send_text(json.dumps({"type": "connection_init"}).encode())
        client.send_text(json.dumps(subscribe("1", CHANGED, variables={"id": room_id(room)})).encode())
        await exchange(0)
        await wait_until_live(gateway)
        writing = asyncio.create_task(write_states(db, room))
        try:
            for _ in range(30):
                await exchange(KEEP_ALIVE / 2)
        finally:
            writer.close()
        await writing

    assert states[-1] == STATES
    assert states == sorted(set(states))
