"""Runs commands as forks of a process that has imported everything and has built the schema.

Imports and the schema take most of the time of a short command. A fork has its own arguments, environment, working
directory, files, signals and session, like a process that a shell starts. The workers of `portico serve` are forks of
its fork.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import multiprocessing
import multiprocessing.process
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from multiprocessing import connection
from multiprocessing.context import ForkProcess, ForkServerContext
from pathlib import Path
from typing import Any

from uvicorn import _subprocess
from uvicorn.supervisors import multiprocess as supervisor

from portico.gateway import domains
from portico.gateway.cli.entry import main

PORTICO = str(Path(sys.executable).with_name("portico"))

# The status of a process can be read once. A process that starts also reads those of all others that have ended.
_reading = threading.Lock()


class ForkedCommand:
    """A running command, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, out: Path, err: Path
    ) -> None:
        folder = str(cwd or Path.cwd())
        for file in (out, err):
            file.write_bytes(b"")
        self._process = _server().Process(target=_run, args=([*arguments], dict(env), folder, str(out), str(err)))
        with _reading:
            self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        with _reading:
            return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        connection.wait([self._process.sentinel], timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired(PORTICO, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            # The server of the forks may have reaped the process, and not have said so yet.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@functools.cache
def _server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.support.warm"])
    return context


def _run(arguments: list[str], env: dict[str, str], folder: str, out: str, err: str) -> None:
    os.setsid()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    # A worker of `portico serve` stops when its parent stops; a command that a shell starts has no such parent.
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]
    _subprocess.spawn = _Forks()  # type: ignore[assignment]
    _look_in(env.get("PYTHONPATH"))
    for path, flags, descriptor in ((os.devnull, os.O_RDONLY, 0), (out, _WRITE, 1), (err, _WRITE, 2)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = [PORTICO, *arguments]
    main()


class _Forks:
    """Stands in for the context in which uvicorn creates its workers."""

    def Process(self, **given: Any) -> _ForkedWorker:  # noqa: N802 - the name in multiprocessing
        return _ForkedWorker(**given)


class _ForkedWorker(ForkProcess):
    def run(self) -> None:
        # A fork inherits the handlers of the process that supervises the workers; a new process has none.
        for number in supervisor.SIGNALS:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
        super().run()


def _look_in(folder: str | None) -> None:
    """Looks for modules and for domains in this folder first."""
    if folder is not None:
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        domains.load_once.cache_clear()


_WRITE = os.O_WRONLY
