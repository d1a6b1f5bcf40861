"""Subscriptions and live queries continue while a replica set of three changes its primary.

A subscriber gets each comment once.
"""

from __future__ import annotations

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from tests.comments.support.discussions import STORAGES, open_on_product, post_input
from tests.gateway.support.fixtures import nodes_with
from tests.gateway.support.retrying import answered
from tests.gateway.support.subscribers import acknowledged, hide_entries, open_on_entry
from tests.support.harness import IS_SOAK, GatewayClient, running
from tests.support.processes import environment, node_modules, served
from tests.support.replica_sets import ReplicaSet
from tests.support.sockets import POSTED, Socket, listening, streamed, texts, until, wait_until_live

IS_LONG = IS_SOAK
# The number of comments in each storage. About a third is posted when the primary stops.
COUNT = 1_000 if IS_LONG else 24
WAYS = ["step down", "crash"] if IS_LONG else ["step down"]


# A name of its own for each test, because the harness knows the indexes of a database by its name.
NAMES = (f"failover_{number}" for number in itertools.count())


nodes = nodes_with()


@pytest.fixture
def three(nodes: ReplicaSet) -> Iterator[ReplicaSet]:
    """Three nodes that the tests share. One that has crashed is back after the test."""
    before = nodes.ports
    yield nodes
    for port in {*before} - {*nodes.ports}:
        nodes.restart(port)


@pytest.fixture
async def gateway(settings: Settings, three: ReplicaSet) -> AsyncIterator[GatewayClient]:
    own = replace(settings, mongodb_uri=Secret(three.uri), database=next(NAMES), max_waiting_events=10_000)
    async with running(own) as client:
        yield client


async def post_all(gateway: GatewayClient, discussion: str, count: int) -> None:
    """Posts comments in order."""
    for number in range(count):
        await post_one(gateway, discussion, number)


async def post_one(gateway: GatewayClient, discussion: str, number: int) -> None:
    given = post_input(discussion, str(number), idempotencyKey=f"{discussion}-{number}")
    # A conflict ends with the next call.
    while (await answered(gateway, "postComment", given))["__typename"] != "CommentPayload":  # noqa: ASYNC110 - same
        await asyncio.sleep(0.05)


@pytest.mark.timeout(1_800 if IS_LONG else 120)
@pytest.mark.parametrize("way", WAYS)
async def test_every_comment_arrives_once_while_the_primary_changes(
    gateway: GatewayClient, three: ReplicaSet, way: str
) -> None:
    discussions = [await open_on_product(gateway, storage) for storage in STORAGES]
    async with (
        listening(gateway) as port,
        acknowledged(port) as socket,
        streamed(port, POSTED, {"id": discussions[0]}) as own,
    ):
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


@pytest.mark.timeout(1_800 if IS_LONG else 120)
async def test_eventsource_and_graphql_ws_lose_and_double_nothing_when_they_are_cut(
    gateway: GatewayClient, three: ReplicaSet, tmp_path: Path
) -> None:
    project = node_modules("interop")
    discussion, hidden = await open_on_product(gateway, "DOCUMENTS"), await open_on_entry(gateway)
    # All run on one machine; the script cuts ten connections a second at most.
    count, cuts = (4_000, 1_000) if IS_LONG else (24, 10)
    env = environment(gateway.state.settings)
    with served(tmp_path / "one", env) as one, served(tmp_path / "two", env) as two:
        discussions = discussion, hidden
        given = one.graphql, two.graphql, gateway.token("ann", []), *discussions, str(count), str(cuts)
        process = await asyncio.create_subprocess_exec(
            "node",
            "resuming.mjs",
            *given,
            "1500" if IS_LONG else "60",
            cwd=project,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        assert process.stdout is not None
        if await process.stdout.readline():
            for number in range(count):
                if number == count // 2:
                    # A client that reconnects after this sees no earlier comment, so each must have got one before.
                    if not await process.stdout.readline():
                        break
                    await hide_entries(gateway)
                    await asyncio.to_thread(three.step_down)
                for each in discussions:
                    await post_one(gateway, each, number)
        written, errors = await process.communicate()

    assert process.returncode == 0, errors.decode()
    seen = json.loads(written)
    every = [str(number) for number in range(count)]
    assert seen["streams"] == seen["sockets"] == every
    assert seen["cuts"] >= 5
    # What was posted after the entry was hidden is shown to nobody who may not see it.
    for shown in (seen["hidden"]["streams"], seen["hidden"]["sockets"]):
        assert shown
        assert shown == every[: len(shown)]
        assert len(shown) <= count // 2
    assert seen["hidden"]["codes"] == ["NOT_FOUND", "NOT_FOUND"]


COUNTED = "query ($id: ID!) @live { node(id: $id) { ... on Discussion { commentCount } } }"


@pytest.mark.timeout(1_800 if IS_LONG else 120)
@pytest.mark.parametrize("way", WAYS)
async def test_a_live_query_ends_at_the_newest_state_while_the_primary_changes(
    gateway: GatewayClient, three: ReplicaSet, way: str
) -> None:
    discussions = [await open_on_product(gateway, storage) for storage in STORAGES]
    async with listening(gateway) as port, acknowledged(port) as socket:
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
