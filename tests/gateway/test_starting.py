"""What a process loads when it starts."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Parts that few processes need, and few requests. Each takes one to four hundredths of a start.
LATE = ("PIL", "brotli", "httpx", "markdown_it", "pygments", "rich", "strawberry.federation.schema_directives")
START = f"""
import sys
import portico.gateway.cli.commands
import portico.gateway.cli.data
import portico.gateway.cli.server
from portico.gateway.domains import load, schema_of
schema_of(load(None))
print(*(name for name in {LATE!r} if name in sys.modules))
"""
# What the help of the command line needs none of.
LARGE = ("asyncio", "graphql", "pymongo", "rich", "starlette", "strawberry", "uvicorn")
HELPED = f"""
import atexit, sys
atexit.register(lambda: print("loaded:", *(name for name in {LARGE!r} if name in sys.modules)))
from portico.gateway.cli import commands
commands.main()
"""
# A worker imports the gateway when its server runs.
WORKER = """
import gc
import uvicorn
from portico.gateway.cli.stopping import Server
from portico.gateway.cli.workers import _Worker
Server.run = lambda server, sockets: print("worker:", gc.isenabled())
_Worker(uvicorn.Config("no.application"), []).target([])
"""
# Counts do not depend on the load of the machine, as the CPU time does.
COUNTED = f"""
import sys
calls = generated = 0

def count(frame, event, argument):
    global calls
    calls += event == "call"

def count_generated(event, arguments):
    global generated
    generated += event == "exec" and arguments[0].co_filename == "<string>"

sys.addaudithook(count_generated)
sys.setprofile(count)
{START}
sys.setprofile(None)
print(calls, generated)
"""
# All domains take a million calls. Strawberry's comparison of fields with errors took half a million more.
MOST_CALLS = 1_100_000
# What dataclasses and named tuples compile.
MOST_GENERATED = 3_000


@pytest.fixture(scope="module")
def started() -> tuple[list[str], int, int]:
    """What a start loads of the late parts, its calls, and how much code it generates."""
    ended = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True)
    late, counts = ended.stdout.splitlines()
    calls, generated = map(int, counts.split())
    return late.split(), calls, generated


def test_a_process_loads_what_few_requests_need_when_they_do(started: tuple[list[str], int, int]) -> None:
    late, _, _ = started

    assert late == []


def test_a_process_loads_with_few_calls_and_little_generated_code(started: tuple[list[str], int, int]) -> None:
    _, calls, generated = started

    assert (calls < MOST_CALLS, generated < MOST_GENERATED) == (True, True), (calls, generated)


def test_a_command_loads_without_garbage_collection() -> None:
    program = "import gc, sys; from portico.gateway.cli import commands; gc.callbacks.append(print); commands.main()"
    ended = subprocess.run([sys.executable, "-c", program, "schema"], capture_output=True, text=True, check=True)

    assert "generation" not in ended.stdout
    assert "type Query" in ended.stdout


def test_a_worker_loads_without_garbage_collection() -> None:
    ended = subprocess.run([sys.executable, "-c", WORKER], capture_output=True, text=True, check=True)

    assert ended.stdout.split() == ["worker:", "False"]


def test_the_help_loads_little() -> None:
    ended = subprocess.run([sys.executable, "-c", HELPED, "--help"], capture_output=True, text=True, check=True)

    assert "payment-service" in ended.stdout
    assert ended.stdout.splitlines()[-1].split() == ["loaded:"]
