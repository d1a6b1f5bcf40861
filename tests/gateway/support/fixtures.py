"""Fixtures that several modules have with options of their own: gateways in processes, and replica sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.settings import Settings
from tests.support.processes import Served, environment, own_database, served
from tests.support.replica_sets import ReplicaSet, replica_set


def process_with(**changes: Any) -> Any:
    """Returns a fixture: a gateway in a process of its own with these settings, which the tests of a module share."""

    @pytest.fixture(scope="module")
    def gateway(mongodb_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
        with own_database(mongodb_uri, tmp_path_factory.mktemp("settings")) as settings:
            chosen: Settings = replace(settings, **changes)
            with served(tmp_path_factory.mktemp("served"), environment(chosen)) as found:
                yield found

    return gateway


def nodes_with(*options: str) -> Any:
    """Returns a fixture: a replica set of three nodes with these options, which the tests of a module share."""

    @pytest.fixture(scope="module")
    def three(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
        with replica_set(tmp_path_factory.mktemp("three"), *options) as found:
            yield found

    return three
