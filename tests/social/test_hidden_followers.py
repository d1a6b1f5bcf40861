"""Lists of members with many who have blocked the viewer."""

from __future__ import annotations

from typing import Any

import pytest

from portico.schema import connections
from tests.social.support.post_reads import as_member
from tests.social.support.social import block, circle, join, user_id
from tests.support.harness import GatewayClient

FOLLOWERS = "query ($id: ID!) { user(id: $id) { followers(first: 1) { nodes { name } } } }"


async def test_many_hidden_followers_take_few_commands(gateway: GatewayClient) -> None:
    hidden = [f"m{number:02}" for number in range(60)]
    await join(gateway.db, "max", "dwight", "zoe", *hidden)
    for follower in (*hidden, "zoe"):
        await circle(gateway.db, follower, "max")
    for follower in hidden:
        await block(gateway.db, follower, "dwight")
    gateway.commands.clear()

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
    await join(gateway.db, "max", "dwight", *everybody)
    for follower in everybody:
        await circle(gateway.db, follower, "max")
    cursors = {
        edge["cursor"]: name for edge, name in zip((await _page(gateway, None, 5))["edges"], everybody, strict=True)
    }
    for follower in hidden:
        await block(gateway.db, follower, "dwight")
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
    for follower in hidden:
        await block(gateway.db, follower, "dwight")
    gateway.commands.clear()

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
    await join(gateway.db, "max", "dwight", "zoe", *hidden)
    for follower in (*hidden, "zoe"):
        await circle(gateway.db, follower, "max")
    after = (await _page(gateway, None, 60))["pageInfo"]["endCursor"]
    for follower in hidden:
        await block(gateway.db, follower, "dwight")
    gateway.commands.clear()

    page = await _page(gateway, "dwight", 1, after)

    assert (page["nodes"], page["pageInfo"]["hasPreviousPage"]) == ([{"name": "Zoe"}], False)
    # Rows before the page: 1, 4, 16 and 64, each with the relations of the reader. Also those with max and with zoe.
    assert gateway.commands.names().count("find social.relations") == 4 + 4 + 2
