"""Gateways that are killed while members post, comment and vote: the next gateway delivers everything once."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.settings import Settings
from portico.resolvers.social import votes
from tests.social.support.posts import POSTING, add_followers, call, feeds_with, new_post
from tests.social.support.social import join
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, running
from tests.support.processes import Served, environment, portico, served

ROUNDS = 10 if IS_SOAK else 2
MEMBERS = [f"m{number:02}" for number in range(1_000 if IS_SOAK else 20)]
# As many as the client has connections. With thousands of requests in its queue, it takes minutes to fail them all.
CALLS_AT_A_TIME = 100
POLL = {"poll": {"text": "?", "options": ["a", "b"]}}
# A member, a mutation and its input.
Call = tuple[str, str, dict[str, Any]]


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Not uvloop: if a server is killed while a client connects, uvloop gives anyio a connection without a socket."""
    return "asyncio"


def calls_of_a_round(number: int, poll: str, rng: random.Random) -> list[Call]:
    calls: list[Call] = []
    for member in MEMBERS:
        key = f"{number}-{member}"
        text = {"status": {"text": key}}
        calls += [
            (member, "createPost", {"detail": text, "idempotencyKey": f"post {key}"}),
            (member, "commentOnPost", {"postId": poll, "text": key, "idempotencyKey": f"comment {key}"}),
            (member, "vote", {"postId": poll, "option": 1, "idempotencyKey": f"vote {key}"}),
        ]
    rng.shuffle(calls)
    return calls


async def cut_off(server: Served, gateway: GatewayClient, calls: list[Call], seconds: float) -> int:
    """Sends the calls concurrently, and kills the gateway after this time. Returns the number of unanswered calls."""
    places = asyncio.Semaphore(CALLS_AT_A_TIME)
    async with httpx.AsyncClient(timeout=20) as client:

        async def ask(member: str, mutation: str, given: dict[str, Any]) -> bool:
            headers = {"authorization": f"Bearer {gateway.token(member, ())}"}
            body = {"query": POSTING[mutation], "variables": {"input": given}}
            try:
                async with places:
                    await client.post(server.graphql, json=body, headers=headers)
            except httpx.TransportError:
                return False
            return True

        # The first request to a process takes longer than later ones.
        await client.post(server.graphql, json={"query": "{ __typename }"})
        asked = [asyncio.create_task(ask(*one)) for one in calls]
        await asyncio.sleep(seconds)
        await asyncio.to_thread(server.process.kill)
        return [await one for one in asked].count(False)


async def test_the_next_gateway_delivers_what_a_killed_gateway_has_stored(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(5)
    # The killed gateways deliver posts themselves.
    posting = replace(settings, jobs=True, job_seconds=0.05)
    calls: list[Call] = []
    unanswered = 0
    followers = {name: [MEMBERS[(at + step) % len(MEMBERS)] for step in range(1, 8)] for at, name in enumerate(MEMBERS)}
    async with running(settings, clock=clock) as gateway:
        await join(gateway.db, *MEMBERS)
        for name, some in followers.items():
            await add_followers(gateway.db, name, some)
        poll = (await new_post(gateway, MEMBERS[0], detail=POLL))["id"]
        for number in range(ROUNDS):
            batch = calls_of_a_round(number, poll, rng)
            with served(tmp_path / str(number), environment(posting)) as server:
                unanswered += await cut_off(server, gateway, batch, rng.uniform(0.1, 0.5))
            calls += batch
    assert unanswered > 0

    # The keys and the leases of the killed gateways expire.
    clock.advance(seconds=61)
    async with running(settings, clock=clock) as gateway:
        await gateway.run_jobs()
        await assert_invariants(gateway)

        answers = {(await call(gateway, *one[:2], **one[2]))["__typename"] for one in calls}
        await gateway.run_jobs(seconds=11)

        assert answers == {"PostPayload"}
        posts = await gateway.db["social.posts"].find({"type": "status"}).to_list()
        assert sorted(post["detail"]["text"] for post in posts) == sorted(
            f"{number}-{member}" for number in range(ROUNDS) for member in MEMBERS
        )
        for post in posts:
            assert await feeds_with(gateway.db, post) == set(followers[post["by"]["id"]])
        (stored,) = await gateway.db["social.posts"].find({"type": "poll"}).to_list()
        assert stored["comment_count"] == ROUNDS * len(MEMBERS)
        slots = await gateway.db["social.votes"].find({}).to_list()
        assert votes.counts_of(slots, 2) == [0, len(MEMBERS)]
        await assert_invariants(gateway)
    checked = await asyncio.to_thread(portico, "doctor", env=environment(settings))
    assert (checked.returncode, checked.stderr) == (0, "")
