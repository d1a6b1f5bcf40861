"""Measures fan-out: deliveries a second with a number of workers, and what one delivery costs."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from bench.network import Network
from bench.peerlist import BIN, ROOT
from bench.processes import cpu_seconds, spawn, stop
from portico.resolvers.social.news import NEWS
from portico.resolvers.social.posts import POSTS

SECONDS_TO_DELIVER = 600
_SECONDS_TO_START = 60
_POLL = 0.02


@dataclass(frozen=True)
class Sample:
    """`rate` is deliveries a second. CPU times are microseconds for a delivery; `lag_s` is until the last delivery."""

    workers: int
    followers: int
    posts: int
    rate: float
    worker_us: float
    mongod_us: float
    lag_s: float


@contextmanager
def workers(count: int, env: Mapping[str, str]) -> Iterator[list[int]]:
    """Start workers that run the jobs, and yield their process ids when all of them run."""
    processes = [
        spawn([str(BIN / "portico"), "worker"], None, env=dict(env), cwd=ROOT, stdout=subprocess.PIPE)
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stdout is not None
            while b"running" not in (line := process.stdout.readline()):
                if not line:
                    raise RuntimeError("a worker did not start")
        # Its jobs have run once, so that nothing but the posts is left to do.
        time.sleep(2)
        yield [process.pid for process in processes]
    finally:
        for process in processes:
            stop(process)


def measure(
    network: Network, star: str, *, followers: int, posts: int, count: int, env: Mapping[str, str], mongod_pid: int
) -> Sample:
    """Store posts of a member with this many followers, and wait until all feeds have them."""
    with workers(count, env) as pids:
        cpu, mongod = sum(map(cpu_seconds, pids)), cpu_seconds(mongod_pid)
        begun = time.perf_counter()
        ids = network.post(star, posts)
        _wait(network, begun)
        taken = time.perf_counter() - begun
        cpu, mongod = sum(map(cpu_seconds, pids)) - cpu, cpu_seconds(mongod_pid) - mongod
    delivered = network.db[NEWS.name].count_documents({"post": {"$in": ids}})
    if delivered != posts * followers:
        message = f"{delivered:,} deliveries, but {posts * followers:,} expected"
        raise RuntimeError(message)
    each = 1e6 / delivered
    return Sample(
        count,
        followers,
        posts,
        round(delivered / taken),
        round(cpu * each, 1),
        round(mongod * each, 1),
        round(taken, 2),
    )


def _wait(network: Network, begun: float) -> None:
    while network.db[POSTS.name].count_documents({"fan_out": {"$exists": True}}, limit=1):
        if time.perf_counter() - begun > SECONDS_TO_DELIVER:
            raise RuntimeError("the posts were not delivered in time")
        time.sleep(_POLL)
