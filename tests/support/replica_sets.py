"""Replica sets with three nodes for tests. Their primaries can step down, stall, or be killed."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from portico.gateway.mongo.embedded import find_mongod
from portico.gateway.settings import Settings
from tests.support import memory_folders
from tests.support.processes import Process, eventually

START_SECONDS = 60.0
_NAME = "three"
# With these settings, an election takes a second or two.
_ELECTIONS = {"electionTimeoutMillis": 1_000, "heartbeatIntervalMillis": 200}
# What a node needs so that its replication can be stopped.
TEST_COMMANDS = ("--setParameter", "enableTestCommands=1")
_REPLICATION = "stopReplProducer"
# Small journals take a twelfth of the memory.
_OPTIONS = (
    *("--bind_ip", "127.0.0.1", "--quiet"),
    *("--wiredTigerCacheSizeGB", "0.25", "--oplogSize", "64"),
    *("--wiredTigerEngineConfigString", "log=(prealloc=false,file_max=20MB)"),
    *("--setParameter", "diagnosticDataCollectionEnabled=false"),
)


class ReplicaSet:
    """Three nodes. `uri` names them all."""

    def __init__(self, ports: list[int], start: Callable[[int], Process]) -> None:
        self._start = start
        self._nodes = {port: start(port) for port in ports}
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        self.uri = f"mongodb://{hosts}/?replicaSet={_NAME}"

    def initiate(self) -> None:
        """Initiates the set. Returns when it has a primary."""
        members = [{"_id": number, "host": f"127.0.0.1:{port}"} for number, port in enumerate(self._nodes)]
        config = {"_id": _NAME, "members": members, "settings": _ELECTIONS}
        for port in self._nodes:
            eventually(lambda port=port: _state(port), START_SECONDS)  # type: ignore[misc]
        with _client(next(iter(self._nodes))) as client:
            client.admin.command("replSetInitiate", config)
        eventually(self.primary, START_SECONDS)

    def primary(self) -> int | None:
        """Returns the port of the primary; None while there is none."""
        return next((port for port in self._nodes if _state(port).get("isWritablePrimary")), None)

    def step_down(self) -> int:
        """Makes the primary step down. Returns the port of the new one."""
        before = eventually(self._step_down, START_SECONDS)
        return eventually(lambda: None if (port := self.primary()) == before else port, START_SECONDS)

    def _step_down(self) -> int | None:
        """Returns the port of the primary that has stepped down; None if none could, e.g. on a busy machine."""
        port = self.primary()
        if port is None:
            return None
        with contextlib.suppress(PyMongoError), _client(port) as client:
            client.admin.command("replSetStepDown", 30, secondaryCatchUpPeriodSecs=10)
            return port
        return None

    def kill_primary(self) -> int:
        """Kills the primary, as a crash does. Returns the port of the new one."""
        before = eventually(self.primary, START_SECONDS)
        self._nodes.pop(before).kill()
        return eventually(self.primary, START_SECONDS)

    def kill(self, port: int) -> None:
        """Kills a node, as a crash does."""
        self._nodes[port].kill()

    def restart(self, port: int) -> None:
        """Starts a killed node. Returns when it is a primary or a secondary."""
        self._nodes[port] = self._start(port)
        eventually(lambda: (state := _state(port)).get("secondary") or state.get("isWritablePrimary"), START_SECONDS)

    @property
    def ports(self) -> list[int]:
        return list(self._nodes)

    def stall(self, port: int) -> None:
        """Suspends the process of a node."""
        os.kill(self._nodes[port].pid, signal.SIGSTOP)

    def stall_primary(self) -> int:
        """Suspends the primary's process, so that another one is elected. Returns its port."""
        before = eventually(self.primary, START_SECONDS)
        pid = self._nodes[before].pid
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: _is_stopped(pid))
        return before

    def wait_for_new_primary(self, before: int) -> int:
        """Waits for the next primary. Returns its port."""
        return eventually(lambda: self._primary_beside(before), START_SECONDS)

    def resume(self, port: int) -> None:
        """Resumes a stalled node."""
        os.kill(self._nodes[port].pid, signal.SIGCONT)

    def wait_until_secondary(self, port: int) -> None:
        """Waits until a resumed node is a secondary."""
        eventually(lambda: _state(port).get("secondary"), START_SECONDS)

    @contextlib.contextmanager
    def unreplicated(self) -> Iterator[int]:
        """Yields the port of the primary, which no other node follows. The end of the block resumes the replication.

        The nodes need `TEST_COMMANDS`.
        """
        primary = eventually(self.primary, START_SECONDS)
        with contextlib.ExitStack() as stack:
            for port in self._nodes:
                if port != primary:
                    _fail_at(port, _REPLICATION, "alwaysOn")
                    stack.callback(_fail_at, port, _REPLICATION, "off")
            yield primary

    def rollbacks(self, port: int) -> int:
        """Returns a number that grows when the node rolls back writes."""
        with _client(port) as client:
            number: int = client.admin.command("replSetGetRBID")["rbid"]
        return number

    def client(self, port: int) -> MongoClient[dict[str, Any]]:
        """Returns a client of this node alone."""
        return _client(port)

    def _primary_beside(self, before: int) -> int | None:
        return next((port for port in self._nodes if port != before and _state(port).get("isWritablePrimary")), None)


@contextlib.contextmanager
def replica_set(folder: Path, *options: str) -> Iterator[ReplicaSet]:
    """Starts three nodes with a primary. The end of the block kills them.

    Args:     options: further options of each node, e.g. `TEST_COMMANDS`.
    """
    mongod = find_mongod(Settings())
    ports = free_ports(3)
    with contextlib.ExitStack() as stack:
        files = stack.enter_context(memory_folders.folder_of_test(folder))

        def start(port: int) -> Process:
            data = files / f"data-{port}"
            data.mkdir(parents=True, exist_ok=True)
            command = [mongod, "--replSet", _NAME, "--dbpath", str(data), "--port", str(port), *_OPTIONS]
            command += options
            node = Process(command, os.environ, folder / str(port))
            stack.callback(node.end)
            return node

        found = ReplicaSet(ports, start)
        found.initiate()
        yield found


def _client(port: int) -> MongoClient[dict[str, Any]]:
    return MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=500)


def _fail_at(port: int, name: str, mode: str) -> None:
    """Turns a fail point on, and waits until the node has come to it, or turns it off."""
    with _client(port) as client:
        count = client.admin.command("configureFailPoint", name, mode=mode)["count"]
        if mode != "off":
            client.admin.command("waitForFailPoint", name, timesEntered=count + 1, maxTimeMS=int(START_SECONDS * 1000))


def _state(port: int) -> dict[str, Any]:
    """A node's `hello` response; empty if it does not answer."""
    with contextlib.suppress(PyMongoError), _client(port) as client:
        return client.admin.command("hello")
    return {}


def _is_stopped(pid: int) -> bool:
    """Whether every thread of the process is suspended. The signal reaches them one by one."""
    states = [path.read_text().rpartition(")")[2].split()[0] for path in Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [int(probe.getsockname()[1]) for probe in probes]
