"""A page of posts examines a bounded number of documents and index keys, however many posts are hidden.

Where an index leads past the hidden posts, the page is full, and costs the same with any number of them. Elsewhere it
ends early, and the list continues behind its cursor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain
from typing import Any

import pytest

from portico.resolvers.documents import Document
from portico.resolvers.social import fan_out, post_lists
from tests.social.support.post_reads import all_posts_in, as_member, page_of, post_id
from tests.social.support.posts import (
    NOW,
    add_followers,
    add_members,
    add_pages,
    put_in_circles,
    stored_comment,
    stored_post,
    who,
)
from tests.social.support.social import user_id
from tests.support.harness import GatewayClient
from tests.support.paging import pages
from tests.support.plans import documents_examined, keys_examined, plans_of

SELECTION = "id posted ... on StatusPost { text }"
COMMENTS = """query ($id: ID!, $first: Int, $after: String, $last: Int, $before: String) { node(id: $id) { ... on Post {
  comments(first: $first, after: $after, last: $last, before: $before) {
    nodes { text } pageInfo { hasNextPage hasPreviousPage startCursor endCursor } } } } }"""


@dataclass(frozen=True)
class Hidden:
    """Posts that a viewer does not see in a list. `fields` returns what distinguishes them: author, wall and values."""

    viewer: str | None
    name: str
    author: str
    to: str | None = None
    fields: Callable[[], Document] = dict
    sent: bool = False


PASSED = {
    "posts for circles, for a follower in none": Hidden("v", "wall of ann", "ann", fields=lambda: _for("CIRCLES")),
    "posts for circles, for somebody without a token": Hidden(
        None, "wall of ann", "ann", fields=lambda: _for("CIRCLES")
    ),
    "posts for a circle, for somebody in another": Hidden(
        "w", "wall of ann", "ann", fields=lambda: _for("SELECTED", "chess")
    ),
    "posts of a troll for circles": Hidden("v", "wall of ann", "troll", "ann", lambda: _for("CIRCLES")),
    "posts of a troll for circles, for the follower of the troll": Hidden(
        "w", "wall of ann", "troll", "ann", lambda: _for("CIRCLES")
    ),
    "deleted posts": Hidden("v", "wall of ann", "ann", fields=lambda: {"deleted": NOW}),
    "deleted posts on a wall": Hidden("v", "incoming", "troll", "v", lambda: {"deleted": NOW}),
    "posts of strangers on one's own wall": Hidden("v", "wall of v", "troll", "v"),
    "one's own posts among incoming ones": Hidden("v", "incoming", "v"),
    "posts of blocked members in a news feed": Hidden("v", "newsFeed", "foe", sent=True),
    "posts of members who are not followed any more": Hidden("v", "newsFeed", "troll", sent=True),
    "posts of a merged author for circles": Hidden("v", "newsFeed", "star", fields=lambda: _for("CIRCLES")),
}
CONSIDERED = {
    "public posts by a blocked member on another's wall": Hidden("v", "wall of ann", "foe", "ann"),
    "posts by a blocked member on one's own wall": Hidden("v", "incoming", "foe", "v"),
    "posts for circles that one has left": Hidden("v", "newsFeed", "ann", fields=lambda: _for("CIRCLES"), sent=True),
}


def _for(audience: str, *circles: str) -> Document:
    return {"audience": audience, "circles": list(circles)}


async def _add_network(gateway: GatewayClient) -> None:
    """v follows ann, foe and star, and has blocked foe. w follows ann, who has w in a circle, and the troll."""
    db = gateway.db
    await add_members(db, "ann", "v", "w", "foe", "star", "troll")
    for author in ("ann", "foe", "star"):
        await add_followers(db, author, ["v"])
    await add_followers(db, "ann", ["w"])
    await add_followers(db, "troll", ["w"])
    await put_in_circles(db, "ann", "w", "work")
    relations = db["social.relations"]
    await relations.update_one({"of": "v", "to": "foe"}, {"$set": {"blocks": True}})
    await relations.update_one({"of": "foe", "to": "v"}, {"$set": {"blocked": True}})
    await relations.update_one({"of": "v", "to": "star"}, {"$set": {"is_merged": True}})
    posts = [stored_post("ann", NOW - timedelta(minutes=n), "v" if n % 2 else None) for n in range(60)]
    await db["social.posts"].insert_many(posts)
    await db["social.news"].insert_many([fan_out.entry_of(post, "v") for post in posts])


async def _hide(gateway: GatewayClient, hidden: Hidden, count: int) -> None:
    """Adds this many hidden posts, each later than all others."""
    posts = [
        {**stored_post(hidden.author, NOW + timedelta(minutes=1 + n), hidden.to, comments=0), **hidden.fields()}
        for n in range(count)
    ]
    await gateway.db["social.posts"].insert_many(posts)
    if hidden.sent:
        await gateway.db["social.news"].insert_many([fan_out.entry_of(post, "v") for post in posts])


async def _cost(gateway: GatewayClient, hidden: Hidden, **variables: Any) -> tuple[int, int, int]:
    """Returns how many commands a page takes, and how many documents and keys they examine."""
    gateway.commands.clear()
    await page_of(gateway, hidden.viewer, hidden.name, SELECTION, **variables)
    sent, plans = len(gateway.commands.sent), await plans_of(gateway)
    return sent, documents_examined(plans), keys_examined(plans)


def _assert_constant(costs: Sequence[tuple[int, int, int]], *, most: tuple[int, int]) -> None:
    """Asserts that both pages take the same commands and documents, at most so many."""
    few, many = costs
    assert many[:2] == few[:2]
    assert many[0] <= most[0]
    assert many[1] <= most[1]
    # The scan of a part of an index can end one key later if another part follows.
    assert abs(many[2] - few[2]) <= 10


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", PASSED)
async def test_a_page_is_full_and_costs_the_same_however_many_posts_are_hidden(
    gateway: GatewayClient, case: str
) -> None:
    hidden = PASSED[case]
    await _add_network(gateway)
    page = await page_of(gateway, hidden.viewer, hidden.name, SELECTION)
    assert len(page["edges"]) == 20
    costs = []
    for count in (100, 2_900):
        await _hide(gateway, hidden, count)
        assert await page_of(gateway, hidden.viewer, hidden.name, SELECTION) == page
        costs.append(await _cost(gateway, hidden))
    _assert_constant(costs, most=(13, 400))


@pytest.mark.sample(4)
@pytest.mark.parametrize("case", PASSED)
async def test_a_page_before_hidden_posts_is_full_and_costs_the_same_however_many_they_are(
    gateway: GatewayClient, case: str
) -> None:
    hidden = PASSED[case]
    await _add_network(gateway)
    first = (await page_of(gateway, hidden.viewer, hidden.name, SELECTION, first=1))["edges"][0]["cursor"]
    # Visible ones that are newer than all hidden ones.
    author = "v" if hidden.name == "wall of v" else "ann"
    newest = [stored_post(author, NOW + timedelta(days=9, minutes=-n), "v") for n in range(21)]
    if hidden.name == "wall of ann":
        newest = [{**post, "to": who("ann"), "walls": ["ann"]} for post in newest]
    await gateway.db["social.posts"].insert_many(newest)
    await gateway.db["social.news"].insert_many([fan_out.entry_of(post, "v") for post in newest])
    costs = []
    for count in (100, 2_900):
        await _hide(gateway, hidden, count)
        page = await page_of(gateway, hidden.viewer, hidden.name, SELECTION, last=20, before=first)
        assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(post) for post in newest[1:]]
        assert page["pageInfo"]["hasPreviousPage"]
        costs.append(await _cost(gateway, hidden, last=20, before=first))
    _assert_constant(costs, most=(13, 400))


@pytest.mark.sample(3)
@pytest.mark.parametrize("case", CONSIDERED)
async def test_a_page_behind_posts_that_no_index_leads_past_ends_early_and_the_list_continues(
    gateway: GatewayClient, case: str
) -> None:
    hidden = CONSIDERED[case]
    await _add_network(gateway)
    page = await page_of(gateway, hidden.viewer, hidden.name, SELECTION)
    shown = await all_posts_in(gateway, hidden.viewer, hidden.name, size=20)
    await _hide(gateway, hidden, 300)
    assert await page_of(gateway, hidden.viewer, hidden.name, SELECTION) == page
    await _hide(gateway, hidden, 2_700)
    early = await page_of(gateway, hidden.viewer, hidden.name, SELECTION)
    assert early["edges"] == []
    assert early["pageInfo"]["hasNextPage"]
    assert early["pageInfo"]["endCursor"]
    assert await all_posts_in(gateway, hidden.viewer, hidden.name, size=20) == shown
    assert await all_posts_in(gateway, hidden.viewer, hidden.name, size=20, backwards=True) == shown
    few = await _cost(gateway, hidden)
    await _hide(gateway, hidden, 3_000)
    _assert_constant([few, await _cost(gateway, hidden)], most=(16, 2_500))
    first = page["edges"][0]["cursor"]
    back = await _cost(gateway, hidden, last=20, before=first)
    assert back[0] <= 16
    assert back[1] <= 2_500


async def test_a_page_of_many_walls_considers_a_bounded_number_of_posts_together(gateway: GatewayClient) -> None:
    await _add_network(gateway)
    names = [f"m{number:02}" for number in range(40)]
    await add_members(gateway.db, *names, followers={"ann": names})
    posts = [stored_post("foe", NOW + timedelta(minutes=n), name, comments=0) for name in names for n in range(200)]
    await gateway.db["social.posts"].insert_many(posts)
    gateway.commands.clear()
    query = """
    query ($id: ID!) { user(id: $id) { followers(first: 42) { nodes { wall(first: 5) { nodes { id } } } } } }
    """
    await gateway.data(query, {"id": user_id("ann")}, **as_member(gateway, "v"))
    plans = await plans_of(gateway)
    of_posts = [plan.documents_examined for plan in plans if plan.name.endswith("social.posts")]
    assert sum(of_posts) <= 42 * 6 * 2 + 2 * post_lists._MOST_SEARCHED


async def test_a_page_that_ends_early_has_the_posts_before_the_hidden_ones(gateway: GatewayClient) -> None:
    await _add_network(gateway)
    await _hide(gateway, CONSIDERED["posts by a blocked member on one's own wall"], 3_000)
    later = [stored_post("ann", NOW + timedelta(days=9 - number), "v") for number in range(2)]
    await gateway.db["social.posts"].insert_many(later)
    page = await page_of(gateway, "v", "incoming", "id", first=5)
    assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(post) for post in later]
    assert page["pageInfo"]["hasNextPage"]
    assert page["pageInfo"]["endCursor"] != page["edges"][-1]["cursor"]


async def test_comments_behind_those_of_a_blocked_member_cost_the_same_however_many_they_are(
    gateway: GatewayClient,
) -> None:
    await _add_network(gateway)
    costs = []
    for count in (2_000, 6_000):
        post = await _add_post_with_comments(gateway, count)
        gateway.commands.clear()
        await _comments(gateway, post, first=10)
        costs.append((len(gateway.commands.sent), documents_examined(await plans_of(gateway))))
        forwards, backwards = await _texts(gateway, post), await _texts(gateway, post, backwards=True)
        assert forwards[0] == ["first"]
        assert list(chain(*forwards)) == list(chain(*reversed(backwards))) == ["first", "middle", "last"]
        assert min(len(forwards), len(backwards)) > 1
        assert await _latest(gateway, post) == ["last"]
    assert costs[0] == costs[1]
    assert costs[0][0] <= 12
    assert costs[0][1] <= 100


async def _comments(gateway: GatewayClient, post: Document, **given: Any) -> Any:
    data = await gateway.data(COMMENTS, {"id": post_id(post), **given}, **as_member(gateway, "v"))
    return data["node"]["comments"]


async def _texts(gateway: GatewayClient, post: Document, *, backwards: bool = False) -> list[list[str]]:
    """Returns the texts of all comments, by page."""

    async def read(cursor: str | None) -> Any:
        given = {"last": 20, "before": cursor} if backwards else {"first": 10, "after": cursor}
        return await _comments(gateway, post, **given)

    return [[comment["text"] for comment in page["nodes"]] async for page in pages(read, backwards=backwards)]


async def _add_post_with_comments(gateway: GatewayClient, count: int) -> Document:
    """Adds a post with this many comments by foe, and one by ann before, between and after them."""
    post = {**stored_post("ann", NOW), "spilled": count}
    [_, _, last] = post["comments"]
    post["comments"] = [{**last, "posted": NOW + timedelta(days=1), "text": "last"}]
    written = {0: "first", count // 2: "middle"}
    comments = [
        stored_comment(
            "ann" if number in written else "foe", NOW + timedelta(seconds=number), written.get(number, "Spam")
        )
        for number in range(count)
    ]
    await gateway.db["social.posts"].insert_one({**post, "comment_count": count + 1})
    await add_pages(gateway.db, post, comments)
    return post


async def _latest(gateway: GatewayClient, post: Document) -> list[str]:
    query = "query ($id: ID!) { node(id: $id) { ... on Post { latestComments(last: 3) { text } } } }"
    data = await gateway.data(query, {"id": post_id(post)}, **as_member(gateway, "v"))
    return [comment["text"] for comment in data["node"]["latestComments"]]
