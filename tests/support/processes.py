"""Real processes for tests: the command line, the gateways that it serves, and Node.js."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import httpx
import pytest

from portico.gateway.mongo import embedded
from portico.gateway.settings import PREFIX, Settings, declared
from portico.resolvers.configuration import Secret
from tests.support.databases import database
from tests.support.forks import PORTICO, ForkedCommand
from tests.support.harness import SECRET

T = TypeVar("T")

TESTS = Path(__file__).parents[1]
# How long a gateway may take to answer. It may start a MongoDB first.
START_SECONDS = 30.0 + embedded.START_SECONDS


def environment(settings: Settings | None = None, **variables: str) -> dict[str, str]:
    """Returns the environment of a process: this one's, without the developer's settings, and with these settings."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(PREFIX)}
    chosen = {} if settings is None else as_variables(settings)
    # Wide enough that no line wraps.
    return {**inherited, "COLUMNS": "300", **chosen, **variables}


def as_variables(settings: Settings) -> dict[str, str]:
    """Returns the settings that differ from the defaults, as variables of the environment."""
    return {
        variable: str(value)
        for one in (settings, *settings.slices.values())
        for variable, field in declared(type(one))
        if (value := getattr(one, field.name)) != field.default
    }


@contextlib.contextmanager
def own_database(uri: str, folder: Path) -> Iterator[Settings]:
    """Yields settings with a separate database, for processes that several tests share."""
    with database(uri) as name:
        yield Settings(mongodb_uri=Secret(uri), database=name, data_dir=folder, jwt_secret=SECRET)


def portico(
    *arguments: str,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    timeout: float = 60.0,
    is_new: bool = False,
) -> subprocess.CompletedProcess[str]:
    """A command, from its start to its end. With `is_new` it is certainly a new process, and not a fork."""
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out.txt", Path(folder) / "err.txt"
        process = _start([PORTICO, *arguments], environment() if env is None else env, cwd, out, err, is_new=is_new)
        try:
            status = process.wait(timeout)
        finally:
            process.kill()
        return subprocess.CompletedProcess(arguments, status, out.read_text(), err.read_text())


def _start(
    command: Sequence[str], env: Mapping[str, str], cwd: Path | None, out: Path, err: Path, *, is_new: bool
) -> ForkedCommand | subprocess.Popen[bytes]:
    """Starts a process: a fork where that behaves like a new process (`forks`), a new process otherwise."""
    if not is_new and command[0] == PORTICO and _is_forkable(command, env):
        return ForkedCommand(command[1:], env, cwd, out, err)
    with out.open("w") as output, err.open("w") as errors:
        return subprocess.Popen(
            command,
            env=dict(env),
            cwd=cwd,
            stdout=output,
            stderr=errors,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )


def _is_forkable(command: Sequence[str], env: Mapping[str, str]) -> bool:
    """A variable that is read during imports needs a new process."""
    if "PYTHONPATH" in env and command[1] != "schema":
        return False
    return env.get("COLUMNS") == "300"


class Process:
    """A process that runs in the background, in a session with its children. Its output is in files."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str], folder: Path, *, is_new: bool = False) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._out, self._err = folder / "out.txt", folder / "err.txt"
        self.popen = _start(command, env, None, self._out, self._err, is_new=is_new)

    @property
    def pid(self) -> int:
        return self.popen.pid

    @property
    def output(self) -> str:
        return self._out.read_text()

    @property
    def errors(self) -> str:
        return self._err.read_text()

    def terminate(self) -> None:
        self.popen.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Kills this process, but not its children, as a crash does."""
        self.popen.kill()
        self.popen.wait(10)

    def wait(self, seconds: float = 20.0) -> int:
        return self.popen.wait(seconds)

    def end(self) -> None:
        """Kills the process and its children, if they still run."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        # It may not have its process group yet.
        self.popen.kill()
        self.popen.wait(10)


@contextlib.contextmanager
def started(folder: Path, env: Mapping[str, str], *arguments: str, is_new: bool = False) -> Iterator[Process]:
    """Starts a command that runs until it is stopped. The end of the block kills it."""
    process = Process([PORTICO, *arguments], env, folder, is_new=is_new)
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def served(
    folder: Path, env: Mapping[str, str], *options: str, command: str = "serve", port: int = 0, is_new: bool = False
) -> Iterator[Served]:
    """Starts a gateway, and yields it when it answers. The end of the block kills it.

    With `is_new` it and its workers are certainly new processes, and not forks.
    """
    with started(folder, env, command, "--port", str(port), *options, is_new=is_new) as process:
        yield Served(process, _url_of(process))


class Served:
    """A gateway in a separate process."""

    def __init__(self, process: Process, url: str) -> None:
        self.process = process
        self.url = url

    @property
    def graphql(self) -> str:
        return f"{self.url}/graphql"

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def ask(self, query: str, token: str | None = None) -> httpx.Response:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return httpx.post(self.graphql, json={"query": query}, headers=headers, timeout=20)


def _url_of(process: Process) -> str:
    """Returns the URL of the gateway when it answers."""

    def answering() -> str | None:
        assert process.popen.poll() is None, f"it ended: {process.errors}"
        found = re.search(r"Portico is at (http://\S+)", process.output)
        if found is None:
            return None
        with contextlib.suppress(httpx.TransportError):
            httpx.get(f"{found[1]}/livez", timeout=START_SECONDS)
            return found[1]
        return None

    return eventually(answering, START_SECONDS, lambda: f": {process.output} {process.errors}")


def eventually(find: Callable[[], T | None], seconds: float = 10.0, found_instead: Callable[[], str] = str) -> T:
    """Calls `find` until its result is true, and returns the result. Fails if that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := find()):
        assert time.monotonic() < deadline, f"nothing within {seconds:.0f} seconds{found_instead()}"
        time.sleep(0.05)
    return found


def is_running(pid: int) -> bool:
    """Returns whether the process exists and has not ended."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def workers_of(pid: int) -> list[int]:
    """Returns the ids of the worker processes of a gateway with several workers."""
    found = []
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            with contextlib.suppress(OSError):
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    found.append(int(child))
    return found


def mongods_of(folder: Path) -> list[int]:
    """Returns the ids of the mongod processes whose data is in the folder."""
    wanted = f"--dbpath\0{folder / 'mongo'}\0".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                if wanted in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def node_modules(folder: str) -> Path:
    """Installs the packages of a folder below the tests by its lock file. Skips the test without Node.js."""
    project = TESTS / folder
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.skip("Node.js with npm is not installed")
    with (project / "package-lock.json").open() as lock:
        # The lock makes the workers of a session install only once.
        fcntl.flock(lock, fcntl.LOCK_EX)
        installed = project / "node_modules" / ".package-lock.json"
        if not installed.exists() or installed.stat().st_mtime < (project / "package-lock.json").stat().st_mtime:
            done = subprocess.run(
                ["npm", "ci", "--no-audit", "--no-fund"],
                cwd=project,
                capture_output=True,
                text=True,
                timeout=120,
                check=False,
            )
            if done.returncode != 0:
                pytest.skip(f"npm cannot install the packages of {folder}: {done.stderr.strip()[-300:]}")
    return project


def found_chromium() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def chromium() -> str:
    """Returns the path of Chromium. Skips the test without it."""
    found = found_chromium()
    if found is None:
        pytest.skip("Chromium is not installed")
    return found


def run_node(project: Path, *arguments: str, timeout: float = 90.0) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["node", *arguments], cwd=project, capture_output=True, text=True, timeout=timeout, check=False
    )
