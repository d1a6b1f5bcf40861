"""A gateway that stops says so first, answers what it has accepted, and waits for no client that does not finish."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.gateway.support.workers import serving_processes
from tests.support.harness import running
from tests.support.multipart import BOUNDARY, CONTENT_TYPE, body_of, upload_parts
from tests.support.processes import Served, environment, eventually, served
from tests.support.sockets import until
from tests.support.wire import through_wire

CLIENTS = 6
PRODUCTS = "{ products { nodes { id } } }"
BODY = b'{"query": "{ __typename }"}'
REQUEST = b"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s" % (
    len(BODY),
    BODY,
)


class Crowd:
    """Clients that connect again for each request, until the gateway refuses connections. Counts what they get."""

    def __init__(self, gateway: Served) -> None:
        self.outcomes: Counter[str] = Counter()
        self._port = gateway.port
        self._threads = [threading.Thread(target=self._ask_on) for _ in range(CLIENTS)]
        for thread in self._threads:
            thread.start()
        eventually(lambda: self.outcomes["answered"] > CLIENTS)

    def _ask_on(self) -> None:
        outcome = ""
        while outcome not in {"refused", "timed out"}:
            outcome = self._ask()
            self.outcomes[outcome] += 1

    def _ask(self) -> str:
        with socket.socket() as client:
            client.settimeout(15)
            try:
                client.connect(("127.0.0.1", self._port))
            except ConnectionRefusedError:
                return "refused"
            try:
                client.sendall(REQUEST)
                return "answered" if b" 200 " in client.recv(65536) else "closed without an answer"
            except TimeoutError:
                return "timed out"
            except ConnectionError:
                return "reset"

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(30)
            assert not thread.is_alive()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_requests_to_a_stopping_gateway_are_answered_or_their_connections_are_refused(
    settings: Settings, tmp_path: Path, workers: str
) -> None:
    with served(tmp_path, environment(settings), "--workers", workers) as gateway:
        crowd = Crowd(gateway)

        gateway.process.terminate()
        crowd.wait()

        # A connection that opens in the very moment in which the socket closes is reset.
        assert set(crowd.outcomes) - {"reset"} == {"answered", "refused"}
        assert crowd.outcomes["reset"] <= 2
        assert crowd.outcomes["refused"] == CLIENTS


def test_new_connections_are_refused_while_several_workers_finish_what_is_under_way(
    settings: Settings, tmp_path: Path
) -> None:
    with (
        through_wire(replace(settings, stop_seconds=5, log_level="info")) as (wire, over_wire),
        served(tmp_path, environment(over_wire), "--workers", "2") as gateway,
    ):
        eventually(lambda: gateway.process.errors.count("started") == 2, 30)
        wire.block()
        asking = threading.Thread(target=lambda: _ask_quietly(gateway))
        asking.start()
        eventually(lambda: wire.holds(settings.database))

        gateway.process.terminate()
        eventually(lambda: _is_refused(gateway), 5)

        assert asking.is_alive()
        assert gateway.process.popen.poll() is None
        wire.unblock()
        asking.join(20)


def test_a_worker_that_waits_for_its_database_stops_at_once(settings: Settings, tmp_path: Path) -> None:
    with (
        through_wire(replace(settings, log_level="info")) as (wire, over_wire),
        served(tmp_path, environment(over_wire), "--workers", "2") as gateway,
    ):
        eventually(lambda: gateway.process.errors.count("started") == 2, 30)
        wire.block()
        (worker, *_) = serving_processes(gateway)
        os.kill(worker, signal.SIGKILL)
        eventually(lambda: len(set(serving_processes(gateway)) - {worker}) == 2, 20)
        time.sleep(2)

        gateway.process.terminate()
        eventually(lambda: _is_refused(gateway), 5)

        assert _is_refused(gateway)


async def test_a_gateway_whose_database_does_not_answer_leaves_no_connection_open(settings: Settings) -> None:
    with through_wire(settings) as (wire, over_wire):
        async with running(over_wire) as gateway:
            await gateway.ask(PRODUCTS)
            assert wire.connections
            wire.block()

        wire.unblock()
        await until(lambda: not wire.connections)


def _ask_quietly(gateway: Served) -> None:
    with contextlib.suppress(httpx.TransportError):
        gateway.ask(PRODUCTS)


def _is_refused(gateway: Served) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        with contextlib.suppress(TimeoutError):
            return probe.connect_ex(("127.0.0.1", gateway.port)) != 0
    return False


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stopping_gateway_is_not_ready_before_it_refuses_connections(
    settings: Settings, tmp_path: Path, workers: str
) -> None:
    # The gateway accepts requests until the test has sent its last one, however busy the machine is.
    chosen = replace(settings, drain_seconds=600.0)
    with served(tmp_path, environment(chosen), "--workers", workers) as gateway:
        assert httpx.get(f"{gateway.url}/readyz").status_code == 200

        gateway.process.terminate()
        answer = eventually(lambda: _not_ready(gateway))
        # One of several workers can get the signal a moment later than another one.
        served_still = gateway.ask("{ __typename }") if workers == "1" else eventually(lambda: _last_answer(gateway))

    assert answer.json() == {"status": "stopping"}
    assert served_still.json() == {"data": {"__typename": "Query"}}
    assert served_still.headers["connection"] == "close"


def test_workers_drain_until_their_parent_gets_a_second_signal(settings: Settings, tmp_path: Path) -> None:
    """A supervisor can signal all processes. Then a worker gets the same signal from its parent, too."""
    with served(tmp_path, environment(replace(settings, drain_seconds=600.0)), "--workers", "2") as gateway:
        for pid in serving_processes(gateway):
            for _ in range(2):
                os.kill(pid, signal.SIGTERM)
        gateway.process.terminate()
        eventually(lambda: _not_ready(gateway))
        eventually(lambda: _last_answer(gateway))
        time.sleep(1)
        served_still = gateway.ask("{ __typename }")

        gateway.process.terminate()
        gateway.process.wait()

    assert served_still.json() == {"data": {"__typename": "Query"}}


def test_workers_do_not_drain_if_their_parent_is_interrupted(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(replace(settings, drain_seconds=600.0)), "--workers", "2") as gateway:
        gateway.process.popen.send_signal(signal.SIGINT)

        # Draining would take ten minutes.
        assert gateway.process.wait() == 0


def _last_answer(gateway: Served) -> httpx.Response | None:
    """Returns an answer that closes its connection."""
    answer = gateway.ask("{ __typename }")
    return answer if answer.headers.get("connection") == "close" else None


def _not_ready(gateway: Served) -> httpx.Response | None:
    answer = httpx.get(f"{gateway.url}/readyz")
    return answer if answer.status_code == 503 else None


def _json_head() -> bytes:
    return b"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"


def _upload_head() -> bytes:
    parts = upload_parts("{ __typename }", {"file": None}, {"0": (["variables.file"], b"the first bytes")})
    head = f"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: 100000\r\n"
    unfinished = body_of(parts, is_ended=False).removesuffix(f"\r\n--{BOUNDARY}".encode())
    return f"{head}GraphQL-Require-Preflight: true\r\n\r\n".encode() + unfinished


@contextlib.contextmanager
def _trickling(gateway: Served, head: bytes) -> Iterator[None]:
    """Sends a head, and then a byte ten times a second."""
    ended = threading.Event()
    with socket.create_connection(("127.0.0.1", gateway.port)) as client:
        client.sendall(head)

        def trickle() -> None:
            with contextlib.suppress(OSError):
                while not ended.wait(0.1):
                    client.sendall(b" ")

        thread = threading.Thread(target=trickle)
        thread.start()
        time.sleep(0.3)
        try:
            yield
        finally:
            ended.set()
            thread.join()


@pytest.mark.parametrize("head", [_json_head(), _upload_head()], ids=["json", "upload"])
def test_a_body_that_trickles_does_not_delay_a_stop(settings: Settings, tmp_path: Path, head: bytes) -> None:
    # A limit that the test would not reach: it is cut off by the stop, and not by the timeout of the stop.
    chosen = replace(settings, stop_seconds=600)
    with served(tmp_path, environment(chosen)) as gateway, _trickling(gateway, head):
        gateway.process.terminate()

        gateway.process.wait(30)

        assert "Traceback" not in gateway.process.errors
