"""The social graph in the database: both documents of a pair, and what the check finds wrong and repairs."""

from __future__ import annotations

from typing import Any

import pytest

from portico.gateway.domains.social import graph
from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.problems import Problem
from portico.resolvers.social import circles, relations
from tests.social.support.social import block, circle, join, operation, unblock, uncircle
from tests.support.interruptions import interrupted


async def test_each_of_two_members_knows_what_both_have_decided(db: Database) -> None:
    await join(db, "ada", "bo")

    await circle(db, "ada", "bo", name="a.b")
    await circle(db, "ada", "bo", name="$x")
    await block(db, "bo", "ada")

    ada = (await relations.find(db, "ada", ["bo", "cy"]))["bo"]
    bo = (await relations.find(db, "bo", ["ada"], None))["ada"]
    assert (ada["circles"], ada["blocked"], relations.has_block(ada)) == (["a.b", "$x"], True, True)
    assert (bo["in_circles"], bo["blocks"], relations.follows(bo)) == (["a.b", "$x"], True, False)
    assert "uncopied" not in bo
    assert bo["follower"] is not None


async def test_leaving_the_last_circle_ends_following(db: Database) -> None:
    await join(db, "ada", "bo")
    await circle(db, "ada", "bo", name="a.b")
    await circle(db, "ada", "bo", name="$x")

    await uncircle(db, "ada", "bo", name="a.b")
    half = await relations.find_one(db, "bo", "ada")
    await uncircle(db, "ada", "bo", name="$x")

    ada = await relations.find_one(db, "ada", "bo")
    bo = await relations.find_one(db, "bo", "ada")
    assert half is not None
    assert (half["in_circles"], "follower" in half) == (["$x"], True)
    assert ada is not None
    assert bo is not None
    assert (ada["circles"], "since" in ada, bo["in_circles"], "follower" in bo) == ([], False, [], False)
    assert await circles.existing(db, "ada", ["a.b", "$x"]) == []


async def test_blocks_can_be_taken_back_even_if_they_are_mutual(db: Database) -> None:
    await join(db, "ada", "bo")
    await block(db, "ada", "bo")
    with pytest.raises(NotFound):
        await block(db, "bo", "ada")

    with pytest.raises(NotFound):
        await unblock(db, "ada", "bo")
    await unblock(db, "bo", "ada")

    found = (await relations.find(db, "ada", ["bo"]))["bo"]
    assert not relations.has_block(found)


async def test_nobody_can_circle_themselves_a_stranger_or_a_member_who_blocked_them(db: Database) -> None:
    await join(db, "ada", "bo")
    await block(db, "bo", "ada")

    with pytest.raises(InvalidInput):
        await circle(db, "ada", "ada")
    with pytest.raises(NotFound):
        await circle(db, "ada", "nobody")
    with pytest.raises(NotFound, match="join"):
        await circle(db, "nobody", "ada")
    with pytest.raises(NotFound):
        await circle(db, "ada", "bo")
    assert not (await relations.find(db, "ada", ["bo"]))["bo"].get("circles")


OWN = {"of": "ada", "to": "bo"}
OTHER = {"of": "bo", "to": "ada"}


async def problems(db: Database) -> list[Problem]:
    return [problem for invariant in graph.INVARIANTS async for problem in invariant.problems(db)]


async def prepare(db: Database) -> None:
    """Ada follows Bo in two circles, and Bo has blocked Ada."""
    await join(db, "ada", "bo")
    await circle(db, "ada", "bo", name="a.b")
    await circle(db, "ada", "bo", name="$x")
    await block(db, "bo", "ada")


async def test_a_graph_after_many_changes_is_right(db: Database) -> None:
    await join(db, "cy")
    await prepare(db)
    await circle(db, "ada", "cy", name="a.b")
    await uncircle(db, "ada", "cy", name="a.b")
    await block(db, "cy", "bo")

    assert await problems(db) == []


@pytest.mark.parametrize(
    ("key", "change", "text"),
    [
        (OTHER, {"$set": {"in_circles": ["a.b"]}}, "the other document has other circles, or another block"),
        (OTHER, {"$unset": {"follower": ""}}, "the other document has other circles, or another block"),
        (OWN, {"$set": {"blocked": False}}, "the other document has other circles, or another block"),
        (OTHER, {"$set": {"copied": 1}}, "the other document lacks the latest change"),
        (OTHER, None, "the other document lacks the latest change"),
    ],
)
async def test_a_wrong_copy_is_repaired_from_the_decision(
    db: Database, key: dict[str, str], change: dict[str, Any] | None, text: str
) -> None:
    await prepare(db)
    if change is None:
        await db["social.relations"].update_one(
            {"_id": key}, {"$unset": {"copied": "", "in_circles": "", "follower": ""}}
        )
    else:
        await db["social.relations"].update_one({"_id": key}, change)

    (found,) = await problems(db)

    assert found.text == text
    assert await found.mend()
    assert await problems(db) == []
    (other,) = await db["social.relations"].find({"_id": OTHER}).to_list()
    assert (other["in_circles"], "follower" in other, other["blocks"]) == (["a.b", "$x"], True, True)


async def test_a_circle_that_its_member_does_not_list_is_listed_again(db: Database) -> None:
    await prepare(db)
    await db["social.members"].update_one({"_id": "ada"}, {"$set": {"circles": ["a.b"]}})

    (found,) = await problems(db)

    assert (found.subject, found.text) == ("relation of ada to bo", "the list of circles lacks $x")
    assert await found.mend()
    assert await problems(db) == []


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"$set": {"circles": ["a.b", "a.b", "$x"]}}, "a circle is named twice"),
        ({"$unset": {"since": ""}}, "since"),
        ({"$set": {"copied": 9}}, "it has a copy of a change that the other document does not have"),
        ({"$set": {"version": "text"}}, "TypeError"),
    ],
)
async def test_a_contradiction_is_reported(db: Database, change: dict[str, Any], text: str) -> None:
    await prepare(db)
    await db["social.relations"].update_one({"_id": OWN}, change)

    assert any(text in problem.text for problem in await problems(db))


async def test_a_relation_with_somebody_who_is_no_member_is_reported(db: Database) -> None:
    await prepare(db)
    await db["social.members"].delete_one({"_id": "bo"})

    assert {problem.text for problem in await problems(db)} == {"bo is no member"}


async def test_a_change_during_the_check_is_no_problem(db: Database) -> None:
    await prepare(db)

    async def change() -> None:
        await circle(db, "bo", "ada")

    for skip in range(4):
        assert await problems(interrupted(db, None, None, change, skip=skip)) == []
        await db["social.relations"].delete_many({})
        await db["social.members"].delete_many({})
        await prepare(db)


async def test_a_change_that_is_not_finished_is_left_to_its_job(db: Database) -> None:
    await prepare(db)
    await db["social.relations"].update_one({"_id": OTHER}, {"$set": {"copied": 0}})
    unfinished = {"uncopied": {"op": "r-1", "at": operation()["now"]}}
    await db["social.relations"].update_one({"_id": OWN}, {"$set": unfinished})

    assert await problems(db) == []
