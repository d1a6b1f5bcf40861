"""Subscriptions under slow clients, faults, and a stop of the gateway."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import os
import tracemalloc
from socket import SHUT_RDWR
from socket import socket as socket_of
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, OperationFailure

from portico.gateway.http.websocket import SocketEndpoint
from portico.resolvers.changes import Event
from portico.resolvers.comments.comments import CommentRef, parse_comment_ref
from portico.resolvers.comments.discussions import DOCUMENTS
from portico.resolvers.comments.document_storage import DocumentStorage
from portico.resolvers.comments.events import comments_of
from tests.gateway.support.discussed import Discussed, served_talk
from tests.gateway.support.subscribers import acknowledged, assert_answers_ping, assert_ends, ready_socket
from tests.support.fixtures import gateway_with
from tests.support.harness import IS_SOAK, GatewayClient
from tests.support.ids import decode_id
from tests.support.interruptions import database_of, interrupted
from tests.support.sockets import POSTED, Socket, subscribe, texts, until, wait_until_live

# The number of answers to a client that does not read.
LAST = 1_000 if IS_SOAK else 750
gateway = gateway_with(send_seconds=0.3, max_waiting_events=10)
socket = ready_socket
talk = served_talk


class StuckSocket:
    """The server side of a socket whose client subscribes, takes some messages, and stops reading."""

    def __init__(self, discussion: str, takes: int) -> None:
        self.sent: list[dict[str, Any]] = []
        self.reads_on = asyncio.Event()
        self._takes = takes
        texts_ = [{"type": "connection_init"}, subscribe(query=POSTED, variables={"id": discussion})]
        self._messages = [{"type": "websocket.receive", "text": json.dumps(message)} for message in texts_]
        self._messages.insert(0, {"type": "websocket.connect"})

    async def receive(self) -> Any:
        if self._messages:
            return self._messages.pop(0)
        return await asyncio.Future()

    async def send(self, message: Any) -> None:
        if len(self.sent) >= self._takes:
            await self.reads_on.wait()
        self.sent.append(message)

    def connect(self, gateway: GatewayClient) -> asyncio.Task[None]:
        scope = {"type": "websocket", "path": "/graphql", "headers": [], "subprotocols": ["graphql-transport-ws"]}
        return asyncio.create_task(SocketEndpoint(gateway.state)(scope, self.receive, self.send))


# Slow clients


@pytest.mark.parametrize("reads_on", [False, True])
async def test_a_socket_that_is_not_read_is_closed_and_the_others_continue(
    talk: Discussed, socket: Socket, *, reads_on: bool
) -> None:
    client = StuckSocket(talk.id, takes=3)
    connection = client.connect(talk.gateway)
    await talk.follow(socket, 2)

    for number in range(3):
        await talk.post(str(number))
        assert await texts(socket, 1) == [str(number)]
    await until(lambda: talk.counts.unread == 1)

    # The client gets nothing more, whether it reads on or not.
    await until(lambda: talk.counts.listeners == 1)
    await talk.post("3")
    assert await texts(socket, 1) == ["3"]
    if reads_on:
        client.reads_on.set()
        await connection
        assert client.sent[-1] == {"type": "websocket.close", "code": 4410, "reason": "Too slow"}
        assert [message["type"] for message in client.sent].count("websocket.send") == 2
    else:
        connection.cancel()
        await asyncio.wait({connection})
    assert talk.counts.sockets == 1


async def test_events_that_come_faster_than_they_are_sent_close_a_socket_and_end_a_stream(
    talk: Discussed, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asyncio.Event()
    find = DocumentStorage.find

    async def slowly(*given: Any) -> Any:
        await found.wait()
        return await find(*given)

    async with talk.streamed() as stream:
        await talk.follow(socket, 2)
        monkeypatch.setattr(DocumentStorage, "find", slowly)
        key = decode_id(talk.id)[1]
        for number in range(12):
            talk.gateway.state.live.publish(Event(comments_of(key), number))

        await until(lambda: talk.counts.ended["TOO_SLOW"] == 2)
        assert talk.counts.listeners == 0
        found.set()
        monkeypatch.undo()
        assert await socket.closed() == (4410, "Too slow")
        while (event := await stream.receive()) is not None and "data" in event[1]:
            pass
        assert event is not None
        assert event[1]["errors"][0]["extensions"] == {"code": "TOO_SLOW"}
        assert await stream.receive() == ("complete", None)


async def test_a_client_that_does_not_read_uses_a_limited_amount_of_memory(talk: Discussed, socket: Socket) -> None:
    connection = StuckSocket(talk.id, takes=3).connect(talk.gateway)
    await talk.follow(socket, 2)
    posted = await talk.post("x" * 9_000)
    await texts(socket, 1)
    ref: CommentRef = parse_comment_ref(str(decode_id(posted["id"])[1]))
    hub = talk.gateway.state.live
    talk.gateway.commands.is_recording = False

    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        # The answers that are kept reach their limit of 4 MB.
        used = []
        for number in range(1, LAST + 1):
            hub.publish(Event(comments_of(ref.discussion), ref))
            assert await texts(socket, 1) == ["x" * 9_000]
            if number in {500, LAST}:
                used.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        gc.enable()
        connection.cancel()
        await asyncio.wait({connection})

    # The answers are freed without the garbage collector. Another 250 are 2.2 MB.
    early, late = used
    assert early < 6_000_000
    assert late - early < 1_000_000


# Faults


async def test_a_fault_in_one_event_does_not_end_the_others(
    talk: Discussed, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.follow(socket)
    with monkeypatch.context() as patched:
        patched.setattr(DocumentStorage, "find", _failing(OperationFailure("a secret")))
        await talk.post("lost")
        failed = await socket.receive()
    await talk.post("sent")

    assert failed["type"] == "next"
    assert failed["payload"]["data"] is None
    assert failed["payload"]["errors"][0]["extensions"]["code"] == "INTERNAL"
    assert "secret" not in json.dumps(failed)
    assert await texts(socket, 1) == ["sent"]


async def test_an_event_waits_for_a_database_that_cannot_be_reached(
    talk: Discussed, socket: Socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    await talk.follow(socket)
    failing = _failing(AutoReconnect("stepped down"), times=2)
    monkeypatch.setattr(DocumentStorage, "find", failing)

    await talk.post("a")
    await talk.post("b")

    assert await texts(socket, 2) == ["a", "b"]


async def test_a_failed_field_is_reported_with_the_other_fields(talk: Discussed, socket: Socket) -> None:
    query = "subscription ($id: ID!) { commentPosted(discussionId: $id) { text thread(first: 1000) { nodes { id } } } }"
    await socket.subscribe("1", query, {"id": talk.id})
    await wait_until_live(talk.gateway)
    await talk.post("a")

    payload = (await socket.receive())["payload"]
    assert payload["errors"][0]["path"] == ["commentPosted", "thread"]
    assert payload["errors"][0]["extensions"]["code"] == "BAD_USER_INPUT"


async def test_a_comment_that_is_deleted_before_its_event_is_left_out(talk: Discussed, socket: Socket) -> None:
    await talk.follow(socket)
    key = decode_id(talk.id)[1]
    gone = CommentRef(DOCUMENTS, key, key)

    talk.gateway.state.live.publish(Event(comments_of(key), gone))
    await talk.post("there")

    assert await texts(socket, 1) == ["there"]


def _failing(error: Exception, times: int = 1_000) -> Any:
    """A read that fails this many times before it succeeds."""
    left = [error] * times
    find = DocumentStorage.find

    async def failing(*given: Any) -> Any:
        if left:
            raise left.pop()
        return await find(*given)

    return failing


# Ends


async def test_lost_events_end_a_subscription_and_keep_its_connection(talk: Discussed, socket: Socket) -> None:
    async with talk.streamed() as stream:
        await talk.follow(socket, 2)

        await talk.gateway.db.client.drop_database(talk.gateway.db.name)

        message = await socket.receive()
        assert (message["id"], message["type"]) == ("1", "error")
        assert message["payload"][0]["extensions"] == {"code": "EVENTS_LOST"}
        await assert_ends(stream, "EVENTS_LOST")
    await assert_answers_ping(socket)


async def test_a_stopping_gateway_closes_sockets_and_streams_without_completing_them(
    talk: Discussed, socket: Socket
) -> None:
    async with talk.streamed() as stream:
        await talk.follow(socket, 2)

        talk.gateway.app.state.gateway.stop_streams()

        assert await socket.closed() == (1012, "The gateway is stopping")
        assert await stream.receive() is None


@pytest.mark.parametrize("how", ["close", "break"])
async def test_a_client_that_disconnects_gets_no_more_events(talk: Discussed, how: str) -> None:
    async with acknowledged(talk.port) as socket, talk.streamed() as stream:
        await talk.follow(socket, 2)
        if how == "close":
            await socket.connection.close()
            await stream.response.aclose()
        else:
            socket.connection.transport.abort()
            connected = stream.response.extensions["network_stream"].get_extra_info("socket")
            with socket_of(fileno=os.dup(connected.fileno())) as copy:
                copy.shutdown(SHUT_RDWR)

        await until(lambda: talk.counts.listeners == 0)
    await until(lambda: talk.counts.sockets == 0)
    assert talk.counts.deliveries == 0


@pytest.mark.parametrize("transport", ["socket", "stream"])
async def test_a_client_that_disconnects_is_forgotten_even_if_the_driver_loses_the_cancellation(
    talk: Discussed, transport: str
) -> None:
    """A command that is cancelled as it is sent can go on as if nothing had happened."""
    reached, lost = asyncio.Event(), asyncio.Event()

    async def lose() -> None:
        reached.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        lost.set()

    async def listen() -> None:
        if transport == "stream":
            async with talk.streamed() as stream:
                await stream.receive()
        else:
            async with acknowledged(talk.port) as socket:
                await socket.subscribe("1", POSTED, {"id": talk.id})
                await socket.receive()

    with database_of(talk.gateway, interrupted(talk.gateway.db, None, None, lose)):
        client = asyncio.create_task(listen())
        await reached.wait()
        client.cancel()
        await asyncio.wait({client})

        await until(lost.is_set)
        counts = talk.counts
        await until(lambda: (counts.listeners, counts.sockets) == (0, 0))
        assert counts.deliveries == 0
