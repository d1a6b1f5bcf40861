"""Subscriptions and live queries continue while a replica set of three changes its primary.

A subscriber gets each comment once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.comments.support.discussions import STORAGES, open_on_product, post_input
from tests.support.harness import IS_SOAK, MUTATIONS, GatewayClient, running
from tests.support.replica_sets import ReplicaSet, replica_set
from tests.support.sockets import POSTED, Socket, listening, opened, streamed, texts, until, wait_until_live

IS_LONG = IS_SOAK
# The number of comments in each storage. About a third is posted when the primary stops.
COUNT = 1_000 if IS_LONG else 36
WAYS = ["step down", "crash"] if IS_LONG else ["step down"]


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ReplicaSet]:
    with replica_set(tmp_path / "three") as found:
        yield found


@pytest.fixture
async def gateway(settings: Settings, three: ReplicaSet) -> AsyncIterator[GatewayClient]:
    # A name of its own, because the harness knows the indexes of a database by its name.
    own = replace(settings, mongodb_uri=Secret(three.uri), database="failover", max_waiting_events=10_000)
    async with running(own) as client:
        yield client


async def post_all(gateway: GatewayClient, discussion: str, count: int) -> None:
    """Post comments in order, and repeat each call with its key until it succeeds, as a client does."""
    for number in range(count):
        given = post_input(discussion, str(number), idempotencyKey=f"{discussion}-{number}")
        while True:
            answer = await gateway.ask(MUTATIONS["postComment"], {"input": given})
            result = (answer.body.get("data") or {}).get("postComment") or {}
            if result.get("__typename") == "CommentPayload":
                break
            assert set(answer.codes) <= {"UNAVAILABLE", "TIMEOUT", "OPERATION_UNDER_WAY"}, answer.body
            await asyncio.sleep(0.05)


@pytest.mark.timeout(1_800 if IS_LONG else 120)
@pytest.mark.parametrize("way", WAYS)
async def test_every_comment_arrives_once_while_the_primary_changes(
    gateway: GatewayClient, three: ReplicaSet, way: str
) -> None:
    discussions = [await open_on_product(gateway, storage) for storage in STORAGES]
    async with (
        listening(gateway) as port,
        opened(port) as socket,
        streamed(port, POSTED, {"id": discussions[0]}) as own,
    ):
        await socket.init()
        for discussion in discussions:
            await socket.subscribe(discussion, POSTED, {"id": discussion})
        await wait_until_live(gateway, 4)
        received = asyncio.gather(texts_by_discussion(socket, 3 * COUNT), texts(own, COUNT))

        posting = asyncio.gather(*(post_all(gateway, discussion, COUNT) for discussion in discussions))
        counts = gateway.state.live.counts
        await until(lambda: counts.events >= COUNT, 300)
        assert not posting.done()
        await asyncio.to_thread(three.step_down if way == "step down" else three.kill_primary)
        await posting
        on_socket, on_stream = await received

        every = [str(number) for number in range(COUNT)]
        assert on_stream == every
        assert on_socket == dict.fromkeys(discussions, every)
        # The next events are new: no comment comes twice.
        for discussion in discussions:
            await post_all(gateway, discussion, 1)
            await gateway.result("postComment", post_input(discussion, "last"))
        assert await texts_by_discussion(socket, 3) == {discussion: ["last"] for discussion in discussions}
        assert await texts(own, 1) == ["last"]
        assert gateway.state.live.counts.streams == 1


COUNTED = "query ($id: ID!) @live { node(id: $id) { ... on Discussion { commentCount } } }"


@pytest.mark.timeout(1_800 if IS_LONG else 120)
@pytest.mark.parametrize("way", WAYS)
async def test_a_live_query_ends_at_the_newest_state_while_the_primary_changes(
    gateway: GatewayClient, three: ReplicaSet, way: str
) -> None:
    discussions = [await open_on_product(gateway, storage) for storage in STORAGES]
    async with listening(gateway) as port, opened(port) as socket:
        await socket.init()
        for discussion in discussions:
            await socket.subscribe(discussion, COUNTED, {"id": discussion})
        posting = asyncio.gather(*(post_all(gateway, discussion, COUNT) for discussion in discussions))
        counts: dict[str, list[int]] = {discussion: [] for discussion in discussions}
        has_changed = False
        while any(COUNT not in found for found in counts.values()):
            async with asyncio.timeout(120):
                message = await socket.receive()
            assert "errors" not in message["payload"], message
            counts[message["id"]].append(message["payload"]["data"]["node"]["commentCount"])
            if not has_changed and max(counts[discussions[0]], default=0) > COUNT // 3:
                has_changed = True
                await asyncio.to_thread(three.step_down if way == "step down" else three.kill_primary)
        await posting
        assert has_changed
        if way == "step down":
            # After a crash, a count can go back: a write that was not acknowledged is rolled back.
            assert all(found == sorted(set(found)) for found in counts.values())


async def texts_by_discussion(socket: Socket, count: int) -> dict[str, list[str]]:
    """The texts of the next comments, by discussion."""
    found: dict[str, list[str]] = {}
    for _ in range(count):
        async with asyncio.timeout(120):
            message = await socket.receive()
        assert "errors" not in message["payload"], message
        found.setdefault(message["id"], []).append(message["payload"]["data"]["commentPosted"]["text"])
    return found
