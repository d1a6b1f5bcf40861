"""Keeps the files of the session's MongoDB, and of replica sets with three nodes, in memory.

Creating and dropping a collection waits for the disk: a new database takes two seconds on a disk, and half a second in
memory, with half the processor time. No test needs these files later.
"""

from __future__ import annotations

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - only the owner can read the folders in it
_PREFIX = "portico-tests-"
_USERS = "mongod.users"
# The files of a session take less than half of it, and those of a test a tenth.
_LEAST_FREE = 6 * 2**30
_STOP_SECONDS = 20.0
_STALE_SECONDS = 60.0


def mongodb_folder(session: Path) -> Path:
    """Returns the folder for the MongoDB of the session with these temporary files. It is the same for all workers."""
    folder = _folder(session)
    if folder.exists():
        return folder
    if not _has_room():
        return session / "mongodb"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


@contextlib.contextmanager
def folder_of_test(otherwise: Path) -> Iterator[Path]:
    """Yields a folder in memory, which is removed at the end. Yields the other folder if the memory is short."""
    if not _has_room():
        yield otherwise
        return
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_IN_MEMORY))
    try:
        with (folder / _USERS).open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH)
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_unused(session: Path) -> None:
    """Removes the folder of the session when its MongoDB has stopped, and those of sessions that were killed."""
    deadline = time.monotonic() + _STOP_SECONDS
    own = _folder(session)
    while own.exists() and time.monotonic() < deadline:
        if not _is_used(own):
            shutil.rmtree(own, ignore_errors=True)
        time.sleep(0.05)
    for folder in _IN_MEMORY.glob(f"{_PREFIX}*"):
        with contextlib.suppress(FileNotFoundError):
            is_stale = time.time() - folder.stat().st_mtime > _STALE_SECONDS
            if is_stale and not _is_used(folder):
                shutil.rmtree(folder, ignore_errors=True)


def _folder(session: Path) -> Path:
    return _IN_MEMORY / f"{_PREFIX}{sha256(bytes(session)).hexdigest()[:16]}"


def _is_used(folder: Path) -> bool:
    """Returns whether a process uses or keeps the MongoDB in the folder. See `portico.gateway.mongo.embedded`."""
    for name in (_USERS, "mongod.keeper"):
        with contextlib.suppress(FileNotFoundError), (folder / name).open("r+") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def _has_room() -> bool:
    return _IN_MEMORY.is_dir() and min(shutil.disk_usage(_IN_MEMORY).free, _available_memory()) >= _LEAST_FREE


def _available_memory() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    return 0
