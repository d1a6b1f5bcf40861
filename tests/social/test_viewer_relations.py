"""What a viewer sees of members besides their profiles: followers and their number, and whom the viewer blocks."""

from __future__ import annotations

from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.social import follower_counts
from portico.schema import connections
from portico.schema.roles import Role
from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import NOW, call, codes, write_comments, write_post
from tests.social.support.social import block, block_each_other, circle, join, unblock, uncircle, user_id
from tests.support.explaining import explain
from tests.support.harness import GatewayClient

FOLLOWERS = "query ($id: ID!) { user(id: $id) { followers(first: 1) { nodes { name } } } }"


async def _block_dwight(gateway: GatewayClient, hidden: list[str]) -> None:
    for follower in hidden:
        await block(gateway.db, follower, "dwight")
    gateway.commands.clear()


async def test_many_hidden_followers_take_few_commands(gateway: GatewayClient) -> None:
    hidden = [f"m{number:02}" for number in range(60)]
    await join(gateway.db, "max", "dwight", "zoe", *hidden, follows=dict.fromkeys((*hidden, "zoe"), ("max",)))
    await _block_dwight(gateway, hidden)

    found = await gateway.data(FOLLOWERS, {"id": user_id("max")}, **as_member(gateway, "dwight"))

    assert found == {"user": {"followers": {"nodes": [{"name": "Zoe"}]}}}
    # Pages of 2, 8, 32 and 128 rows.
    assert gateway.commands.names().count("aggregate social.relations") == 4


PAGE = """
query ($id: ID!, $first: Int, $after: String) {
  user(id: $id) {
    followers(first: $first, after: $after) {
      nodes { name } edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
    }
  }
}
"""


async def _page(gateway: GatewayClient, viewer: str | None, first: int, after: str | None = None) -> Any:
    variables = {"id": user_id("max"), "first": first, "after": after}
    return (await gateway.data(PAGE, variables, **as_member(gateway, viewer)))["user"]["followers"]


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "hidden", [[], ["b"], ["a"], ["e"], ["a", "b", "d"], ["c", "d", "e"], ["a", "b", "c", "d", "e"]]
)
async def test_pages_are_as_if_there_were_no_hidden_followers(gateway: GatewayClient, hidden: list[str]) -> None:
    everybody = ["a", "b", "c", "d", "e"]
    await join(gateway.db, "max", "dwight", *everybody, follows=dict.fromkeys(everybody, ("max",)))
    cursors = {
        edge["cursor"]: name for edge, name in zip((await _page(gateway, None, 5))["edges"], everybody, strict=True)
    }
    await _block_dwight(gateway, hidden)
    visible = [name for name in everybody if name not in hidden]

    for first in range(1, 7):
        # Also after the cursors of hidden followers, which the reader may have from before.
        for after, place in [(None, ""), *cursors.items()]:
            page = await _page(gateway, "dwight", first, after)
            rows = [name for name in visible if name > place]
            shown = [name.upper() for name in rows[:first]]
            ends = [{"cursor": cursor} for cursor, name in cursors.items() if name.upper() in shown]
            assert page == {
                "nodes": [{"name": name} for name in shown],
                "edges": ends,
                "pageInfo": {
                    "hasNextPage": len(rows) > first,
                    "hasPreviousPage": any(name <= place for name in visible),
                    "startCursor": ends[0]["cursor"] if ends else None,
                    "endCursor": ends[-1]["cursor"] if ends else None,
                },
            }


