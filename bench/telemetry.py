"""`python -m bench.telemetry`: measure what telemetry costs an operation.

The same gateway serves the benchmark page without telemetry, with metrics, and with all or a part of the traces. The
CPU time is that of its process, with the threads that encode and send. A collector on the other core reads what is
sent and drops it.
"""

import os
import subprocess
import sys
import tempfile
import threading
from contextlib import ExitStack
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from bench import measure, mongo, servers
from bench.__main__ import environment, load
from bench.peerlist import PEERS
from bench.processes import HOST, share_out

_OFF = "off"
console = Console()


class Collector(BaseHTTPRequestHandler):
    """Reads a request, and answers that it has been accepted."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_arguments: object) -> None:
        """Log nothing."""


def variants(url: str) -> dict[str, dict[str, str]]:
    """Return the variables of each variant."""
    on = {"OTEL_EXPORTER_OTLP_ENDPOINT": url, "OTEL_METRIC_EXPORT_INTERVAL": "5000"}
    sampled = {**on, "OTEL_TRACES_SAMPLER": "parentbased_traceidratio"}
    return {
        _OFF: {},
        "metrics": {**on, "OTEL_TRACES_EXPORTER": "none"},
        "metrics, 1 % of traces": {**sampled, "OTEL_TRACES_SAMPLER_ARG": "0.01"},
        "metrics, 10 % of traces": {**sampled, "OTEL_TRACES_SAMPLER_ARG": "0.1"},
        "metrics, all traces": on,
    }


def main(
    rounds: Annotated[int, typer.Option(min=1, help="The number of measurements of each variant.")] = 5,
    requests: Annotated[int, typer.Option(min=1, help="Requests in a run.")] = 1_500,
) -> None:
    """Measure what telemetry costs an operation."""
    cores = share_out()
    (peer,) = (found for found in PEERS if found.name == "portico")
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="portico-bench-")))
        uri = stack.enter_context(mongo.running(cores.rest))
        load(uri, folder)
        if cores.rest is not None:
            os.sched_setaffinity(0, {cores.rest})
        collector = stack.enter_context(ThreadingHTTPServer((HOST, 0), Collector))
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        stack.callback(collector.shutdown)
        started = []
        for name, variables in variants(f"http://{HOST}:{collector.server_port}").items():
            env = {**environment(uri), **variables}
            started.append(stack.enter_context(servers.running(replace(peer, name=name), cores.server, env, folder)))
        settings = measure.Settings(rounds, requests, 200, 1_000, connections=(1,))
        samples = measure.rounds(started, settings, cores.rest, lambda line: console.print(line, highlight=False))
    table = Table("telemetry", "CPU ms an operation", "more than off, µs", "ratio")
    figures = {name: measure.median_of(found[1]).cpu_ms for name, found in samples.items()}
    for name, cpu in figures.items():
        table.add_row(name, f"{cpu:.3f}", f"{1e3 * (cpu - figures[_OFF]):.0f}", f"{cpu / figures[_OFF]:.2f}")
    console.print(table)


if __name__ == "__main__":
    try:
        typer.run(main)
    except (RuntimeError, subprocess.SubprocessError) as error:
        console.print(f"{error}", style="red", markup=False, highlight=False)
        sys.exit(1)
