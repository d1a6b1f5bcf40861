"""Long bodies: they share a room, wait for their turn, and do not delay short ones."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from portico.gateway.http import endpoint
from portico.gateway.http.bodies import SHORT, Bodies, ByteRoom
from portico.gateway.memory import Memory
from portico.gateway.settings import Settings
from tests.support.harness import GatewayClient, running

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
def bodies(monkeypatch: pytest.MonkeyPatch) -> Bodies:
    """Room for one long body."""
    room = Bodies(Memory(), len(LONG), len(LONG))
    monkeypatch.setattr(endpoint, "Bodies", lambda *_: room)
    return room


@pytest.fixture
async def narrow(settings: Settings, request: pytest.FixtureRequest) -> AsyncIterator[GatewayClient]:
    """A gateway with this room, whose clients have a second to send a body."""
    request.getfixturevalue("bodies")
    async with running(replace(settings, body_seconds=1.0)) as gateway:
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


async def test_a_long_body_without_room_is_refused_after_the_time_for_a_body(
    narrow: GatewayClient, bodies: Bodies
) -> None:
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
