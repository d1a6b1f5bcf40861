"""Calls that a killed process has cut off: a repeated call on the same machine does not wait for the lease."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, cast

import httpx
import pytest

from portico.gateway.processes import this_process
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database
from portico.resolvers.writes.idempotency import LEASE
from portico.resolvers.writes.operation_records import OPERATIONS
from portico.schema.catalog.merchants import MERCHANT
from tests.support.documents import only
from tests.support.harness import MUTATIONS, GatewayClient, category_input
from tests.support.interruptions import crashing
from tests.support.processes import Process, environment, eventually, served

# So many that a fast machine cannot finish all of them before the gateway is killed.
CALLS = 64
_SHOW = (
    "import sys; from portico.gateway.processes import this_process; "
    "print(this_process().name, flush=True); sys.stdin.read()"
)


class Child:
    """Another process of this machine."""

    def __init__(self) -> None:
        command, pipe = [sys.executable, "-c", _SHOW], subprocess.PIPE
        self.popen = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
        self._output = cast("IO[str]", self.popen.stdout)
        self.name = self._output.readline().strip()

    def kill(self) -> None:
        """Kills the process. It stays a zombie until its parent waits for it."""
        self.popen.kill()
        self._output.read()


@pytest.fixture
def child() -> Iterator[Child]:
    started = Child()
    yield started
    started.popen.kill()
    started.popen.communicate()


def test_a_process_sees_when_another_one_of_its_machine_has_ended(child: Child) -> None:
    mine = this_process()
    assert mine.name is not None
    place, pid, start = child.name.split(".")
    assert place == mine.name.partition(".")[0]
    assert not mine.is_gone(mine.name)
    assert not mine.is_gone(child.name)

    child.kill()
    # A zombie, because its parent has not waited for it.
    assert eventually(lambda: mine.is_gone(child.name) or None)
    child.popen.wait()

    assert mine.is_gone(child.name)
    # The id of the process belongs to another one now.
    assert mine.is_gone(f"{place}.{mine.name.split('.')[1]}.{start}")
    # Nothing is known about other machines.
    assert not mine.is_gone(f"0123456789abcdef.{pid}.{start}")
    assert not mine.is_gone("")


async def cut_off(gateway: GatewayClient, given: dict[str, str], process: str) -> None:
    """Leaves a call as if this process had been killed in the middle of it."""
    with crashing(gateway, 1):
        await gateway.ask(MUTATIONS["createCategory"], {"input": given})
    left = {"state": "running", "lease_until": {"$exists": True}}
    changed = await gateway.db[OPERATIONS.name].update_one(left, {"$set": {"process": process}})
    assert changed.matched_count == 1


async def test_a_repeated_call_takes_over_at_once_from_a_process_that_has_ended(
    gateway: GatewayClient, child: Child
) -> None:
    given = category_input(idempotencyKey="key")
    await cut_off(gateway, given, child.name)
    child.kill()
    # A call with another input is refused as before.
    other = await gateway.ask(MUTATIONS["createCategory"], {"input": {**given, "name": "Other"}})

    # A third of the lease.
    async with asyncio.timeout(LEASE.total_seconds() / 3):
        again = await gateway.result("createCategory", given)

    assert other.codes == ["IDEMPOTENCY_KEY_REUSED"]
    assert again["__typename"] == "CategoryPayload"
    record = await only(gateway.db[OPERATIONS.name])
    assert (record["state"], record["process"]) == ("done", this_process().name)


async def test_a_repeated_call_waits_for_a_process_that_runs(gateway: GatewayClient, child: Child) -> None:
    given = category_input(idempotencyKey="key")
    await cut_off(gateway, given, child.name)

    again = asyncio.create_task(gateway.result("createCategory", given))
    await asyncio.wait({again}, timeout=1)
    was_done = again.done()
    child.kill()

    assert not was_done
    async with asyncio.timeout(LEASE.total_seconds() / 3):
        assert (await again)["__typename"] == "CategoryPayload"


async def test_calls_that_kill_has_cut_off_are_repeated_at_another_gateway_without_a_wait(
    gateway: GatewayClient, db: Database, settings: Settings, tmp_path: Path
) -> None:
    headers = {"authorization": f"Bearer {gateway.token('tester', [MERCHANT])}"}
    given: list[dict[str, str]] = []
    calls: list[asyncio.Task[dict[str, object] | None]] = []

    async def call(client: httpx.AsyncClient, url: str, one: dict[str, str]) -> dict[str, object] | None:
        try:
            sent = {"query": MUTATIONS["createCategory"], "variables": {"input": one}}
            return dict((await client.post(url, json=sent, headers=headers)).json()["data"]["createCategory"])
        except httpx.TransportError:
            return None

    with served(tmp_path, environment(settings), "--workers", "1", is_new=True) as killed:
        async with httpx.AsyncClient(timeout=60) as client:
            while not await _stops_during_a_call(db, killed.process):
                if all(one.done() for one in calls):
                    # All calls have ended, and none met the moment.
                    more = [category_input(idempotencyKey=f"key {len(given) + number}") for number in range(CALLS)]
                    given += more
                    calls += [asyncio.create_task(call(client, killed.graphql, one)) for one in more]
            killed.process.end()
            first = await asyncio.gather(*calls)
    left = await db[OPERATIONS.name].count_documents({"state": "running"})

    async with asyncio.timeout(LEASE.total_seconds() / 2):
        second = await asyncio.gather(*(gateway.result("createCategory", one) for one in given))

    assert left > 0
    assert {one["__typename"] for one in second} == {"CategoryPayload"}
    assert [one for one, again in zip(first, second, strict=True) if one not in (None, again)] == []
    assert await db["categories"].count_documents({}) == len(given)


async def _stops_during_a_call(db: Database, process: Process) -> bool:
    """Stops the processes of a gateway if a call is running there, and lets them go on if it has ended by then."""
    running = {"state": "running"}
    if not await db[OPERATIONS.name].count_documents(running):
        return False
    os.killpg(process.pid, signal.SIGSTOP)
    # The database still executes what it has been sent.
    await asyncio.sleep(0.1)
    if await db[OPERATIONS.name].count_documents(running):
        return True
    os.killpg(process.pid, signal.SIGCONT)
    return False
