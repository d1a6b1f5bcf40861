"""Gateways on a replica set of three, and faults that hit them at random: kills, stalls and elections."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import httpx

from tests.support.harness import GatewayClient
from tests.support.processes import Served, eventually, served, workers_of
from tests.support.replica_sets import ReplicaSet

# Answers after which a client repeats the call with its key.
RETRIED = {"UNAVAILABLE", "TIMEOUT", "OPERATION_UNDER_WAY", "CONFLICT", "OVERLOADED"}
_ANSWER_SECONDS = 30.0
# A call that is not answered for so long after the last fault is lost.
_LOST_SECONDS = 180.0
# The clients of each part act until they have this many answers, also if that takes longer than planned.
LEAST_OPERATIONS = 10


class Gateways:
    """Gateways in separate processes, each with this many workers. One that is killed starts again on its port."""

    def __init__(self, folder: Path, env: Mapping[str, str], count: int, workers: int) -> None:
        self._folder = folder
        self._env = env
        self._workers = workers
        self._stacks = [contextlib.ExitStack() for _ in range(count)]
        self._starts = 0
        self.all: list[Served] = [self._start(number, 0) for number in range(count)]

    def _start(self, number: int, port: int) -> Served:
        self._starts += 1
        folder = self._folder / f"start-{self._starts}"
        return self._stacks[number].enter_context(
            served(folder, self._env, "--workers", str(self._workers), port=port, is_new=self._workers > 1)
        )

    def workers(self, number: int) -> list[int]:
        """Returns the process ids of the workers of a gateway. A single worker is the gateway's own process."""
        pid = self.all[number].process.pid
        return [pid] if self._workers == 1 else eventually(lambda: workers_of(pid))

    def kill(self, number: int) -> None:
        """Kills a gateway, and starts another one on its port."""
        port = self.all[number].port
        self.all[number].process.kill()
        self._stacks[number].close()
        self.all[number] = self._start(number, port)

    def logged(self, body: Mapping[str, Any]) -> list[str]:
        """Returns the lines of the logs on the request that was answered with this body."""
        ids = {error["extensions"].get("requestId", "") for error in body["errors"]} - {""}
        logs = [file.read_text() for file in self._folder.glob("start-*/*")]
        return [line for log in logs for line in log.splitlines() if any(id_ in line for id_ in ids)]

    def close(self) -> None:
        for stack in self._stacks:
            stack.close()


@contextlib.contextmanager
def gateways(folder: Path, env: Mapping[str, str], count: int, workers: int = 1) -> Iterator[Gateways]:
    found = Gateways(folder, env, count, workers)
    try:
        yield found
    finally:
        found.close()


