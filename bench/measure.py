"""Rounds of measurement: each round measures every peer at every number of connections."""

import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from statistics import median

import orjson

from bench.load import Job, Sample
from bench.peerlist import ROOT
from bench.processes import spawn
from bench.servers import Server

SECONDS_FOR_A_RUN = 600

Samples = dict[str, dict[int, list[Sample]]]  # by peer, by connections, one a round


@dataclass(frozen=True)
class Settings:
    rounds: int
    requests: int  # a run, at one connection
    warmup: int  # requests before every run
    first_warmup: int  # requests before the first round, once for every server
    connections: tuple[int, ...] = (1, 16)

    def requests_at(self, connections: int) -> int:
        """Return the requests of a run: twice as many if several are in flight at the same time."""
        return self.requests if connections == 1 else 2 * self.requests


def run(server: Server, settings: Settings, connections: int, core: int | None, *, warmup: int) -> Sample:
    """Run the load generator once."""
    job = Job(
        port=server.port,
        path=server.peer.path,
        pid=server.pid,
        length=0 if server.tag else len(server.body),
        tag=server.tag,
        connections=connections,
        warmup=warmup,
        requests=settings.requests_at(connections),
    )
    command = [sys.executable, "-m", "bench.load", orjson.dumps(asdict(job)).decode()]
    process = spawn(command, core, cwd=ROOT, stdout=subprocess.PIPE)
    try:
        output, _ = process.communicate(timeout=SECONDS_FOR_A_RUN)
    finally:
        process.kill()
    if process.returncode:
        message = f"the load generator failed on {server.peer.name}"
        raise RuntimeError(message)
    return Sample(**orjson.loads(output))


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
    """Return the samples of one round, in which a server may be `fresh`: it has answered nothing yet.

    Each round starts with a different peer, so that no peer always follows the same one.
    """
    samples: Samples = {}
    shift = number % len(servers)
    for server in servers[shift:] + servers[:shift]:
        warmup = settings.first_warmup if fresh or number == 0 else settings.warmup
        for count in settings.connections:
            sample = run(server, settings, count, core, warmup=warmup)
            samples.setdefault(server.peer.name, {})[count] = [sample]
            warmup = settings.warmup
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
