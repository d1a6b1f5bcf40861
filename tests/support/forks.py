"""Commands as processes that begin with everything imported: they are forked from one that has done so.

To import the gateway and to build its schema takes most of the time of a short command. Everything else is as in a
process that a shell starts: arguments, environment, working folder, output, signals, and a process group of its own.
"""

from __future__ import annotations

import functools
import multiprocessing
import multiprocessing.process
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext
from pathlib import Path

from portico.gateway.cli.commands import main

PORTICO = str(Path(sys.executable).with_name("portico"))


class ForkedCommand:
    """A running command, with the methods of `subprocess.Popen` that tests use."""

    def __init__(
        self, arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None, out: Path, err: Path
    ) -> None:
        folder = str(cwd or Path.cwd())
        self._process = _server().Process(target=_run, args=([*arguments], dict(env), folder, str(out), str(err)))
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired(PORTICO, timeout or 0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
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
    # Nobody but the test ends it, as if a shell had started it.
    multiprocessing.process._parent_process = None  # type: ignore[attr-defined]
    for path, flags, descriptor in ((os.devnull, os.O_RDONLY, 0), (out, _WRITE, 1), (err, _WRITE, 2)):
        opened = os.open(path, flags, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.argv = [PORTICO, *arguments]
    main()


_WRITE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