class Faults:
    """Causes one fault after the other. `counts` has how often each kind occurred."""

    def __init__(self, three: ReplicaSet, served_: Gateways, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._three = three
        self._gateways = served_
        self._rng = rng

    async def run(self, seconds: float, pause: float) -> None:
        """Causes faults for this time, with random pauses of up to `pause` seconds. Everything runs at its end."""
        kinds = [
            self.kill_a_gateway,
            self.kill_a_worker,
            self.kill_a_node,
            self.kill_the_primary,
            self.stall_a_worker,
            self.stall_a_node,
            self.make_the_primary_step_down,
        ]
        ends = asyncio.get_running_loop().time() + seconds
        order: list[Any] = []
        while asyncio.get_running_loop().time() < ends:
            order = order or self._rng.sample(kinds, len(kinds))
            fault = order.pop()
            await asyncio.to_thread(fault)
            self.counts[fault.__name__.replace("_", " ")] += 1
            await asyncio.sleep(self._rng.uniform(0, pause))

    def kill_a_gateway(self) -> None:
        self._gateways.kill(self._rng.randrange(len(self._gateways.all)))

    def kill_a_worker(self) -> None:
        """Kills one of several workers, which the gateway replaces. A single worker is the gateway."""
        number = self._rng.randrange(len(self._gateways.all))
        workers = self._gateways.workers(number)
        if workers == [self._gateways.all[number].process.pid]:
            self._gateways.kill(number)
        else:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._rng.choice(workers), signal.SIGKILL)

    def kill_a_node(self) -> None:
        self._kill(self._rng.choice(self._three.ports))

    def kill_the_primary(self) -> None:
        self._kill(self._three.primary() or self._rng.choice(self._three.ports))

    def stall_a_worker(self) -> None:
        workers = self._gateways.workers(self._rng.randrange(len(self._gateways.all)))
        with contextlib.suppress(ProcessLookupError):
            self._stall(self._rng.choice(workers))

    def stall_a_node(self) -> None:
        port = self._rng.choice(self._three.ports)
        self._three.stall(port)
        self._wait(0.5, 4)
        self._three.resume(port)

    def make_the_primary_step_down(self) -> None:
        self._three.step_down()

    def _kill(self, port: int) -> None:
        self._three.kill(port)
        self._wait(0, 3)
        self._three.restart(port)

    def _stall(self, pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        self._wait(0.5, 4)
        os.kill(pid, signal.SIGCONT)

    def _wait(self, least: float, most: float) -> None:
        time.sleep(self._rng.uniform(least, most))


class Client:
    """A client that repeats a call with its key, at any gateway, until it has the answer."""

    def __init__(self, served_: Gateways, token: str, rng: random.Random) -> None:
        self.counts: Counter[str] = Counter()
        self._gateways = served_
        self._rng = rng
        self._token = token
        self._http = httpx.AsyncClient(timeout=_ANSWER_SECONDS)

    async def ask(self, query: str, variables: Mapping[str, Any], *, token: str | None = "") -> Any:
        """Returns the data. Fails for an error that a repetition does not cure.

        Args:     token: that of another caller; None for an anonymous one.
        """
        headers = {} if token is None else {"authorization": f"Bearer {token or self._token}"}
        async with asyncio.timeout(_LOST_SECONDS):
            while True:
                url = self._rng.choice(self._gateways.all).graphql
                try:
                    answered = await self._http.post(
                        url, json={"query": query, "variables": dict(variables)}, headers=headers
                    )
                except httpx.TransportError:
                    self.counts["broken connections"] += 1
                else:
                    body = answered.json()
                    codes = {error["extensions"]["code"] for error in body.get("errors", ())}
                    if not codes:
                        self.counts["answers"] += 1
                        return body["data"]
                    assert codes <= RETRIED, (body, self._gateways.logged(body))
                    self.counts["errors to repeat"] += 1
                await asyncio.sleep(self._rng.uniform(0.05, 0.2))

    async def aclose(self) -> None:
        await self._http.aclose()


class Clients:
    """Clients with the token of one caller. `all` has those that were connected."""

    def __init__(self, served_: Gateways, token: str) -> None:
        self.all: list[Client] = []
        self._gateways = served_
        self._token = token

    def connect(self) -> Client:
        """Returns another client."""
        client = Client(self._gateways, self._token, random.Random(len(self.all)))
        self.all.append(client)
        return client

    async def aclose(self) -> None:
        for client in self.all:
            await client.aclose()


def turns(seconds: float, operations: Counter[str]) -> Iterator[int]:
    """Yields for this time, and until these acknowledged operations are enough, however slow the machine is.

    Args:     operations: of all actors of a part, which count them here.
    """
    ends = time.monotonic() + seconds
    for number in itertools.count():
        if time.monotonic() > ends and sum(operations.values()) >= LEAST_OPERATIONS:
            return
        yield number


class Actor(Protocol):
    """One client that acts at random."""

    async def run(self, seconds: float) -> None:
        """Acts in `turns`. Fails if an answer contradicts an earlier one."""


class Part(Protocol):
    """What the clients of some domains do while gateways are killed, and a ledger of what they are told."""

    @property
    def operations(self) -> Counter[str]:
        """The acknowledged operations by name."""

    async def prepare(self, gateway: GatewayClient) -> None:
        """Stores what the clients start with."""

    def actors(self, clients: Clients) -> Sequence[Actor]:
        """Returns the actors, each with a client of its own."""

    async def check(self, gateway: GatewayClient) -> None:
        """Asserts that the database has what the ledger has. All jobs have run."""
