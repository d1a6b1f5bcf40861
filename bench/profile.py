"""`python -m bench.profile`: sample what the gateway does while 16 clients request the benchmark page.

Needs the program py-spy on the PATH. A sample counts for the function that runs, not for its callers.
"""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from rich.console import Console

from bench import mongo, report, servers
from bench.__main__ import environment, load
from bench.load import Job
from bench.peerlist import PEERS, ROOT
from bench.processes import share_out, spawn

RESULTS = Path(__file__).parent / "results" / "profile.json"
_CONNECTIONS = 16
_SAMPLES_A_SECOND = 500
# Parts of the gateway by a piece of the path of a file. The first that fits counts.
PARTS = (
    ("asyncio/runners.py", "the event loop: waiting, reading from sockets, callbacks"),
    ("gateway/mongo/", "direct reads: sending commands to MongoDB, their connections"),
    ("bson/", "BSON"),
    ("gateway/operations/encoding.py", "JSON of the response"),
    ("gateway/operations/plans/", "the plan: values from documents, relations, lists"),
    ("<plan>", "the plan: values from documents, relations, lists"),
    ("gateway/", "HTTP and operations in the gateway"),
    ("uvicorn/", "uvicorn"),
    ("loaders/", "resolvers, loaders and functions of the schema"),
    ("resolvers/", "resolvers, loaders and functions of the schema"),
    ("schema/", "resolvers, loaders and functions of the schema"),
    ("", "other"),
)


def part_of(stack: str) -> str:
    """Return the part of the gateway that the innermost function of a stack belongs to."""
    place = stack.rpartition(";")[2].rpartition("(")[2]
    return next(part for piece, part in PARTS if piece in place)


def shares(samples: str) -> dict[str, float]:
    """Return the share of each part, the largest first. Each line of the samples is a stack and a number."""
    found: Counter[str] = Counter()
    for line in samples.splitlines():
        stack, _, count = line.rpartition(" ")
        found[part_of(stack)] += int(count)
    return {part: round(count / found.total(), 3) for part, count in found.most_common()}


def sampled(server: servers.Server, core: int | None, seconds: int, folder: Path) -> str:
    """Return the samples of a server that is under load."""
    requests = seconds * 20_000  # more than there is time for
    job = Job(server.port, server.peer.path, server.pid, len(server.body), _CONNECTIONS, 1_000, requests)
    command = [sys.executable, "-m", "bench.load", orjson.dumps([job]).decode()]
    samples = folder / "samples.txt"
    program = ["py-spy", "record", "--rate", f"{_SAMPLES_A_SECOND}", "--duration", f"{seconds}", "--format", "raw"]
    clients = spawn(command, core, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    try:
        subprocess.run([*program, "--output", samples, "--pid", f"{server.pid}"], check=True, capture_output=True)
    finally:
        clients.kill()
        clients.wait()
    return samples.read_text()


def run(seconds: int) -> dict[str, Any]:
    if shutil.which("py-spy") is None:
        raise RuntimeError("there is no py-spy: put it on the PATH, for example by `pip install py-spy`")
    cores = share_out()
    (peer,) = (found for found in PEERS if found.name == "portico")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        load(uri, folder)
        server = stack.enter_context(servers.running(peer, cores.server, environment(uri), folder))
        return report.measured(seconds=seconds, shares=shares(sampled(server, cores.rest, seconds, folder)))


def show(figures: dict[str, Any]) -> None:
    for part, share in figures["shares"].items():
        Console().print(f"{share:6.1%}  {part}", highlight=False)


def main(
    seconds: Annotated[int, typer.Option(min=1, help="How long to sample.")] = 24,
    json: Annotated[Path | None, typer.Option(help="The file for the figures.")] = RESULTS,
) -> None:
    """Sample what the gateway does while clients request the benchmark page."""
    report.publish(lambda: run(seconds), json, show)


if __name__ == "__main__":
    typer.run(main)
