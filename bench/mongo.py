"""The bench's own MongoDB: a replica set with one node on a loopback port, in a temporary folder."""

import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from bench.processes import HOST, free_port, spawn, stop

SECONDS_TO_START = 60


def find_mongod() -> str:
    """Return the path of mongod: from the PATH, or else from the wheel that contains it."""
    if found := shutil.which("mongod"):
        return found
    package = importlib.util.find_spec("fiftyone")
    for folder in (package.submodule_search_locations or []) if package else []:
        program = Path(folder) / "db" / "bin" / "mongod"
        if program.is_file():
            return str(program)
    message = "there is no mongod: put it on the PATH, or install portico[embedded]"
    raise RuntimeError(message)


def initiate(port: int) -> None:
    """Initiate the replica set. Return when it accepts writes."""
    deadline = time.monotonic() + SECONDS_TO_START
    config = {"_id": "bench", "members": [{"_id": 0, "host": f"{HOST}:{port}"}]}
    uri = f"mongodb://{HOST}:{port}/?directConnection=true&serverSelectionTimeoutMS={SECONDS_TO_START * 1_000}"
    with MongoClient[dict[str, object]](uri) as client:
        client.admin.command("replSetInitiate", config)
        while not client.admin.command("hello").get("isWritablePrimary"):
            if time.monotonic() > deadline:
                message = "mongod did not become primary"
                raise RuntimeError(message)
            time.sleep(0.05)


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2_000:] if log.exists() else ""


@contextmanager
def running(core: int | None) -> Iterator[str]:
    """Start a mongod on that core, and yield its URI. At the end, stop it and remove its data."""
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as folder:
        port, log = free_port(), Path(folder) / "mongod.log"
        command = [find_mongod(), "--dbpath", folder, "--logpath", str(log), "--bind_ip", HOST, "--port", str(port)]
        command += ["--replSet", "bench", "--wiredTigerCacheSizeGB", "0.5", "--nounixsocket"]
        # mongod collects statistics every second, which would disturb the measurement.
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false"]
        process = spawn(command, core, stdout=subprocess.DEVNULL)
        try:
            initiate(port)
            yield f"mongodb://{HOST}:{port}/?replicaSet=bench"
        except PyMongoError as error:
            message = f"mongod failed: {error}\n{tail(log)}"
            raise RuntimeError(message) from error
        finally:
            stop(process)
