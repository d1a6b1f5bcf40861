"""Subscriptions to gateways in separate processes: several gateways, clients of other projects, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.comments.support.discussions import STORAGES, open_on_product, post
from tests.gateway.support.subscribers import acknowledged, assert_answers_ping
from tests.support.harness import GatewayClient
from tests.support.processes import TESTS, Served, environment, node_modules, run_node, served
from tests.support.sockets import POSTED, Socket, streamed, texts


@pytest.fixture
def other(settings: Settings, tmp_path: Path) -> Iterator[Served]:
    """A gateway on the same database, in a separate process."""
    with served(tmp_path / "other", environment(settings)) as found:
        yield found


@contextlib.asynccontextmanager
async def subscribed(gateway: Served, discussion: str) -> AsyncIterator[Socket]:
    """Opens a socket with a subscription that is live."""
    async with acknowledged(gateway.port) as found:
        await found.subscribe("1", POSTED, {"id": discussion})
        await assert_answers_ping(found)
        yield found


# Across processes


async def test_a_comment_posted_at_one_gateway_arrives_at_another(gateway: GatewayClient, other: Served) -> None:
    for storage in STORAGES:
        discussion = await open_on_product(gateway, storage)
        async with subscribed(other, discussion) as socket_, streamed(other.port, POSTED, {"id": discussion}) as stream:
            for number in range(3):
                await post(gateway, discussion, str(number))

            assert await texts(socket_, 3) == await texts(stream, 3) == ["0", "1", "2"]


async def test_workers_of_one_gateway_deliver_each_others_comments(gateway: GatewayClient, tmp_path: Path) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    with served(tmp_path / "workers", environment(gateway.settings), "--workers", "2") as both:
        async with contextlib.AsyncExitStack() as stack:
            # The workers share the connections.
            streams = [
                await stack.enter_async_context(streamed(both.port, POSTED, {"id": discussion})) for _ in range(8)
            ]
            await post(gateway, discussion, "a")

            for stream in streams:
                assert await texts(stream, 1) == ["a"]


# Clients of other projects


async def seen_by(script: str, gateway: GatewayClient, other: Served) -> Any:
    """Runs a script of Node.js at the other gateway. Returns what it has seen."""
    discussion = await open_on_product(gateway, "DOCUMENTS")
    given = (script, other.graphql, gateway.token("ann", []), discussion)
    done = await asyncio.to_thread(run_node, node_modules("interop"), *given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


async def test_the_clients_graphql_ws_and_graphql_sse_work(gateway: GatewayClient, other: Served) -> None:
    assert await seen_by("clients.mjs", gateway, other) == {
        "queries": [{"data": {"viewer": {"subject": "ann"}}}] * 2,
        "anonymous": [{"data": {"viewer": None}}] * 2,
        "invalid": [{"codes": ["GRAPHQL_VALIDATION_FAILED"]}] * 2,
        "unknown": [{"codes": ["NOT_FOUND"]}] * 2,
        "refused": [{"code": 4403, "reason": "The token cannot be read."}, {"status": 401}],
        "received": [["one by ann", "two by ann", "three by ann"]] * 2,
        "live": [True, True],
    }


async def test_graphiql_runs_subscriptions(gateway: GatewayClient, other: Served) -> None:
    if not (TESTS.parent / "gateway" / "pages" / "graphiql" / "node_modules").exists():
        pytest.skip("GraphiQL is not built: run `make graphiql`")

    seen = await seen_by("explorer.mjs", gateway, other)

    assert seen["who"] == {"data": {"viewer": {"subject": "ann"}}}
    assert seen["received"] == {"data": {"commentPosted": {"text": "Hello"}}}
    assert seen["ended"] is True
    assert seen["live"] == 1
    assert seen["unknown"]["errors"][0]["extensions"] == {"code": "NOT_FOUND"}
    assert seen["refused"] == {"errors": [{"message": "The connection was closed: The token cannot be read. (4403)."}]}


# The end


@pytest.mark.parametrize(("how", "workers"), [(signal.SIGINT, "1"), (signal.SIGTERM, "2")])
async def test_a_gateway_with_open_subscriptions_stops_at_once(
    gateway: GatewayClient, settings: Settings, tmp_path: Path, how: signal.Signals, workers: str
) -> None:
    discussion = await open_on_product(gateway, "PAGES")
    with served(tmp_path / "stops", environment(settings), "--workers", workers) as stopped:
        async with (
            streamed(stopped.port, POSTED, {"id": discussion}) as stream,
            subscribed(stopped, discussion) as socket_,
        ):
            begun = time.monotonic()

            stopped.process.popen.send_signal(how)

            assert (await socket_.closed())[0] == 1012
            # The stream ends without `complete`, so the client knows that it should reconnect.
            with contextlib.suppress(httpx.RemoteProtocolError):
                assert await stream.receive() is None
        await asyncio.to_thread(stopped.process.wait)
        # Less than the stop timeout, even on a busy machine.
        assert time.monotonic() - begun < 9
        assert "Traceback" not in stopped.process.errors


async def test_a_client_can_subscribe_again_after_a_restart(gateway: GatewayClient, tmp_path: Path) -> None:
    discussion = await open_on_product(gateway, "EMBEDDED")
    with served(tmp_path / "first", environment(gateway.settings)) as first:
        async with streamed(first.port, POSTED, {"id": discussion}) as stream:
            await post(gateway, discussion, "a")
            assert await texts(stream, 1) == ["a"]
            first.process.kill()
        with served(tmp_path / "second", environment(gateway.settings), port=first.port) as second:
            async with streamed(second.port, POSTED, {"id": discussion}) as stream:
                await post(gateway, discussion, "b")
                assert await texts(stream, 1) == ["b"]


# Slow clients


def _memory(served_: Served) -> int:
    """The memory of the process in bytes."""
    status = Path(f"/proc/{served_.process.pid}/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0]) * 1024


async def test_a_client_that_stops_reading_is_dropped_while_others_continue(
    gateway: GatewayClient, settings: Settings, tmp_path: Path
) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    chosen = replace(settings, send_seconds=0.5, max_waiting_events=50)
    with served(tmp_path / "slow", environment(chosen)) as gone, socket.socket() as slow:
        # A small receive buffer is soon full.
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        slow.connect(("127.0.0.1", gone.port))
        body = json.dumps({"query": POSTED, "variables": {"id": discussion}})
        head = "POST /graphql HTTP/1.1\r\nHost: a\r\nAccept: text/event-stream\r\nContent-Type: application/json\r\n"
        slow.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n{body}".encode())
        async with subscribed(gone, discussion) as quick:
            before = _memory(gone)
            async with asyncio.timeout(60):
                while "portico_connections_unread_total 1.0" not in await _metrics(gone):
                    await asyncio.gather(*(post(gateway, discussion, "x" * 10_000) for _ in range(25)))
                    await texts(quick, 25)
            await post(gateway, discussion, "last")

            assert await texts(quick, 1) == ["last"]
            assert "portico_subscriptions 1.0" in await _metrics(gone)
            assert _memory(gone) - before < 40_000_000


async def _metrics(served_: Served) -> str:
    async with httpx.AsyncClient() as client:
        return (await client.get(f"{served_.url}/metrics")).text