async def test_a_page_behind_very_many_hidden_followers_ends_early(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_MOST_HIDDEN", 10)
    hidden = [f"m{number:02}" for number in range(60)]
    await join(gateway.db, "max", "dwight", "amy", "zoe", *hidden)
    for follower in ("amy", *hidden, "zoe"):
        await circle(gateway.db, follower, "max")
    await _block_dwight(gateway, hidden)

    page = await _page(gateway, "dwight", 2)

    # Pages of 3 and 12 rows.
    assert gateway.commands.names().count("aggregate social.relations") == 2
    assert page["nodes"] == [{"name": "Amy"}]
    assert page["pageInfo"]["hasNextPage"]
    # The cursor at a hidden follower is like any other.
    assert len(page["pageInfo"]["endCursor"]) == len(page["edges"][0]["cursor"])
    found, rounds = [], 0
    while page["pageInfo"]["hasNextPage"]:
        page = await _page(gateway, "dwight", 2, page["pageInfo"]["endCursor"])
        found += page["nodes"]
        rounds += 1
    assert (found, rounds) == ([{"name": "Zoe"}], 4)


async def test_rows_before_very_many_hidden_followers_take_few_commands(gateway: GatewayClient) -> None:
    hidden = [f"m{number:02}" for number in range(60)]
    await join(gateway.db, "max", "dwight", "zoe", *hidden, follows=dict.fromkeys((*hidden, "zoe"), ("max",)))
    after = (await _page(gateway, None, 60))["pageInfo"]["endCursor"]
    await _block_dwight(gateway, hidden)

    page = await _page(gateway, "dwight", 1, after)

    assert (page["nodes"], page["pageInfo"]["hasPreviousPage"]) == ([{"name": "Zoe"}], False)
    # Rows before the page: 1, 4, 16 and 64, each with the relations of the reader. Also those with max and with zoe.
    assert gateway.commands.names().count("find social.relations") == 4 + 4 + 2


SHOWN = "name viewerFollows viewerHasBlocked followerCount"
USER = f"query ($id: ID!) {{ user(id: $id) {{ {SHOWN} }} }}"
COUNT = "query ($id: ID!) { user(id: $id) { followerCount } }"


async def _of(gateway: GatewayClient, viewer: str | None, name: str) -> tuple[Any, ...]:
    """Returns whether the viewer follows the member, whether the viewer has blocked them, and the count."""
    found = (await gateway.data(USER, {"id": user_id(name)}, **as_member(gateway, viewer)))["user"]
    return tuple(found.values())[1:]


async def _count(gateway: GatewayClient, viewer: str | None, name: str) -> Any:
    found = await gateway.data(COUNT, {"id": user_id(name)}, **as_member(gateway, viewer))
    return found["user"]["followerCount"]


async def test_a_viewer_sees_whom_they_follow_and_have_blocked(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"ann": ["bob"]})
    await circle(gateway.db, "ann", "bob", name="work")
    await circle(gateway.db, "bob", "cem")
    await block(gateway.db, "ann", "cem")

    assert await _of(gateway, "ann", "bob") == (True, False, 1)
    assert await _of(gateway, "ann", "cem") == (False, True, 1)
    assert await _of(gateway, "ann", "ann") == (False, False, 0)
    assert await _of(gateway, "bob", "ann") == (False, False, 0)
    assert await _of(gateway, "stranger", "bob") == (False, False, 1)
    assert await _of(gateway, None, "bob") == (False, False, 1)

    await uncircle(gateway.db, "ann", "bob")
    await unblock(gateway.db, "ann", "cem")
    assert await _of(gateway, "ann", "bob") == (True, False, 1)
    assert await _of(gateway, "ann", "cem") == (False, False, 1)
    await uncircle(gateway.db, "ann", "bob", name="work")
    assert await _of(gateway, "ann", "bob") == (False, False, 0)


async def test_a_follower_who_has_blocked_the_viewer_is_in_no_count(gateway: GatewayClient) -> None:
    await join(gateway.db, "max", "ann", "bob", "cem", "dan")
    for follower in ("ann", "bob", "cem", "dan"):
        await circle(gateway.db, follower, "max")
    await block(gateway.db, "bob", "ann")
    await block(gateway.db, "ann", "cem")

    # As in the list of followers, members whom the viewer has blocked are there: ann sees cem, but not bob.
    assert [await _count(gateway, viewer, "max") for viewer in ("ann", "bob", "cem", None)] == [3, 4, 3, 4]
    await unblock(gateway.db, "bob", "ann")
    assert await _count(gateway, "ann", "max") == 4


async def test_members_who_have_blocked_each_other_show_no_count(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"cem": ["bob"], "ann": ["bob"]})
    await block_each_other(gateway.db, "ann", "bob")

    found = await gateway.data(f"{{ viewer {{ user {{ blocked {{ {SHOWN} }} }} }} }}", **as_member(gateway, "ann"))

    shown = {"name": "Bob", "viewerFollows": True, "viewerHasBlocked": True, "followerCount": 0}
    assert found["viewer"]["user"]["blocked"] == [shown]


