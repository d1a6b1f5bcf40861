"""Fixtures of several modules."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.documented import as_documented
from portico.gateway.settings import Settings
from tests.gateway.support.times import Time
from tests.support.demo import Demo
from tests.support.harness import GatewayClient
from tests.support.replica_sets import ReplicaSet, replica_set


@pytest.fixture
async def documented_shop(loaded_demo: Demo, gateway: GatewayClient, settings: Settings) -> GatewayClient:
    """A gateway on the demo's data, after the documented mutations."""
    loaded_demo.copy_to(settings)
    return await as_documented(gateway)


@pytest.fixture
def three(tmp_path: Path) -> Iterator[ReplicaSet]:
    with replica_set(tmp_path / "three") as found:
        yield found


@pytest.fixture
def closed_port() -> Iterator[int]:
    """A port that refuses connections. No other process can listen there meanwhile."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path of a file to import."""
    return tmp_path / "records.jsonl"
