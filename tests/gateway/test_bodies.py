"""Long bodies: they share a room, wait for their turn, and do not delay short ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from portico.gateway.bodies import MOST_OF_SUBSCRIPTION, SHORT, Bodies, ByteRoom
from portico.gateway.memory import Memory
from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, running
from tests.support.sockets import listening, opened, subscribe, until

LONG = json.dumps({"query": "{ __typename }" + " " * 2 * SHORT}).encode()
HEADERS = {"content-type": "application/json"}
SENT = 1.5 * SHORT


class Paused(httpx.AsyncByteStream):
    """A long body whose end is sent when it may be."""

    def __init__(self) -> None:
        self.may_end = asyncio.Event()
        self.has_begun = asyncio.Event()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield LONG[: int(SENT)]
        self.has_begun.set()
        await self.may_end.wait()
        yield LONG[int(SENT) :]


@pytest.fixture
async def narrow(settings: Settings) -> AsyncIterator[GatewayClient]:
    """A gateway with room for one long body."""
    async with running(settings) as gateway:
        gateway.state.bodies = Bodies(Memory(), len(LONG), len(LONG))
        yield gateway


async def post(gateway: GatewayClient, content: bytes | httpx.AsyncByteStream) -> httpx.Response:
    headers = {**HEADERS, "content-length": str(len(LONG))} if isinstance(content, httpx.AsyncByteStream) else HEADERS
    return await gateway.http.send(gateway.http.build_request("POST", "/graphql", content=content, headers=headers))


async def test_a_long_body_waits_until_another_has_arrived_and_short_ones_do_not(narrow: GatewayClient) -> None:
    first, second = Paused(), Paused()
    second.may_end.set()
    one = asyncio.create_task(post(narrow, first))
    await first.has_begun.wait()
    other = asyncio.create_task(post(narrow, second))

    assert (await narrow.ask("{ __typename }")).status == 200
    assert not other.done()
    first.may_end.set()
    answers = await asyncio.gather(one, other)

    assert [answer.json() for answer in answers] == [{"data": {"__typename": "Query"}}] * 2


async def test_a_long_body_without_room_is_refused_after_the_time_for_a_body(narrow: GatewayClient) -> None:
    narrow.state.settings = replace(narrow.state.settings, body_seconds=1.0)
    bodies = narrow.state.bodies
    await bodies.arriving.borrow(len(LONG))
    refused = await post(narrow, Paused())
    bodies.arriving.give_back(len(LONG))
    await bodies.parsed.borrow(len(LONG))
    unparsed = await post(narrow, LONG)
    bodies.parsed.give_back(len(LONG))

    for answer in (refused, unparsed):
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")
        assert answer.json()["errors"][0]["extensions"]["code"] == "OVERLOADED"
    assert (await post(narrow, Paused())).status_code == 408
    assert (await post(narrow, LONG)).status_code == 200


async def test_long_messages_of_sockets_share_the_room_while_they_run(narrow: GatewayClient) -> None:
    bodies = narrow.state.bodies
    async with listening(narrow) as port, opened(port) as socket:
        await socket.init()
        await bodies.parsed.borrow(1)
        await socket.send(subscribe("1", json.loads(LONG)["query"]))
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(socket.receive(), 0.3)
        bodies.parsed.give_back(1)

        assert (await socket.receive())["payload"] == {"data": {"__typename": "Query"}}
        assert (await socket.receive())["type"] == "complete"
        assert bodies.parsed.is_free


async def in_fragments(text: str, size: int) -> AsyncIterator[str]:
    for start in range(0, len(text), size):
        yield text[start : start + size]
        # An empty fragment adds nothing.
        yield ""


async def test_long_messages_of_sockets_need_room_to_arrive(narrow: GatewayClient) -> None:
    # No packet has all of it.
    text = json.dumps(subscribe("1", "{ __typename }" + " " * 20 * SHORT))
    assert len(text) > 1_000_000
    narrow.state.settings = narrow.settings = replace(narrow.settings, max_body_bytes=2 * len(text))
    bodies = narrow.state.bodies
    async with listening(narrow) as port, opened(port) as socket, opened(port) as other:
        await socket.init()
        await other.init()
        await bodies.arriving.borrow(1)
        sending = asyncio.create_task(socket.connection.send(in_fragments(text, SHORT)))
        await until(lambda: len(bodies.arriving._waiting) == 1)
        await other.send(subscribe())
        assert (await other.receive())["type"] == "next"
        bodies.arriving.give_back(1)
        await sending

        assert (await socket.receive())["payload"] == {"data": {"__typename": "Query"}}
        assert (await socket.receive())["type"] == "complete"
        await until(lambda: bodies.arriving.is_free and bodies.parsed.is_free)


@pytest.mark.parametrize(
    ("size", "is_free", "code"), [(10, True, 1008), (3 * SHORT, True, 1008), (3 * SHORT, False, 1013)]
)
async def test_a_message_that_does_not_arrive_in_time_closes_its_socket(
    narrow: GatewayClient, size: int, is_free: bool, code: int
) -> None:
    narrow.state.settings = replace(narrow.state.settings, body_seconds=1.0)
    bodies = narrow.state.bodies
    if not is_free:
        await bodies.arriving.borrow(1)
    may_end = asyncio.Event()

    async def unended() -> AsyncIterator[str]:
        yield " " * size
        await may_end.wait()

    async with listening(narrow) as port, opened(port) as socket:
        await socket.init()
        sending = asyncio.create_task(socket.connection.send(unended()))

        assert (await socket.closed())[0] == code
        may_end.set()
        await asyncio.gather(sending, return_exceptions=True)
    if not is_free:
        bodies.arriving.give_back(1)
    await until(lambda: bodies.arriving.is_free)


async def test_a_message_of_tiny_fragments_is_one_message(gateway: GatewayClient) -> None:
    async with listening(gateway) as port, opened(port) as socket:
        await socket.init()
        await socket.connection.send(in_fragments(json.dumps(subscribe("é", "{ __typename }")), 1))

        assert await socket.receive() == {"id": "é", "type": "next", "payload": {"data": {"__typename": "Query"}}}


@pytest.mark.parametrize("size", [MOST_OF_SUBSCRIPTION + 1, 3 * SHORT])
async def test_a_long_subscription_is_refused_because_it_stays_in_memory(gateway: GatewayClient, size: int) -> None:
    text = 'subscription { commentPosted(discussionId: "x") { id } }'
    variables = {"unused": "x" * size}
    message = "A subscription or live query can have 16,384 bytes at most, with its variables."

    answer = await gateway.http.post(
        "/graphql", json={"query": text, "variables": variables}, headers={"accept": "text/event-stream"}
    )
    async with listening(gateway) as port, opened(port) as socket:
        await socket.init()
        await socket.send(subscribe("1", text, variables=variables))
        refused = await socket.receive()

    assert (answer.status_code, refused["type"]) == (413, "error")
    for error in (answer.json()["errors"][0], refused["payload"][0]):
        assert (error["message"], error["extensions"]["code"]) == (message, "BODY_TOO_LARGE")
    assert gateway.state.bodies.parsed.is_free


async def test_room_is_lent_in_the_order_of_the_asking() -> None:
    room, lent = ByteRoom(10), []

    async def borrow(name: str, size: int) -> None:
        await room.borrow(size)
        lent.append(name)

    async with asyncio.TaskGroup() as group:
        await borrow("first", 8)
        for name, size in (("large", 7), ("small", 1), ("larger than the room", 20), ("last", 1)):
            group.create_task(borrow(name, size))
        gone = group.create_task(borrow("gone", 5))
        for size in (8, 7, 1, 20):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            if size == 8:
                assert lent == ["first"]
                gone.cancel()
            room.give_back(size)

    assert lent == ["first", "large", "small", "larger than the room", "last"]
    await asyncio.wait_for(room.borrow(9), 1)


async def test_a_body_whose_client_has_gone_leaves_the_room_to_the_next() -> None:
    room = ByteRoom(10)
    await room.borrow(10)
    first, second = (asyncio.create_task(room.borrow(size)) for size in (8, 5))
    await asyncio.sleep(0)

    # Both end in the iteration of the event loop in which the room is given back.
    first.cancel()
    second.cancel()
    room.give_back(10)

    ended = await asyncio.gather(first, second, return_exceptions=True)
    assert [type(one) for one in ended] == [asyncio.CancelledError] * 2
    assert room.is_free
