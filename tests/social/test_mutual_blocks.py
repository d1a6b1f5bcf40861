"""Of two members who have blocked each other, each finds the other to unblock, and learns nothing else of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.social import member_edits, renames
from tests.social.support.members import BLOCK, UNBLOCK, call
from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import write_post
from tests.social.support.social import block, block_each_other, join, operation, unblock, user_id
from tests.support.harness import GatewayClient

MEMBER = """
  id name profile { about location website birthYear interests } circles { name } blocked { id }
  followers { nodes { id } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } }
  wall { nodes { id } }
"""
BLOCKED = f"""{{ viewer {{
  user {{ blocked {{ {MEMBER} }} }}
  blockedUsers(first: 10) {{ nodes {{ {MEMBER} }} edges {{ node {{ id }} }} pageInfo {{ hasNextPage }} }}
}} }}"""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Settings of a gateway that lets a test read everything at once."""
    return replace(settings, max_cost=1_000_000)


async def blocked_by(gateway: GatewayClient, viewer: str) -> list[Any]:
    """Returns those whom the viewer has blocked. Both lists have the same."""
    found = (await gateway.data(BLOCKED, **as_member(gateway, viewer)))["viewer"]
    members: list[Any] = found["user"]["blocked"]
    assert found["blockedUsers"]["nodes"] == members
    assert [edge["node"]["id"] for edge in found["blockedUsers"]["edges"]] == [member["id"] for member in members]
    return members


async def rename(gateway: GatewayClient, member: str, name: str) -> None:
    await member_edits.update_profile(gateway.db, subject=member, name=name, profile={"about": "New"}, **operation())
    await renames.copy_name(gateway.db, member, name)


def shown(subject: str, name: str) -> dict[str, Any]:
    nothing = {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None}
    return {
        "id": user_id(subject),
        "name": name,
        "profile": {"about": None, "location": None, "website": None, "birthYear": None, "interests": []},
        "circles": None,
        "blocked": None,
        "followers": {"nodes": [], "pageInfo": nothing},
        "wall": {"nodes": []},
    }


async def test_each_of_two_who_block_each_other_finds_the_other(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", about="Old", follows={"cem": ["ann", "bob"]})
    await write_post(gateway.db, "ann")
    own = await write_post(gateway.db, "bob", to="ann")
    await block_each_other(gateway.db, "bob", "ann")
    await rename(gateway, "ann", "Ann, who is new")
    await rename(gateway, "bob", "Bob, who is new")

    # Bob has blocked Ann while he saw her, and sees his own post. Ann did not see Bob any more.
    assert await blocked_by(gateway, "bob") == [{**shown("ann", "Ann"), "wall": {"nodes": [{"id": post_id(own)}]}}]
    assert await blocked_by(gateway, "ann") == [shown("bob", "bob")]

    assert (await call(gateway, UNBLOCK, "bob", userId=user_id("ann")))["__typename"] == "NotFound"
    assert await blocked_by(gateway, "bob") == []
    assert (await call(gateway, UNBLOCK, "ann", userId=user_id("bob")))["user"]["name"] == "Bob, who is new"
    assert await blocked_by(gateway, "ann") == []


async def test_a_second_block_shows_no_newer_name(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await block_each_other(gateway.db, "bob", "ann")
    await rename(gateway, "ann", "Ann, who is new")
    assert [one["name"] for one in await blocked_by(gateway, "bob")] == ["Ann"]

    for _ in range(2):
        await call(gateway, UNBLOCK, "bob", userId=user_id("ann"))
        assert (await call(gateway, BLOCK, "bob", userId=user_id("ann")))["__typename"] == "NotFound"

    assert [one["name"] for one in await blocked_by(gateway, "bob")] == ["ann"]


async def test_a_block_of_an_earlier_version_shows_the_subject(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await block_each_other(gateway.db, "bob", "ann")
    await gateway.db["social.relations"].update_many({}, {"$unset": {"known_as": ""}})

    assert [one["name"] for one in await blocked_by(gateway, "bob")] == ["ann"]


@pytest.mark.parametrize("first", ["ann", "bob"])
async def test_who_has_not_blocked_the_viewer_is_shown_as_they_are(gateway: GatewayClient, first: str) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"cem": ["ann"]})
    await block_each_other(gateway.db, first, "bob" if first == "ann" else "ann")
    await block(gateway.db, "bob", "cem")
    await unblock_quietly(gateway, "ann", "bob")
    await rename(gateway, "ann", "Ann, who is new")

    ann, cem = await blocked_by(gateway, "bob")

    assert (ann["name"], ann["profile"]["about"], ann["followers"]["nodes"]) == (
        "Ann, who is new",
        "New",
        [{"id": user_id("cem")}],
    )
    assert cem["name"] == "Cem"


async def unblock_quietly(gateway: GatewayClient, member: str, other: str) -> None:
    """Takes a block back. The answer is NotFound if the other member has blocked this one."""
    assert (await call(gateway, UNBLOCK, member, userId=user_id(other)))["__typename"] == "NotFound"


async def test_the_owner_of_a_wall_who_has_blocked_the_author_is_not_named(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "bob", to="ann")
    read = "{ viewer { user { wall { nodes { id to { userId name user { name } } by { name } } } } } }"
    before = (await gateway.data(read, **as_member(gateway, "bob")))["viewer"]["user"]["wall"]["nodes"]
    assert before[0]["to"] == {"userId": "ann", "name": "Ann", "user": {"name": "Ann"}}
    await block(gateway.db, "ann", "bob")
    await rename(gateway, "ann", "Ann, who is new")

    [row] = (await gateway.data(read, **as_member(gateway, "bob")))["viewer"]["user"]["wall"]["nodes"]

    assert (row["to"], row["by"]) == (None, {"name": "Bob"})
    await unblock(gateway.db, "ann", "bob")
    await block(gateway.db, "bob", "ann")
    # Bob sees whom he has blocked.
    [row] = (await gateway.data(read, **as_member(gateway, "bob")))["viewer"]["user"]["wall"]["nodes"]
    assert row["to"]["name"] == "Ann, who is new"
    assert post["to"]["name"] == "Ann"
