"""The social graph in the database: both documents of a pair, and what one member knows of another."""

from __future__ import annotations

import pytest

from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.social import circles, relations
from tests.social.support.social import block, circle, join, unblock, uncircle


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
