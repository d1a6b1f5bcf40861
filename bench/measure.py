"""Rounds of measurement: each round measures every peer at every number of connections, and the peers take turns."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from statistics import median

import orjson

from bench.load import Job, Sample
from bench.peerlist import ROOT
from bench.processes import spawn
from bench.servers import Server

SECONDS_FOR_A_ROUND = 1_800

Samples = dict[str, dict[int, list[Sample]]]  # by peer, by connections, one a round


@dataclass(frozen=True)
class Settings:
    rounds: int
    requests: int  # a run, at one connection
    warmup: int  # requests before the first turn of a round
    first_warmup: int  # the same for a server that has answered nothing yet
    connections: tuple[int, ...] = (1, 16)

    def requests_at(self, connections: int) -> int:
        """Return the requests of a run: twice as many if several are in flight at the same time."""
        return self.requests if connections == 1 else 2 * self.requests


def job(server: Server, settings: Settings, connections: int, *, fresh: bool) -> Job:
    """Return what the load generator does with one server."""
    return Job(
        port=server.port,
        path=server.peer.path,
        pid=server.pid,
        length=0 if server.tag else len(server.body),
        tag=server.tag,
        connections=connections,
        warmup=settings.first_warmup if fresh else settings.warmup,
        requests=settings.requests_at(connections),
    )


def run(jobs: list[Job], core: int | None) -> list[Sample]:
    """Run the load generator once. Return a sample for each job."""
    command = [sys.executable, "-m", "bench.load", orjson.dumps(jobs).decode()]
    process = spawn(command, core, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=SECONDS_FOR_A_ROUND)
    finally:
        process.kill()
    if process.returncode:
        message = "the load generator failed: see above"
        raise RuntimeError(message)
    return [Sample(**sample) for sample in orjson.loads(output)]


def rounds(servers: list[Server], settings: Settings, core: int | None, say: Callable[[str], None]) -> Samples:
    """Return all samples of servers that run already."""
    return merged([one_round(servers, settings, core, say, number) for number in range(settings.rounds)])


def one_round(
    servers: list[Server],
    settings: Settings,
    core: int | None,
    say: Callable[[str], None],
    number: int,
    *,
    fresh: bool = False,
) -> Samples:
    """Return the samples of one round, in which the servers take turns. `fresh` ones have answered nothing yet.

    Each round starts with a different server, so that no server always follows the same one.
    """
    shift = number % len(servers)
    samples: Samples = {server.peer.name: {} for server in servers}
    for count in settings.connections:
        first = (fresh or number == 0) and count == settings.connections[0]
        turns = servers[shift:] + servers[:shift]
        for server, sample in zip(
            turns, run([job(one, settings, count, fresh=first) for one in turns], core), strict=True
        ):
            samples[server.peer.name][count] = [sample]
            say(f"round {number + 1}: {server.peer.name}, {count} at once: {sample.cpu_ms:.2f} ms a request")
    return samples


def merged(taken: list[Samples]) -> Samples:
    """Return the samples of several rounds as one."""
    return {
        name: {count: [one for round_ in taken for one in round_[name][count]] for count in counts}
        for name, counts in taken[0].items()
    }


def median_of(samples: list[Sample]) -> Sample:
    """Return the median of every figure over the rounds."""
    return Sample(**{one.name: median(getattr(sample, one.name) for sample in samples) for one in fields(Sample)})
