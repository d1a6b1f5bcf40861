"""Ctrl-C ends a gateway without a traceback, whenever a user presses it, and however often."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from portico.gateway.settings import Settings
from tests.support.processes import environment, eventually, served, started, workers_of

# Python imports this module first. Only workers have the argument.
SLOW_WORKERS = """
import sys, time
if "--multiprocessing-fork" in sys.argv:
    time.sleep(60)
"""
SLOW_START = """
import asyncio, contextlib
import uvicorn
from starlette.applications import Starlette
from portico.gateway.cli.stopping import Server

@contextlib.asynccontextmanager
async def lifespan(app):
    print("busy", flush=True)
    await asyncio.sleep(60)
    yield

try:
    Server(uvicorn.Config(Starlette(lifespan=lifespan), lifespan="on", log_level="warning")).run()
except KeyboardInterrupt:
    pass
"""
FAILED_START = SLOW_START.replace("await asyncio.sleep(60)", "raise LookupError")
# PyMongo can do so while it connects.
LOSES_CANCELLATION = """
import asyncio, contextlib
from portico.gateway.cli import loops

async def work():
    print("busy", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await asyncio.sleep(60)

try:
    loops.run(work())
    raise SystemExit("the command goes on")
except KeyboardInterrupt:
    pass
"""
BUSY = """
import atexit, sys, time
from portico.gateway.cli import entry

def work():
    print("busy", flush=True)
    time.sleep(60)

class Loading:
    def find_spec(self, name, *more):
        name != "portico.gateway.cli.commands" or work()

{when}
sys.argv = ["portico", "--version"]
entry.main()
"""
SLOW_LOAD = BUSY.format(when="sys.meta_path.insert(0, Loading())")
SLOW_END = BUSY.format(when="atexit.register(work)")


@pytest.fixture(autouse=True)
def foreground() -> Iterator[None]:
    """Handles SIGINT. A job in the background of a shell ignores it, and so does each process that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(("options", "count"), [(["--workers", "2"], 2), (["--reload"], 1)], ids=["workers", "reload"])
def test_ctrl_c_prints_nothing_while_workers_load(
    settings: Settings, tmp_path: Path, options: list[str], count: int
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_WORKERS)
    env = {**environment(settings), "PYTHONPATH": str(tmp_path)}
    with started(tmp_path / "run", env, "serve", "--port", "0", *options, is_new=True) as process:
        eventually(lambda: len(workers_of(process.pid)) == count, 60)
        # As a terminal does, to all processes.
        os.killpg(process.pid, signal.SIGINT)
        process.wait()

    assert process.errors == ""


def test_workers_that_ctrl_c_has_ended_are_not_replaced(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(settings), "--workers", "2", is_new=True) as gateway:
        parent = gateway.process.pid
        first = {*workers_of(parent)}
        # The parent is slow to handle the signal, and its workers are not.
        os.kill(parent, signal.SIGSTOP)
        os.killpg(parent, signal.SIGINT)
        eventually(lambda: not any(map(_is_running, first)))
        os.kill(parent, signal.SIGCONT)

        later = set(first)
        while gateway.process.popen.poll() is None:
            later |= {*workers_of(parent)}

    assert (len(first), later - first) == (2, set())


def _is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_a_failed_start_is_said_once() -> None:
    done = subprocess.run([sys.executable, "-c", FAILED_START], capture_output=True, text=True, check=False, timeout=60)

    assert (done.returncode, done.stdout) == (1, "busy\n")
    assert done.stderr.count("Traceback") == 1
    assert "never retrieved" not in done.stderr


def test_ctrl_c_twice_prints_nothing(settings: Settings, tmp_path: Path) -> None:
    with served(tmp_path, environment(settings)) as gateway:
        process = gateway.process
        process.popen.send_signal(signal.SIGINT)
        time.sleep(0.02)
        process.popen.send_signal(signal.SIGINT)
        process.wait()

    assert process.errors == ""


@pytest.mark.parametrize(
    "script", [SLOW_LOAD, SLOW_START, LOSES_CANCELLATION, SLOW_END], ids=["loads", "starts", "works", "ends"]
)
def test_ctrl_c_prints_nothing_while_a_command(script: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        while process.stdout.readline() != "busy\n":
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)

    assert errors == ""
