"""A MongoDB on a small disk of its own, which can be filled and emptied."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from portico.gateway.mongo.embedded import find_mongod
from portico.gateway.settings import Settings
from tests.support.processes import Process, eventually
from tests.support.replica_sets import START_SECONDS, free_ports

_MEGABYTES = 640
_MOUNT = f"mount -t tmpfs -o size={_MEGABYTES}m none {{place}} && echo mounted && exec sleep 3600"
_OPTIONS = ("--bind_ip", "127.0.0.1", "--replSet", "small", "--oplogSize", "32", "--wiredTigerCacheSizeGB", "0.25")


def can_mount() -> bool:
    """Returns whether this machine allows a mount in a namespace of one's own."""
    try:
        command = ["unshare", "-rm", "mount", "-t", "tmpfs", "none", "/mnt"]
        trial = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return trial.returncode == 0


class SmallDisk:
    """A file system in memory, in a mount namespace that a sleeping process holds, and a `mongod` that uses it."""

    def __init__(self, folder: Path, holder: int) -> None:
        self._folder = folder
        self._holder = holder
        (self._port,) = free_ports(1)
        self._node: Process | None = None
        # The disk as it looks from outside of the namespace.
        self._disk = Path(f"/proc/{holder}/root{folder / 'disk'}")
        self.uri = f"mongodb://127.0.0.1:{self._port}/?replicaSet=small"

    def start(self) -> None:
        """Starts the server. Returns when it is the primary."""
        within = ["nsenter", f"--target={self._holder}", "--user", "--mount", "--preserve-credentials"]
        (self._disk / "data").mkdir(exist_ok=True)
        place = ["--dbpath", str(self._folder / "disk" / "data"), "--port", str(self._port)]
        self._node = Process([*within, find_mongod(Settings()), *place, *_OPTIONS], os.environ, self._folder)
        with self._client() as client:
            eventually(lambda: _answers(client), START_SECONDS)
            with contextlib.suppress(PyMongoError):
                client.admin.command("replSetInitiate")
            eventually(lambda: _hello(client).get("isWritablePrimary"), START_SECONDS)

    def stop(self) -> None:
        if self._node is not None:
            self._node.end()

    def fill(self) -> None:
        """Leaves no room on the disk."""
        with (self._disk / "filler").open("wb", buffering=0) as filler, contextlib.suppress(OSError):
            while True:
                filler.write(bytes(1 << 16))

    def free(self) -> None:
        """Makes room again."""
        (self._disk / "filler").unlink()

    def _client(self) -> MongoClient[dict[str, Any]]:
        return MongoClient("127.0.0.1", self._port, directConnection=True, serverSelectionTimeoutMS=500)


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Starts a server on a small disk. The end of the block stops it, and the disk is gone."""
    place = folder / "disk"
    place.mkdir(parents=True)
    mount = ["unshare", "-rm", "sh", "-c", _MOUNT.format(place=place)]
    with subprocess.Popen(mount, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"mounted\n"
        disk = SmallDisk(folder, holder.pid)
        try:
            disk.start()
            yield disk
        finally:
            disk.stop()
            holder.kill()


def _answers(client: MongoClient[dict[str, Any]]) -> bool:
    return bool(_hello(client))


def _hello(client: MongoClient[dict[str, Any]]) -> dict[str, Any]:
    with contextlib.suppress(PyMongoError):
        return client.admin.command("hello")
    return {}
