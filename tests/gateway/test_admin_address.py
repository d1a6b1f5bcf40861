"""The address for operators has the metrics and the health checks, and the public address has no metrics then."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.gateway.support.workers import serving_processes
from tests.support.harness import running
from tests.support.processes import Served, environment, eventually, is_running, own_database, portico, served

WORKERS = 2


def free_ports() -> list[int]:
    """Returns free ports, one after the other."""
    # Tests that run at the same time begin their search at other ports.
    for first in range(20_000 + os.getpid() % 900 * 10, 30_000, 10):
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + WORKERS):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return list(range(first, first + WORKERS))
    raise AssertionError("there are no free ports")


@contextlib.contextmanager
def on_ports(settings: Settings, ports: list[int], folder: Path) -> Iterator[Served]:
    """Serves with these ports for operators, and yields the gateway when all of them answer."""
    chosen = replace(settings, admin_address=f"127.0.0.1:{ports[0]}", drain_seconds=60.0)
    with served(folder, environment(chosen), "--workers", str(WORKERS)) as found:
        assert all_answer(ports)
        yield found


def all_answer(ports: list[int]) -> bool:
    """Waits up to half a minute for an answer at each port. Fails if one is missing."""
    return eventually(lambda: all(map(_answers, ports)), 30)


@pytest.fixture(scope="module")
def ports() -> list[int]:
    return free_ports()


@pytest.fixture(scope="module")
def gateway(mongodb_uri: str, ports: list[int], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A gateway that the tests share. They leave it with a worker at each port."""
    folder = tmp_path_factory.mktemp("served")
    with own_database(mongodb_uri, folder) as settings, on_ports(settings, ports, folder) as found:
        yield found


def _answers(port: int) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"http://127.0.0.1:{port}/livez").status_code == 200
    return False


def _operations(port: int) -> float:
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    (found,) = re.findall(r"^portico_operations_compiled_total (\S+)$", text, re.MULTILINE)
    return float(found)


def test_the_metrics_of_all_workers_are_at_the_address_for_operators(gateway: Served, ports: list[int]) -> None:
    before = sum(map(_operations, ports))
    for _ in range(20):
        assert gateway.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}

    assert sum(map(_operations, ports)) == before + 20


def test_the_public_address_has_the_health_checks_and_no_metrics(gateway: Served, ports: list[int]) -> None:
    assert httpx.get(f"{gateway.url}/metrics").status_code == 404
    for url in (gateway.url, *(f"http://127.0.0.1:{port}" for port in ports)):
        assert httpx.get(f"{url}/livez").json() == {"status": "ok"}
        assert httpx.get(f"{url}/readyz").json() == {"status": "ok"}


def test_a_worker_that_replaces_another_takes_its_port(gateway: Served, ports: list[int]) -> None:
    killed = serving_processes(gateway)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    # Not the ports: the next workers may answer there before anybody sees that they were free.
    assert eventually(lambda: not any(map(is_running, killed)))

    assert all_answer(ports)


def test_the_address_for_operators_says_that_the_gateway_stops(settings: Settings, tmp_path: Path) -> None:
    ports = free_ports()
    with on_ports(settings, ports, tmp_path) as gateway:
        gateway.process.terminate()

        for port in ports:
            stopping = eventually(lambda port=port: _stopping(port))  # type: ignore[misc]
            assert stopping == {"status": "stopping"}
        # A second signal ends the draining.
        gateway.process.terminate()
        gateway.process.wait()


def _stopping(port: int) -> object:
    answer = httpx.get(f"http://127.0.0.1:{port}/readyz")
    return answer.json() if answer.status_code == 503 else None


def test_a_port_that_is_taken_ends_the_start_with_one_line(settings: Settings) -> None:
    ports = free_ports()
    chosen = environment(replace(settings, admin_address=f"127.0.0.1:{ports[0]}"))
    with socket.create_server(("127.0.0.1", ports[1])):
        ended = portico("serve", "--port", "0", "--workers", str(WORKERS), env=chosen)

    assert ended.returncode == 1
    assert ended.stderr.strip().splitlines() == [
        f"portico: cannot listen on 127.0.0.1:{ports[1]}: Address already in use."
    ]


PRODUCTION: dict[str, Any] = {"production": True, "graphiql": "off"}


@pytest.mark.parametrize(
    ("chosen", "status"),
    [
        ({}, 200),
        (PRODUCTION, 404),
        ({**PRODUCTION, "metrics": True}, 200),
        ({"metrics": False}, 404),
        ({"admin_address": "127.0.0.1:9000"}, 404),
        ({"admin_address": "127.0.0.1:9000", "metrics": True}, 200),
    ],
)
async def test_the_metrics_are_closed_in_production_unless_they_are_opened(
    settings: Settings, chosen: dict[str, Any], status: int
) -> None:
    async with running(replace(settings, **chosen)) as gateway:
        assert (await gateway.http.get("/metrics")).status_code == status
        assert (await gateway.http.get("/livez")).status_code == 200
