"""The bench's own MongoDB: a replica set with one node on a loopback port, in a temporary folder."""

import importlib.util
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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


def initiate(port: int, *, is_new: bool = True) -> None:
    """Initiate the replica set; if it is not new, give it the port of this start. Return when it accepts writes."""
    deadline = time.monotonic() + SECONDS_TO_START
    member = {"_id": 0, "host": f"{HOST}:{port}"}
    uri = f"mongodb://{HOST}:{port}/?directConnection=true&serverSelectionTimeoutMS={SECONDS_TO_START * 1_000}"
    with MongoClient[dict[str, Any]](uri) as client:
        if is_new:
            client.admin.command("replSetInitiate", {"_id": "bench", "members": [member]})
        else:
            config = client["local"]["system.replset"].find_one({"_id": "bench"})
            assert config is not None
            changed = {**config, "members": [{**config["members"][0], **member}], "version": config["version"] + 1}
            client.admin.command("replSetReconfig", changed, force=True)
        while not client.admin.command("hello").get("isWritablePrimary"):
            if time.monotonic() > deadline:
                message = "mongod did not become primary"
                raise RuntimeError(message)
            time.sleep(0.05)


def tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2_000:] if log.exists() else ""


@contextmanager
def running(
    core: int | None, *, folder: Path | None = None, cache_gb: float = 0.5, options: Iterable[str] = ()
) -> Iterator[str]:
    """Start a mongod on that core, and yield its URI. At the end, stop it.

    With a folder, its data stay there, and the next start finds them. Otherwise they are removed.
    """
    with tempfile.TemporaryDirectory(prefix="portico-bench-") as temporary:
        data = folder or Path(temporary)
        data.mkdir(parents=True, exist_ok=True)
        is_new, port, log = not any(data.iterdir()), free_port(), Path(temporary) / "mongod.log"
        command = [find_mongod(), "--dbpath", str(data), "--logpath", str(log), "--bind_ip", HOST, "--port", str(port)]
        command += ["--replSet", "bench", "--wiredTigerCacheSizeGB", str(cache_gb), "--nounixsocket"]
        # mongod collects statistics every second, which would disturb the measurement.
        command += ["--setParameter", "diagnosticDataCollectionEnabled=false", *options]
        process = spawn(command, core, stdout=subprocess.DEVNULL)
        try:
            initiate(port, is_new=is_new)
            yield f"mongodb://{HOST}:{port}/?replicaSet=bench"
        except PyMongoError as error:
            message = f"mongod failed: {error}\n{tail(log)}"
            raise RuntimeError(message) from error
        finally:
            stop(process)
