"""Gateways as processes: how they stop, how several workers share one database, and how they restart."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from pymongo import MongoClient
from pymongo.database import Database

from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.schema.catalog.merchants import MERCHANT
from tests.support import memory_folders
from tests.support.processes import Served, environment, eventually, is_running, mongods_of, served, workers_of
from tests.support.wire import Wire, through_wire

CREATE = 'mutation {{ createCategory(input: {{ name: "A", slug: "{0}", idempotencyKey: "{0}" }}) {{ __typename }} }}'
PAYLOAD = {"data": {"createCategory": {"__typename": "CategoryPayload"}}}


def token_for(settings: Settings) -> str:
    return Authenticator(settings).issue("tester", [MERCHANT], now=SystemClock().now(), lasts=timedelta(minutes=10))


@pytest.fixture
def token(settings: Settings) -> str:
    return token_for(settings)


@pytest.fixture
def database(settings: Settings) -> Iterator[Database[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](settings.mongodb_uri) as client:
        yield client[settings.database]


def test_the_demo_prints_its_process_id_and_gives_its_token_only_to_this_machine(
    settings: Settings, tmp_path: Path
) -> None:
    with served(tmp_path, environment(replace(settings, domains="content")), command="demo") as gateway:
        (pid,) = re.findall(r"^Process id: (\d+)$", gateway.process.output, re.MULTILINE)
        config = f"{gateway.url}/graphiql/config.json"
        own = httpx.get(config).json()
        rebound = httpx.get(config, headers={"host": f"rebound.example:{gateway.port}"}).json()

        os.kill(int(pid), signal.SIGKILL)

        assert gateway.process.wait() == -signal.SIGKILL
        with pytest.raises(httpx.TransportError):
            httpx.get(f"{gateway.url}/livez")
    assert own["headers"]["authorization"] in re.sub(r"\s+", " ", gateway.process.output)
    assert rebound["headers"] == {}


class Request:
    """A mutation in flight, whose first command a blocked wire holds."""

    def __init__(self, gateway: Served, token: str, wire: Wire, database: str) -> None:
        self.answer: httpx.Response | None = None
        self._thread = threading.Thread(target=self._ask, args=(gateway, token))
        self._thread.start()
        eventually(lambda: wire.holds(database))
        assert self._thread.is_alive()

    def _ask(self, gateway: Served, token: str) -> None:
        with contextlib.suppress(httpx.TransportError):
            self.answer = gateway.ask(CREATE.format("slow"), token)

    def wait(self) -> None:
        self._thread.join(20)
        assert not self._thread.is_alive()


def is_refused(gateway: Served) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", gateway.port)) != 0


# Stopping


def test_a_stopping_gateway_finishes_its_requests_and_takes_no_new_ones(
    settings: Settings, token: str, database: Database[dict[str, Any]], tmp_path: Path
) -> None:
    with through_wire(settings) as (wire, over_wire), served(tmp_path, environment(over_wire)) as gateway:
        wire.block()
        request = Request(gateway, token, wire, settings.database)

        gateway.process.terminate()
        eventually(lambda: is_refused(gateway))
        assert request.answer is None
        wire.unblock()
        request.wait()

        assert request.answer is not None
        assert request.answer.json() == PAYLOAD
        assert gateway.process.wait() in {0, -signal.SIGTERM}
        assert "Traceback" not in gateway.process.errors
    assert [category["slug"] for category in database["categories"].find()] == ["slow"]
    assert database["leases"].count_documents({}) == 0


def test_a_request_that_does_not_finish_is_cancelled_after_the_stop_timeout(
    settings: Settings, token: str, tmp_path: Path
) -> None:
    chosen = replace(settings, stop_seconds=1)
    with through_wire(chosen) as (wire, over_wire), served(tmp_path, environment(over_wire)) as gateway:
        wire.block()
        request = Request(gateway, token, wire, settings.database)
        begun = time.monotonic()

        gateway.process.terminate()
        request.wait()
        assert 1 <= time.monotonic() - begun < 10
        gateway.process.wait(30)

        assert time.monotonic() - begun < 20


def test_unfinished_uploads_and_idle_connections_do_not_delay_a_stop(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(replace(settings, stop_seconds=1))) as gateway, httpx.Client() as idle:
        idle.get(f"{gateway.url}/livez")
        with socket.create_connection(("127.0.0.1", gateway.port)) as uploading:
            head = (
                b"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
            )
            uploading.sendall(head)
            time.sleep(0.2)
            begun = time.monotonic()

            gateway.process.terminate()
            gateway.process.wait()

            # Less than the time that an upload has for its body.
            assert time.monotonic() - begun < 15


def test_an_idle_gateway_stops_at_once(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(settings)) as gateway, httpx.Client() as idle:
        idle.get(f"{gateway.url}/livez")
        begun = time.monotonic()

        gateway.process.terminate()
        gateway.process.wait()

        # Less than the stop timeout, even on a busy machine.
        assert time.monotonic() - begun < 9


# Several workers


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.fixture
def data(tmp_path: Path) -> Iterator[Path]:
    """A folder for the data of a gateway with its own MongoDB, in memory: on a disk, its start takes twice as long."""
    yield memory_folders.mongodb_folder(tmp_path)
    memory_folders.remove_unused(tmp_path)


@pytest.fixture
def embedded(data: Path) -> dict[str, str]:
    """The environment of a gateway with its own MongoDB that runs its jobs often."""
    variables = {"DATA_DIR": str(data), "JOB_SECONDS": "0.3", "LOG_FORMAT": "json", "STOP_SECONDS": "3"}
    return environment() | {f"PORTICO_{name}": value for name, value in variables.items()}


def test_workers_share_one_mongodb_run_each_job_once_and_end_together(
    embedded: dict[str, str], data: Path, tmp_path: Path
) -> None:
    with served(tmp_path / "served", embedded, "--workers", "2") as gateway:
        eventually(lambda: gateway.process.errors.count('"started"') == 2, 30)
        (mongod,) = mongods_of(data)
        assert gateway.ask(CREATE.format("a"), token_for(Settings(data_dir=data))).json() == PAYLOAD

        # given a category whose creation was interrupted a minute ago
        mongod_port = json.loads((data / "mongod.json").read_text())["port"]
        with MongoClient[dict[str, Any]](f"mongodb://127.0.0.1:{mongod_port}/?directConnection=true") as client:
            categories = client["portico"]["categories"]
            parent = categories.find_one({"slug": "a"}, {"slug": 1, "name": 1})
            assert parent is not None
            left = {"slug": "left", "name": "Left", "parent": parent["_id"], "ancestors": [parent]}
            at = datetime.now(UTC) - timedelta(minutes=1)
            categories.insert_one({**left, "pending": {"op": "r-1", "at": at}})
            eventually(lambda: categories.count_documents({"slug": "left", "pending": None}))

        eventually(lambda: '"job done"' in gateway.process.errors)
        done = re.findall(r'"job": "([a-z-]+)".*"event": "job done"', gateway.process.errors)
        assert len(done) == len(set(done)) > 0
        workers = children_of(gateway.process.pid)
        gateway.process.terminate()
        gateway.process.wait()
        for pid in (*workers, mongod):
            eventually(lambda pid=pid: not is_running(pid), 15)  # type: ignore[misc]


@pytest.mark.sample(2)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_killed_gateway_restarts_on_its_port_with_its_data(
    embedded: dict[str, str], data: Path, tmp_path: Path, workers: str
) -> None:
    token = token_for(Settings(data_dir=data))
    with served(tmp_path / "first", embedded, "--workers", workers) as gateway:
        assert gateway.ask(CREATE.format("a"), token).json() == PAYLOAD
        port = gateway.port
        gateway.process.kill()

        with served(tmp_path / "second", embedded, "--workers", workers, port=port) as again:
            answer = again.ask('{ category(slug: "a") { name } }')

    assert answer.json() == {"data": {"category": {"name": "A"}}}


def test_a_killed_worker_is_replaced(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(settings), "--workers", "2") as gateway:
        eventually(lambda: len(children_of(gateway.process.pid)) >= 2)
        before = set(children_of(gateway.process.pid))
        for pid in before:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

        eventually(lambda: len(set(children_of(gateway.process.pid)) - before) >= 2, 20)
        answered = eventually(lambda: _answer(gateway), 20)

    assert answered == {"data": {"__typename": "Query"}}


def test_a_worker_that_dies_in_an_outage_is_replaced_after_it_and_the_others_go_on(
    settings: Settings, tmp_path: Path
) -> None:
    impatient = replace(settings, database_seconds=1, log_level="info")
    with (
        through_wire(impatient) as (wire, over_wire),
        served(tmp_path, environment(over_wire), "--workers", "2", is_new=True) as gateway,
    ):
        # Each worker says that it has started.
        eventually(lambda: (gateway.process.output + gateway.process.errors).count("database=") >= 2, 30)
        (first, second) = workers_of(gateway.process.pid)
        wire.block()
        os.kill(first, signal.SIGKILL)
        (failed,) = eventually(lambda: set(workers_of(gateway.process.pid)) - {first, second}, 20)
        eventually(lambda: not is_running(failed), 30)

        assert httpx.get(f"{gateway.url}/livez", timeout=20).status_code == 200
        eventually(lambda: "worker cannot start" in gateway.process.errors, 20)
        assert "MongoDB: " in gateway.process.errors
        wire.unblock()
        eventually(lambda: len([pid for pid in workers_of(gateway.process.pid) if is_running(pid)]) == 2, 30)
        answered = eventually(lambda: _answer(gateway), 20)

        assert second in workers_of(gateway.process.pid)
    assert answered == {"data": {"__typename": "Query"}}


def _answer(gateway: Served) -> Any:
    with contextlib.suppress(httpx.TransportError):
        return gateway.ask("{ __typename }").json()
    return None
