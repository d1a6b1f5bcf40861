"""Gateways that are killed while members post, comment and vote: the next gateway delivers everything once."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from portico.gateway.settings import Settings
from portico.resolvers.social import votes
from tests.social.support.posts import POSTING, add_followers, call, feeds_with, new_post
from tests.social.support.social import join
from tests.support.harness import IS_SOAK, SettableClock, assert_invariants, running
from tests.support.killed_servers import Call, responses_until_killed, without_uvloop
from tests.support.processes import environment, portico, served

ROUNDS = 10 if IS_SOAK else 1
MEMBERS = [f"m{number:02}" for number in range(1_000 if IS_SOAK else 20)]
POLL = {"poll": {"text": "?", "options": ["a", "b"]}}
# A member, a mutation and its input.
Posting = tuple[str, str, dict[str, Any]]
anyio_backend = without_uvloop()


def calls_of_a_round(number: int, poll: str, rng: random.Random) -> list[Posting]:
    calls: list[Posting] = []
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


async def test_the_next_gateway_delivers_what_a_killed_gateway_has_stored(
    settings: Settings, clock: SettableClock, tmp_path: Path
) -> None:
    rng = random.Random(random.random())
    # The killed gateways deliver posts themselves.
    posting = replace(settings, jobs=True, job_seconds=0.05)
    calls: list[Posting] = []
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
                sent = [Call(POSTING[name], given, gateway.token(member, ())) for member, name, given in batch]
                responses = await responses_until_killed(server, sent, rng)
                unanswered += responses.count(None)
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
