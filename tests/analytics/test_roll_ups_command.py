"""`portico rollup`, and processes that are killed while they roll up."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path

import httpx
from bson import ObjectId

from portico.gateway.domains import OWN_COMMANDS
from portico.gateway.settings import Settings
from tests.analytics.support.session_cases import (
    RECORD,
    Given,
    Model,
    assert_matches,
    pending,
    recorded,
    report,
    roll_up,
    session,
    stats,
)
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, running
from tests.support.killed_servers import without_uvloop
from tests.support.processes import environment, eventually, portico, served, started

ROUNDS = 20 if IS_SOAK else 1
anyio_backend = without_uvloop()


def many(rng: random.Random, count: int) -> list[Given]:
    """Sessions of a few users in a few years."""
    return [
        session(
            f"{rng.randint(2019, 2021)}-{rng.randint(1, 12):02}-{rng.randint(1, 28):02}T{rng.randint(0, 23):02}:00:00Z",
            rng.random(),
            f"user {rng.randint(1, 5)}",
        )
        for _ in range(count)
    ]


async def test_the_command_rolls_up_all_pending_sessions_and_says_how_many(gateway: GatewayClient) -> None:
    await recorded(gateway, session(), session(), session(user="bob"))
    env = environment(gateway.settings)

    done = await asyncio.to_thread(portico, "rollup", env=env)

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "Sessions rolled up: 3. Periods stored: 10.\n"
    assert await stats(gateway) == [("2026-01-31T00", 2, 120)]
    again = await asyncio.to_thread(portico, "rollup", env=env)
    assert (again.returncode, again.stdout) == (0, "Sessions rolled up: 0. Periods stored: 0.\n")


async def test_the_command_rolls_up_all_but_damaged_sessions_and_exits_with_status_1(gateway: GatewayClient) -> None:
    await recorded(gateway, session(), session(user="bob"))
    await gateway.db["analytics.sessions"].update_one({"user_id": "bob"}, {"$set": {"hour": ObjectId()}})

    done = await asyncio.to_thread(portico, "rollup", env=environment(gateway.settings))

    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout == (
        "Sessions rolled up: 1. Periods stored: 5.\n"
        "Sessions left: 1, e.g. because: its hour is not that of its user and time. "
        "`portico doctor` shows what is damaged.\n"
    )
    assert await stats(gateway) == [("2026-01-31T00", 1, 60)]


def test_domains_add_commands_only_where_they_are_served() -> None:
    with_it, without = environment(PORTICO_DOMAINS="analytics"), environment(PORTICO_DOMAINS="catalog")

    listed = portico("commands", env=with_it)
    assert listed.stdout.startswith("rollup  Roll up all sessions that are pending now")
    assert portico("rollup", "--help", env=with_it).stdout.startswith("Usage: portico rollup ")
    assert portico("commands", env=without).stdout == ""
    refused = portico("rollup", env=without)
    assert refused.returncode == 2
    assert "No such command 'rollup'" in refused.stderr


def test_no_domain_can_take_the_name_of_a_command_of_the_gateway() -> None:
    shown = portico("--help").stdout
    own = {line.split()[0] for line in shown.partition("Commands:\n")[2].splitlines() if line[2:3].strip()}

    assert own == set(OWN_COMMANDS)


async def test_a_running_gateway_rolls_up_what_it_has_recorded(settings: Settings, tmp_path: Path) -> None:
    # The next regular run of the jobs is far away, so only waking the job can do it.
    env = environment(replace(settings, jobs=True, job_seconds=3_600.0))
    async with running(settings) as gateway:
        with served(tmp_path, env) as server:
            # The first run of the job, at the start, must not be the one.
            await asyncio.to_thread(eventually, lambda: "rolled up: 0" in portico("rollup", env=env).stdout or None)
            headers = {"authorization": f"Bearer {gateway.token()}"}
            async with httpx.AsyncClient(headers=headers, timeout=20) as client:
                body = {"query": RECORD, "variables": {"input": [session()]}}
                answer = (await client.post(server.graphql, json=body)).json()
            assert answer["data"]["recordSessions"]["recorded"] == 1
            async with asyncio.timeout(20):
                while not (await report(gateway))["stats"]:  # noqa: ASYNC110 - nothing signals the end of a job
                    await asyncio.sleep(0.05)
        assert await stats(gateway) == [("2026-01-31T00", 1, 60)]


async def test_figures_are_right_after_commands_are_killed_while_they_roll_up(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(3)
    model = Model()
    async with running(settings, clock=clock) as gateway:
        interrupted = 0
        for number in range(ROUNDS):
            for _ in range(3):
                sessions = many(rng, 800)
                await recorded(gateway, *sessions)
                model.record(sessions)
            before = await pending(gateway.db)
            with started(tmp_path / str(number), environment(settings), "rollup") as process:
                # It has rolled up its first batch.
                async with asyncio.timeout(20):
                    while await pending(gateway.db) == before:  # noqa: ASYNC110 - nothing signals the end of a batch
                        await asyncio.sleep(0.005)
                await asyncio.sleep(rng.uniform(0, 0.2))
                process.kill()
            interrupted += await pending(gateway.db) > 0
        assert interrupted
        await roll_up(gateway)

        assert await pending(gateway.db) == 0
        await assert_matches(gateway, model)
        await assert_invariants(gateway)


async def record_until_killed(
    url: str, token: str, batches: list[list[Given]], has_answered: asyncio.Event
) -> list[list[Given]]:
    """Records batches until the gateway answers no more. Returns those that were acknowledged."""
    acknowledged: list[list[Given]] = []
    async with httpx.AsyncClient(headers={"authorization": f"Bearer {token}"}, timeout=20) as client:
        for batch in batches:
            try:
                answer = await client.post(url, json={"query": RECORD, "variables": {"input": batch}})
            except httpx.TransportError:
                break
            assert answer.json()["data"]["recordSessions"]["recorded"] == len(batch)
            acknowledged.append(batch)
            has_answered.set()
    return acknowledged


async def test_figures_are_right_after_gateways_are_killed_while_they_record_and_roll_up(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(4)
    model = Model()
    async with running(settings, clock=clock) as gateway:
        for number in range(ROUNDS):
            env = environment(replace(settings, jobs=True, job_seconds=0.05))
            batches = [many(rng, 100) for _ in range(100)]
            with served(tmp_path / str(number), env) as server:
                begun = asyncio.Event()
                recording = asyncio.create_task(record_until_killed(server.graphql, gateway.token(), batches, begun))
                async with asyncio.timeout(20):
                    await begun.wait()
                await asyncio.sleep(rng.uniform(0, 0.5))
                await asyncio.to_thread(server.process.kill)
                acknowledged = await recording
            assert 0 < len(acknowledged) < len(batches)
            # The batch that was cut off is sent again, as a client would.
            sent = batches[: len(acknowledged) + 1]
            await recorded(gateway, *sent[-1])
            for batch in sent:
                model.record(batch)
        await roll_up(gateway)

        await assert_matches(gateway, model)
        await assert_invariants(gateway)
