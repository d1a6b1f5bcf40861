"""Clients that do not read their answers use a bounded amount of memory, and not for long."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.support.harness import IS_SOAK
from tests.support.memory import (
    LARGE,
    LARGE_BYTES,
    MB,
    MOST,
    forget_peak,
    memory,
    request,
    socket_of,
    store_large_products,
    unbuffered,
    wait_until_quiet,
)
from tests.support.processes import Served, environment, eventually, own_database, served
from tests.support.sockets import subscribe

CLIENTS = 200 if IS_SOAK else 60
REQUESTS = {
    "answers": request(LARGE),
    "answers to pipelined requests": request(LARGE) * 3,
    "answers that end their connection": request(LARGE, Connection="close"),
    "events": request(LARGE, Accept="text/event-stream"),
}
READ_SECONDS = 2.0
# What a worker uses at most when its clients are gone. At rest, it uses 110 MB.
SETTLED = 180 * MB


@pytest.fixture(scope="module")
def filled(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    with own_database(mongodb_uri, tmp_path_factory.mktemp("settings")) as settings:
        store_large_products(settings)
        yield settings


@pytest.fixture(scope="module")
def gateway(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway with the default limits."""
    with served(tmp_path_factory.mktemp("served"), environment(filled), is_new=True) as found:
        yield found


@pytest.fixture(scope="module")
def strict(filled: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway that holds two large answers, and waits two seconds for clients that do not read."""
    chosen = replace(filled, max_unread_bytes=10 * MB, read_seconds=READ_SECONDS)
    with served(tmp_path_factory.mktemp("served"), environment(chosen)) as found:
        yield found


def dropped(gateway: Served) -> float:
    """The number of connections that were closed because their clients did not read."""
    text = httpx.get(f"{gateway.url}/metrics", timeout=20).text
    return float(text.partition("\nportico_connections_unread_total ")[2].split()[0])


def received(client: socket.socket, seconds: float = 0.0) -> int:
    """Reads until the connection is closed, and waits after each 64 kB. Returns the number of the bytes."""
    count = 0
    with contextlib.suppress(ConnectionError):
        while part := client.recv(65_536):
            count += len(part)
            time.sleep(seconds)
    return count


# Memory


@pytest.mark.sample(2)
@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_clients_that_do_not_read_use_a_bounded_amount_of_memory(gateway: Served, sent: bytes) -> None:
    # The clients of earlier tests hold nothing any more.
    eventually(lambda: memory(gateway.process.pid) < SETTLED)
    forget_peak(gateway.process.pid)
    with contextlib.ExitStack() as stack:
        for _ in range(CLIENTS):
            stack.enter_context(unbuffered(gateway)).sendall(sent)
        # Others get small and large answers.
        assert gateway.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}
        assert len(gateway.ask(LARGE).content) > LARGE_BYTES
        wait_until_quiet(gateway)

    assert memory(gateway.process.pid, "VmHWM") < MOST
    eventually(lambda: memory(gateway.process.pid) < SETTLED)


def test_a_socket_gets_the_answers_to_many_large_queries_at_once(gateway: Served) -> None:
    with socket_of(gateway) as client:
        for number in range(30):
            client.send(json.dumps(subscribe(str(number), LARGE)))
        ended: set[str] = set()
        while len(ended) < 30:
            message = json.loads(client.recv(timeout=30))
            if message["type"] == "complete":
                ended.add(message["id"])
            else:
                assert len(message["payload"]["data"]["products"]["nodes"]) == 100


def test_a_client_that_reads_no_pongs_gets_that_of_its_latest_ping(gateway: Served) -> None:
    count = 60_000
    with unbuffered(gateway) as client:
        client.sendall(
            b"GET /graphql HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n"
        )
        received = b""
        while b"\r\n\r\n" not in received:
            received += client.recv(1_000)
        init = b'{"type":"connection_init"}'
        client.sendall(bytes([0x81, 0x80 | len(init), 0, 0, 0, 0]) + init)
        pings = (b"%0125d" % number for number in range(count))
        client.sendall(b"".join(bytes([0x89, 0x80 | 125, 0, 0, 0, 0]) + ping for ping in pings))
        received = b""
        while not received.endswith(b"%0125d" % (count - 1)):
            received += client.recv(1_000_000)

    assert len(received) < count * 125


# Time


@pytest.mark.sample(2)
@pytest.mark.parametrize("sent", REQUESTS.values(), ids=REQUESTS)
def test_a_client_that_reads_nothing_is_disconnected(strict: Served, sent: bytes) -> None:
    before = dropped(strict)
    with unbuffered(strict) as client:
        client.sendall(sent)
        eventually(lambda: dropped(strict) == before + 1)

        assert received(client) < LARGE_BYTES


@pytest.mark.parametrize("name", ["answers that end their connection", "events"])
def test_a_client_that_reads_slowly_gets_its_answer(strict: Served, name: str) -> None:
    sent = REQUESTS[name].replace(b"Host: a", b"Host: a\r\nConnection: close")
    with unbuffered(strict) as client:
        client.sendall(sent)
        begun = time.monotonic()

        assert received(client, 0.08) > LARGE_BYTES
        assert time.monotonic() - begun > READ_SECONDS


def test_clients_that_do_not_read_do_not_disconnect_one_that_reads_slowly(strict: Served) -> None:
    before = dropped(strict)
    with unbuffered(strict) as reader, contextlib.ExitStack() as stack, ThreadPoolExecutor(1) as thread:
        reader.sendall(REQUESTS["answers that end their connection"])
        begun = len(reader.recv(65_536))
        # It reads all the time, also while the others connect. At first, nothing shows that it reads.
        reading = thread.submit(received, reader, 0.05)
        time.sleep(0.5)
        for _ in range(10):
            stack.enter_context(unbuffered(strict)).sendall(REQUESTS["answers"])

        assert begun + reading.result() > LARGE_BYTES
        eventually(lambda: dropped(strict) == before + 10)


def test_a_client_that_does_not_read_keeps_its_next_requests_waiting(strict: Served) -> None:
    with unbuffered(strict) as client:
        client.sendall(request(LARGE) + request("{ __typename }", Connection="close"))
        begun = received(client)

    assert begun > LARGE_BYTES
