"""Changes of the social graph that overtake each other: both members agree. The kit has the crashes and pauses."""

from __future__ import annotations

import pytest

from portico.resolvers.social import members, relation_jobs
from tests.social.support.social import circle, uncircle
from tests.social.support.stages import BEFORE, ME, Circles
from tests.support.harness import GatewayClient, SettableClock, some_stops
from tests.support.interruptions import interrupted


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

        found = await db["social.relations"].find_one({"_id": {"of": "bo", "to": ME}})
        assert found is not None
        assert "later" in found["in_circles"]
        await scene.assert_settled()


async def test_a_copy_of_each_version_is_kept_only_if_it_is_newer(scene: Circles) -> None:
    await scene.restore()
    db = scene.gateway.db
    old = await db["social.relations"].find_one({"_id": {"of": ME, "to": "bo"}})
    assert old is not None
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

        found = await db["social.relations"].find_one({"_id": {"of": ME, "to": "di"}})
        assert found is not None
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
