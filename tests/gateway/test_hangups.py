"""SIGHUP: a single process stops as on SIGTERM, and several workers are replaced one after the other."""

from __future__ import annotations

import os
import signal
import threading
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from portico.gateway.settings import Settings
from tests.gateway.support.workers import serving_processes
from tests.support.processes import Served, environment, eventually, served
from tests.support.wire import through_wire

SECONDS = 120.0

pytestmark = pytest.mark.skipif(
    signal.getsignal(signal.SIGHUP) is not signal.SIG_DFL, reason="the processes of the tests ignore SIGHUP"
)


def test_a_single_process_drains_and_stops(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(replace(settings, drain_seconds=600.0))) as gateway:
        gateway.process.popen.send_signal(signal.SIGHUP)
        eventually(lambda: httpx.get(f"{gateway.url}/readyz").status_code == 503)
        served_still = gateway.ask("{ __typename }")

        # The second signal ends the draining.
        gateway.process.popen.send_signal(signal.SIGHUP)
        assert gateway.process.wait() in {0, -signal.SIGTERM}

    assert served_still.json() == {"data": {"__typename": "Query"}}


def test_workers_are_replaced_while_the_gateway_answers_every_request(settings: Settings, tmp_path: Path) -> None:
    # Draining would take ten minutes.
    chosen = environment(replace(settings, log_level="info", drain_seconds=600.0))
    with served(tmp_path, chosen, "--workers", "2") as gateway:
        eventually(lambda: gateway.process.errors.count("started") == 2, SECONDS)
        before = set(serving_processes(gateway))
        asking = Asking(gateway)

        # A terminal that closes signals all processes.
        for pid in (*before, gateway.process.pid):
            os.kill(pid, signal.SIGHUP)
        eventually(lambda: "restarted the workers" in gateway.process.errors, SECONDS)
        after = eventually(lambda: _others(gateway, before), SECONDS)

        assert len(after) == 2
        assert asking.stop() == []
        gateway.process.popen.send_signal(signal.SIGINT)
        assert gateway.process.wait() == 0


def test_workers_stay_if_their_successors_cannot_start(settings: Settings, tmp_path: Path) -> None:
    with (
        through_wire(replace(settings, log_level="info")) as (wire, over_wire),
        served(tmp_path, environment(over_wire), "--workers", "2") as gateway,
    ):
        eventually(lambda: gateway.process.errors.count("started") == 2, SECONDS)
        before = set(serving_processes(gateway))
        wire.cut()

        gateway.process.popen.send_signal(signal.SIGHUP)
        eventually(lambda: "worker cannot start" in gateway.process.errors, SECONDS)

        assert eventually(lambda: set(serving_processes(gateway)) == before)
        assert gateway.ask("{ __typename }").json() == {"data": {"__typename": "Query"}}
        assert "restarted the workers" not in gateway.process.errors


def _others(gateway: Served, before: set[int]) -> set[int]:
    """Returns the workers, when those of before have ended."""
    now = set(serving_processes(gateway))
    return set() if now & before else now


class Asking:
    """Asks again and again, each time by a new connection, and notes what is no answer."""

    def __init__(self, gateway: Served) -> None:
        self._gateway = gateway
        self._failures: list[object] = []
        self._stops = threading.Event()
        self._thread = threading.Thread(target=self._ask_on)
        self._thread.start()

    def _ask_on(self) -> None:
        while not self._stops.is_set():
            try:
                answer = self._gateway.ask("{ __typename }")
            except httpx.TransportError as error:
                self._failures.append(error)
            else:
                if answer.status_code != 200:
                    self._failures.append(answer.text)

    def stop(self) -> list[object]:
        self._stops.set()
        self._thread.join()
        return self._failures
