"""Changes of the graph at once, which overtake each other: both members agree. The kit has the crashes and pauses."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest

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
from tests.social.support.social import assert_graph_is_right, circle, join, operation, uncircle
from tests.social.support.stages import BEFORE, ME, Circles
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, some_stops
from tests.support.interruptions import delayed, interrupted

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


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Circles:
    return Circles(gateway, clock)


async def test_a_retry_does_not_repeat_a_change_that_was_taken_back_since(scene: Circles) -> None:
    for stop in some_stops(2):
        given = await scene.set("a new circle")
        crashed = await scene.crash("addToCircle", given, stop)
        await scene.run_jobs()
        was_added = await scene.state() != BEFORE
        await uncircle(scene.gateway.db, ME, "bo", name="new")

        assert await scene.typename_of("addToCircle", given) == "UserPayload"

        assert (await scene.state() == BEFORE) == was_added
        await scene.assert_settled()
        if not crashed:
            break


async def test_a_process_that_resumes_with_an_old_change_overwrites_no_newer_one(scene: Circles) -> None:
    """The first call pauses before it copies. Meanwhile, another call changes the circles again, and is answered."""
    db = scene.gateway.db

    async def change() -> None:
        await circle(db, ME, "bo", name="later")
        await uncircle(db, ME, "bo", name="early")

    for skip in (1, 2, 3):
        await scene.restore()
        paused = interrupted(db, "social.relations", None, change, skip=skip)
        await circle(paused, ME, "bo", name="early")

        found = await scene.gateway.stored("social.relations", {"_id": {"of": "bo", "to": ME}})
        assert "later" in found["in_circles"]
        await scene.assert_settled()


async def test_a_copy_of_each_version_is_kept_only_if_it_is_newer(scene: Circles) -> None:
    await scene.restore()
    db = scene.gateway.db
    old = await scene.gateway.stored("social.relations", {"_id": {"of": ME, "to": "bo"}})
    await circle(db, ME, "bo", name="later")

    await relation_jobs.copy(db, old)

    await scene.assert_settled()


async def test_a_follower_who_comes_while_an_author_is_merged_is_marked_by_one_of_both(scene: Circles) -> None:
    """The author becomes merged, and all followers are marked, before any command of the new follower."""
    db = scene.gateway.db
    for skip in some_stops(2):
        await scene.restore()
        await db["social.members"].update_one({"_id": "di"}, {"$unset": {"is_merged": ""}})
        has_run = False

        async def merge() -> None:
            nonlocal has_run
            has_run = True
            await db["social.members"].update_one({"_id": "di"}, {"$set": {"is_merged": True}})
            followers = await db["social.relations"].distinct("to", {"of": "di", "follower": {"$exists": True}})
            marked = {"of": {"$in": followers}, "to": "di", "since": {"$exists": True}}
            await db["social.relations"].update_many(marked, {"$set": {"is_merged": True}})

        await circle(interrupted(db, None, None, merge, skip=skip), ME, "di")
        if not has_run:
            break

        found = await scene.gateway.stored("social.relations", {"_id": {"of": ME, "to": "di"}})
        assert found["is_merged"]


async def test_an_empty_circle_that_is_removed_while_it_gets_a_member_stays_listed(scene: Circles) -> None:
    """A full list is cleared of empty circles, before any command of a call that fills one of them."""
    db = scene.gateway.db
    for skip in some_stops(2):
        await scene.restore()
        names = [f"c{number}" for number in range(200)]
        await db["social.members"].update_one({"_id": "bo"}, {"$set": {"circles": names}})
        has_run = False

        async def add_another() -> None:
            nonlocal has_run
            has_run = True
            await circle(db, "bo", "cy", name="another")

        await db["social.relations"].delete_one({"_id": {"of": "bo", "to": ME}})
        await db["social.relations"].delete_one({"_id": {"of": ME, "to": "bo"}})
        await circle(interrupted(db, None, None, add_another, skip=skip), "bo", "di", name="c7")
        if not has_run:
            break

        found = (await members.find_by_ids(db, ["bo"]))["bo"]
        assert sorted(found["circles"]) == ["another", "c7"]
