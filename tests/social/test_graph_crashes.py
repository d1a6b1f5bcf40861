"""Changes of the social graph that crash or pause anywhere: a retry or a job finishes them, and both members agree."""

from __future__ import annotations

from typing import Any

import pytest

from portico.gateway.domains.social import graph
from portico.resolvers.social import members, relation_jobs
from portico.schema.nodes import encode_id
from tests.social.support.social import block, circle, join, uncircle
from tests.support.harness import Answer, GatewayClient, SettableClock, stops, stops_of
from tests.support.interruptions import interrupted
from tests.support.scenes import Given, Stage

INPUTS = {
    "join": "JoinInput",
    "updateProfile": "UpdateProfileInput",
    "addToCircle": "CircleInput",
    "removeFromCircle": "CircleInput",
    "block": "BlockInput",
    "unblock": "BlockInput",
}
ME = "tester"
# What each of two members has decided about the other: circles and block. `ME` comes first.
Graph = dict[str, tuple[list[str], bool]]


class Scene(Stage):
    """Three members. The caller follows Bo in two circles, has blocked Cy, and Di is merged."""

    collections = ("social.members", "social.relations", "social.rates", "operations")

    async def build(self) -> None:
        db = self.gateway.db
        await join(db, ME, "bo", "cy", "di")
        await circle(db, ME, "bo", name="a.b")
        await circle(db, ME, "bo", name="$x")
        await circle(db, ME, "cy", name="one")
        await block(db, ME, "cy")
        await circle(db, "bo", ME, name="back")
        await db["social.members"].update_one({"_id": "di"}, {"$set": {"is_merged": True}})

    async def ask(self, mutation: str, given: Given) -> Answer:
        text = f"mutation ($input: {INPUTS[mutation]}!) {{ {mutation}(input: $input) {{ __typename }} }}"
        return await self.gateway.ask(text, {"input": given})

    async def jobs(self) -> None:
        self.clock.advance(seconds=31)
        await relation_jobs.finish_relations(self.gateway.db, now=self.clock.now())

    async def state(self) -> Graph:
        """Returns what each member has decided, from the documents of both."""
        found = {}
        async for relation in self.gateway.db["social.relations"].find({}):
            of, to = relation["of"], relation["to"]
            if "circles" in relation or "blocks" in relation:
                found[f"{of} {to}"] = (sorted(relation.get("circles", [])), bool(relation.get("blocks")))
        return found

    async def assert_settled(self) -> None:
        assert await self.gateway.db["social.relations"].find_one({"uncopied": {"$exists": True}}) is None
        for invariant in graph.INVARIANTS:
            assert [problem async for problem in invariant.problems(self.gateway.db)] == []
        async for relation in self.gateway.db["social.relations"].find({"to": "di", "circles.0": {"$exists": True}}):
            assert relation["is_merged"]


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


def on(subject: str, **given: Any) -> Given:
    return {"userId": encode_id("User", subject), "idempotencyKey": "the key", **given}


BEFORE: Graph = {
    f"{ME} bo": (["$x", "a.b"], False),
    f"{ME} cy": (["one"], True),
    f"bo {ME}": (["back"], False),
}
CALLS: dict[str, tuple[str, Given, Graph]] = {
    "the first circle": ("addToCircle", on("di", circle="a.b"), {f"{ME} di": (["a.b"], False)}),
    "a new circle": ("addToCircle", on("bo", circle="new"), {f"{ME} bo": (["$x", "a.b", "new"], False)}),
    "leaving a circle": ("removeFromCircle", on("bo", circle="a.b"), {f"{ME} bo": (["$x"], False)}),
    "leaving the last circle": ("removeFromCircle", on("cy", circle="one"), {f"{ME} cy": ([], True)}),
    "a block": ("block", on("bo"), {f"{ME} bo": (["$x", "a.b"], True)}),
    "a block of a stranger": ("block", on("di"), {f"{ME} di": ([], True)}),
    "the end of a block": ("unblock", on("cy"), {f"{ME} cy": (["one"], False)}),
}


@pytest.mark.parametrize("jobs_first", [True, False])
@pytest.mark.parametrize("name", CALLS)
async def test_a_change_of_the_graph_that_crashes_anywhere_has_one_effect(
    scene: Scene, name: str, jobs_first: bool
) -> None:
    mutation, given, change = CALLS[name]
    for stop in stops_of(jobs_first=jobs_first):
        await scene.restore()
        crashed = await scene.crash(mutation, given, stop)
        if jobs_first:
            await scene.jobs()
            assert await scene.state() in (BEFORE, {**BEFORE, **change})
            await scene.assert_settled()
        scene.clock.advance(seconds=31)

        assert await scene.typename_of(mutation, given) == "UserPayload"

        assert await scene.state() == {**BEFORE, **change}
        await scene.assert_settled()
        if not crashed:
            break


async def test_a_retry_does_not_repeat_a_change_that_was_taken_back_since(scene: Scene) -> None:
    mutation, given, _ = CALLS["a new circle"]
    for stop in stops():
        await scene.restore()
        crashed = await scene.crash(mutation, given, stop)
        await scene.jobs()
        was_added = await scene.state() != BEFORE
        await uncircle(scene.gateway.db, ME, "bo", name="new")

        assert await scene.typename_of(mutation, given) == "UserPayload"

        assert (await scene.state() == BEFORE) == was_added
        await scene.assert_settled()
        if not crashed:
            break


@pytest.mark.parametrize(
    ("mutation", "given"),
    [
        ("join", {"name": "Ada", "idempotencyKey": "the key"}),
        ("updateProfile", {"name": "Ada", "profile": {"about": "A"}, "idempotencyKey": "the key"}),
    ],
)
async def test_joining_and_changing_the_profile_crash_without_a_trace(
    scene: Scene, mutation: str, given: Given
) -> None:
    for stop in stops():
        await scene.restore()
        if mutation == "join":
            await scene.gateway.db["social.members"].delete_one({"_id": ME})
        crashed = await scene.crash(mutation, given, stop)
        scene.clock.advance(seconds=31)

        assert await scene.typename_of(mutation, given) == "UserPayload"

        found = (await members.find_by_ids(scene.gateway.db, [ME]))[ME]
        assert found["name"] == "Ada"
        assert ("renamed" in found) == (mutation == "updateProfile")
        if not crashed:
            break


async def test_a_process_that_resumes_with_an_old_change_overwrites_no_newer_one(scene: Scene) -> None:
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


async def test_a_copy_of_each_version_is_kept_only_if_it_is_newer(scene: Scene) -> None:
    await scene.restore()
    db = scene.gateway.db
    old = await db["social.relations"].find_one({"_id": {"of": ME, "to": "bo"}})
    assert old is not None
    await circle(db, ME, "bo", name="later")

    await relation_jobs.copy(db, old)

    await scene.assert_settled()


async def test_a_follower_who_comes_while_an_author_is_merged_is_marked_by_one_of_both(scene: Scene) -> None:
    """The author becomes merged, and all followers are marked, before any command of the new follower."""
    db = scene.gateway.db
    for skip in stops():
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


async def test_an_empty_circle_that_is_removed_while_it_gets_a_member_stays_listed(scene: Scene) -> None:
    """A full list is cleared of empty circles, before any command of a call that fills one of them."""
    db = scene.gateway.db
    for skip in stops():
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