async def test_a_block_during_a_count_is_in_it(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    await join(gateway.db, "max", "ann", "bob", "cem", follows=dict.fromkeys(("ann", "bob", "cem"), ("max",)))
    count, left = follower_counts._count, ["bob", "cem"]

    async def count_and_block(*given: Any) -> dict[str, int]:
        counts = await count(*given)
        if left:
            await block(gateway.db, left.pop(), "ann")
        return counts

    monkeypatch.setattr(follower_counts, "_count", count_and_block)

    assert await _count(gateway, "ann", "max") == 1


async def _add_followers(gateway: GatewayClient, member: str, count: int, *, viewer: str = "") -> None:
    """Adds followers of the member; with `viewer`, those who have blocked the viewer."""
    names = [f"m{ObjectId()}{number}" for number in range(count)]
    rows: list[dict[str, Any]] = [
        {"_id": {"of": member, "to": name}, "of": member, "to": name, "follower": NOW} for name in names
    ]
    if viewer:
        rows += [{"_id": {"of": viewer, "to": name}, "of": viewer, "to": name, "blocked": True} for name in names]
    await gateway.db["social.relations"].insert_many(rows)


async def test_a_count_is_bounded_and_covered_by_its_index(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_counts, "MAX_COUNTED", 40)
    await join(gateway.db, "max", "ann")
    await _add_followers(gateway, "max", 20)
    await _add_followers(gateway, "max", 20, viewer="ann")
    assert (await _count(gateway, None, "max"), await _count(gateway, "ann", "max")) == (40, 20)
    await _add_followers(gateway, "max", 500)
    gateway.commands.clear()

    assert (await _count(gateway, None, "max"), await _count(gateway, "ann", "max")) == (40, 40)

    counts = [one for one in gateway.commands.sent if "aggregate" in one]
    plans = [plan for one in counts for plan in await explain(gateway.db, one)]
    assert len(counts) == 3
    assert not any(plan.scans_collection or plan.documents_examined for plan in plans)
    assert all(plan.keys_examined <= 100 for plan in plans)


async def test_a_viewer_whom_very_many_have_blocked_gets_no_count(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follower_counts, "MAX_BLOCKS", 10)
    await join(gateway.db, "max", "ann")
    await _add_followers(gateway, "max", 10, viewer="ann")
    assert await _count(gateway, "ann", "max") == 0
    await _add_followers(gateway, "max", 1, viewer="ann")
    assert (await _count(gateway, "ann", "max"), await _count(gateway, None, "max")) == (None, 11)


async def test_a_post_says_whether_the_viewer_may_delete_it(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "ann", to="bob")
    query = f'{{ node(id: "{post_id(post)}") {{ ... on Post {{ viewerCanDelete to {{ name }} }} }} }}'

    async def may(viewer: str | None, *roles: Role) -> bool:
        token = None if viewer is None else gateway.token(viewer, roles)
        return bool((await gateway.data(query, token=token))["node"]["viewerCanDelete"])

    assert [await may(viewer) for viewer in ("ann", "bob", "cem", None)] == [True, True, False, False]
    assert await may("cem", Role.EDITOR)
    assert await codes(gateway, "cem", "deletePost", postId=post_id(post)) == ["FORBIDDEN"]
    await block(gateway.db, "bob", "ann")
    # The author no longer sees the owner of the wall.
    assert await may("ann")
    assert (await call(gateway, "ann", "deletePost", postId=post_id(post)))["__typename"] == "DeletedPayload"


async def test_counts_of_many_members_fit_into_commands_whatever_the_number_of_blocks(gateway: GatewayClient) -> None:
    await _add_followers(gateway, "max", 3)
    await gateway.db["social.relations"].insert_many(
        {"_id": {"of": "ann", "to": to}, "of": "ann", "to": to, "blocked": True}
        for to in (f"{number:0>200}" for number in range(9_000))
    )
    members = ["max", *(f"other {number}" for number in range(9))]

    counts = await follower_counts.count_followers(gateway.db, members, viewer="ann")

    assert counts == {member: 3 if member == "max" else 0 for member in members}


async def test_a_comment_says_whether_the_viewer_may_delete_it(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    post = await write_post(gateway.db, "ann", to="bob")
    await write_comments(gateway.db, post, "cem", 45)
    shown = "latestComments { viewerCanDelete } comments(first: 100) { nodes { id viewerCanDelete } }"
    query = f'{{ node(id: "{post_id(post)}") {{ ... on Post {{ {shown} }} }} }}'

    async def may(viewer: str | None, *roles: Role) -> Any:
        token = None if viewer is None else gateway.token(viewer, roles)
        found = (await gateway.data(query, token=token))["node"]
        comments = [*found["latestComments"], *found["comments"]["nodes"]]
        (one,) = {comment["viewerCanDelete"] for comment in comments}
        return one

    # The owner of the wall deletes the post, and not its comments.
    assert [await may(viewer) for viewer in ("ann", "bob", "cem", "dan", None)] == [True, False, True, False, False]
    assert await may("dan", Role.EDITOR)
    told = "... on PostPayload { comment { viewerCanDelete } commentEdge { node { viewerCanDelete } } }"
    text = f"mutation ($input: CommentOnPostInput!) {{ commentOnPost(input: $input) {{ {told} }} }}"
    given = {"input": {"postId": post_id(post), "text": "Mine"}}
    said = (await gateway.data(text, given, token=gateway.token("dan", [])))["commentOnPost"]
    assert said == {"comment": {"viewerCanDelete": True}, "commentEdge": {"node": {"viewerCanDelete": True}}}
