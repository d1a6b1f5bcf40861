"""Runs the `mongod` of a data folder, and stops it when no process uses it any more.

python -m portico.gateway.mongo.keeper FOLDER MONGOD PORT
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

_POLL_SECONDS = 0.25
_STOP_SECONDS = 30
_PR_SET_PDEATHSIG = 1
# The cache gets a quarter of the memory, up to this. With a small cache, the server writes out the same pages again and
# again, and an import takes twice as long.
_MAX_CACHE_GB = 4.0


def _die_with_keeper() -> None:
    """Runs in the child before it executes `mongod`, and makes it end with the keeper.

    Only Linux supports this. On other systems the `mongod` of a killed keeper keeps running.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def _cache_gb() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return f"{min(memory / 4, _MAX_CACHE_GB):.2f}"


def keep(folder: Path, mongod: str, port: int) -> int:
    command = [
        mongod,
        *("--dbpath", str(folder / "mongo")),
        *("--port", str(port)),
        *("--bind_ip", "127.0.0.1"),
        *("--replSet", "portico"),
        *("--wiredTigerCacheSizeGB", _cache_gb()),
        # Checks read a snapshot for a moment, and nothing reads old ones. Keeping five minutes of them, and of dropped
        # files, costs time and open files.
        *("--setParameter", "minSnapshotHistoryWindowInSeconds=2"),
        *("--logpath", str(folder / "mongod.log")),
    ]
    state = folder / "mongod.json"
    with (folder / "mongod.users").open("a") as lock, (folder / "mongod.keeper").open("a") as alive:
        # Shows other processes that a keeper runs.
        fcntl.flock(alive, fcntl.LOCK_EX)
        child = subprocess.Popen(command, preexec_fn=_die_with_keeper)  # noqa: S603, PLW1509 - before any thread
        state.write_text(json.dumps({"port": port, "pid": child.pid}))
        while child.poll() is None and not _is_unused(lock):
            time.sleep(_POLL_SECONDS)
        child.terminate()
        try:
            return child.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            return child.wait()


def _is_unused(lock: IO[str]) -> bool:
    """Returns whether no other process holds the lock. If so, takes it: new users then wait until this process ends."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


if __name__ == "__main__":
    sys.exit(keep(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])))
