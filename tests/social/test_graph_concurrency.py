"""Many changes of the graph at once: both members agree in the end, and no rate or limit is exceeded."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

from portico.resolvers.documents import Database
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.social import (
    circles,
    member_edits,
    member_rates,
    members,
    relation_edits,
    relation_jobs,
    relations,
)
from portico.resolvers.social.member_rates import RateLimited
from portico.resolvers.writes.marks import random_operation_id
from tests.social.support.social import assert_graph_is_right, circle, join, operation
from tests.support.harness import IS_SOAK, SettableClock
from tests.support.interruptions import delayed

ROUNDS = 400 if IS_SOAK else 36
PEOPLE = ("ada", "bo", "cy", "di")
NAMES = ("a.b", "$x", "c")


async def change_at_random(db: Database, rng: random.Random) -> None:
    """Makes one change of the graph. A member who is blocked may get NotFound."""
    member, other = rng.sample(PEOPLE, 2)
    edit = rng.choice(["add_to_circle", "add_to_circle", "remove_from_circle", "block", "unblock"])
    given: dict[str, Any] = {"circle": rng.choice(NAMES)} if "circle" in edit else {}
    with contextlib.suppress(NotFound):
        await getattr(relation_edits, edit)(db, member=member, other=other, rate=None, **given, **operation())


async def test_both_sides_agree_after_concurrent_changes(db: Database) -> None:
    rng = random.Random(7)
    await join(db, *PEOPLE)
    for number in range(ROUNDS // 12):
        slow = delayed(db, random.Random(number), 0.01)
        await asyncio.gather(*(change_at_random(slow, rng) for _ in range(12)))
        await assert_graph_is_right(db)


async def test_jobs_beside_the_changes_that_they_finish_do_no_harm(db: Database, clock: SettableClock) -> None:
    rng = random.Random(8)
    await join(db, *PEOPLE)
    clock.advance(seconds=60)
    for number in range(ROUNDS // 12):
        slow = delayed(db, random.Random(number), 0.01)
        changes = [change_at_random(slow, rng) for _ in range(12)]
        jobs = [relation_jobs.finish_relations(slow, now=clock.now()) for _ in range(3)]
        await asyncio.gather(*changes, *jobs)
        await assert_graph_is_right(db)


async def test_of_concurrent_attempts_to_join_one_succeeds(db: Database) -> None:
    async def attempt(number: int) -> str:
        try:
            await member_edits.join(db, subject="ada", name=f"Ada {number}", profile={}, **operation())
        except Conflict:
            return "conflict"
        return "joined"

    outcomes = await asyncio.gather(*(attempt(number) for number in range(20)))

    assert (outcomes.count("joined"), outcomes.count("conflict")) == (1, 19)


async def test_concurrent_calls_do_not_exceed_a_rate(db: Database, clock: SettableClock) -> None:
    now = clock.now()

    async def attempt() -> bool:
        key: dict[str, Any] = {"now": now, "operation_id": random_operation_id()}
        try:
            await member_rates.count(db, "ada", member_rates.GRAPH, rate=7, **key)
        except RateLimited:
            return False
        return True

    assert sum(await asyncio.gather(*(attempt() for _ in range(40)))) == 7


async def test_all_members_of_a_circle_are_kept_when_they_are_added_at_once(db: Database) -> None:
    others = [f"m{number:02}" for number in range(50)]
    await join(db, "ada", *others)

    await asyncio.gather(*(circle(db, "ada", other, name="$x") for other in others))

    known = await relations.find(db, "ada", others)
    assert {to for to, one in known.items() if one["circles"] == ["$x"]} == set(others)
    ada = (await members.find_by_ids(db, ["ada"]))["ada"]
    assert ada["circles"] == ["$x"]
    assert await circles.existing(db, "ada", ["$x"]) == ["$x"]
    await assert_graph_is_right(db)
