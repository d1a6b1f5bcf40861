"""Who sees which posts and comments: on walls, in news feeds, among incoming posts and by id."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.http.streaming import Session
from portico.resolvers.social import comment_reads, post_comments, post_edits, votes
from portico.resolvers.social.listed_posts import PostList
from portico.schema.nodes import visible_of
from portico.schema.social.posts import POST
from portico.schema.watching import WatchedCaller
from tests.social.support.post_reads import as_member, comments_of, page_of, post_id, posts_in, visible_by_id
from tests.social.support.posts import NOW, deliver, later, op, who, write_comment, write_post
from tests.social.support.social import block, circle, join, unblock, uncircle, user_id
from tests.support.harness import GatewayClient
from tests.support.paging import nodes_of

NEWS, INCOMING = "newsFeed", "incoming"


async def test_a_public_post_is_seen_by_everybody_on_the_authors_wall(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "ann")
    for viewer in (None, "ann", "bob", "nobody"):
        assert await posts_in(gateway, viewer, "wall of ann") == [post_id(post)]
        assert [one["id"] for one in await visible_by_id(gateway, viewer, [post])] == [post_id(post)]


async def test_a_post_to_all_circles_is_seen_by_their_members_now(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "ann", audience="CIRCLES")
    assert await posts_in(gateway, "bob", "wall of ann") == []
    await circle(gateway.db, "ann", "bob", name="python")
    assert await posts_in(gateway, "bob", "wall of ann") == [post_id(post)]
    assert await posts_in(gateway, "cem", "wall of ann") == await visible_by_id(gateway, "cem", [post]) == []
    assert await posts_in(gateway, None, "wall of ann") == await visible_by_id(gateway, None, [post]) == []
    await uncircle(gateway.db, "ann", "bob", name="python")
    assert await posts_in(gateway, "bob", "wall of ann") == await visible_by_id(gateway, "bob", [post]) == []
    assert await posts_in(gateway, "ann", "wall of ann") == [post_id(post)]


@pytest.mark.parametrize("name", ["a.b", "$x", "_id", "👩‍👩‍👧‍👦", "x" * 64])
async def test_a_post_to_chosen_circles_is_seen_by_their_members_only(gateway: GatewayClient, name: str) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    await circle(gateway.db, "ann", "bob", name=name)
    await circle(gateway.db, "ann", "cem", name="other")
    post = await write_post(gateway.db, "ann", audience="SELECTED", circle_names=[name])
    assert await posts_in(gateway, "bob", "wall of ann") == [post_id(post)]
    assert await posts_in(gateway, "cem", "wall of ann") == await visible_by_id(gateway, "cem", [post]) == []
    [own] = await visible_by_id(gateway, "ann", [post])
    [others] = await visible_by_id(gateway, "bob", [post])
    assert (own["circles"], others["circles"]) == ([name], None)


async def test_a_block_in_either_direction_hides_posts_everywhere(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"bob": ["ann"], "cem": ["ann"]})
    post = await write_post(gateway.db, "ann", to="cem", now=later(1))
    await deliver(gateway.db, now=later(2))
    assert await posts_in(gateway, "bob", NEWS) == await posts_in(gateway, "cem", NEWS) == [post_id(post)]
    for blocker, blocked in (("ann", "bob"), ("bob", "ann"), ("cem", "bob"), ("bob", "cem")):
        await block(gateway.db, blocker, blocked)
        assert await posts_in(gateway, "bob", NEWS) == await visible_by_id(gateway, "bob", [post]) == []
        assert await posts_in(gateway, "bob", "wall of cem") == await posts_in(gateway, "bob", "wall of ann") == []
        assert await posts_in(gateway, "cem", NEWS) == [post_id(post)]
        await unblock(gateway.db, blocker, blocked)
    assert await posts_in(gateway, "bob", NEWS) == [post_id(post)]


async def test_incoming_has_every_post_directed_to_the_viewer_by_others(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan", follows={"ann": ["bob"]})
    posts = {
        by: await write_post(gateway.db, by, to="ann", audience="CIRCLES", now=NOW + timedelta(seconds=number))
        for number, by in enumerate(("ann", "bob", "cem", "dan"))
    }
    await block(gateway.db, "ann", "dan")
    assert await posts_in(gateway, "ann", INCOMING) == [post_id(posts["cem"]), post_id(posts["bob"])]
    # One's own wall has those of members whom one follows, and one's own.
    assert await posts_in(gateway, "ann", "wall of ann") == [post_id(posts["bob"]), post_id(posts["ann"])]


async def test_a_news_feed_has_what_was_sent_by_those_whom_the_viewer_follows_now(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    before = await write_post(gateway.db, "ann")
    await deliver(gateway.db)
    await circle(gateway.db, "bob", "ann", "cem")
    sent = await write_post(gateway.db, "ann", now=later(1))
    other = await write_post(gateway.db, "cem", now=later(2))
    own = await write_post(gateway.db, "bob", now=later(3))
    # One's own post needs no delivery.
    assert await posts_in(gateway, "bob", NEWS) == [post_id(own)]
    await deliver(gateway.db, now=later(9))
    assert await posts_in(gateway, "bob", NEWS) == [post_id(own), post_id(other), post_id(sent)]
    await uncircle(gateway.db, "bob", "ann")
    assert await posts_in(gateway, "bob", NEWS) == [post_id(own), post_id(other)]
    await circle(gateway.db, "bob", "ann")
    assert await posts_in(gateway, "bob", NEWS) == [post_id(own), post_id(other), post_id(sent)]
    assert post_id(before) in await posts_in(gateway, "bob", "wall of ann")


async def test_posts_of_merged_authors_are_in_news_feeds_without_entries(gateway: GatewayClient) -> None:
    await join(gateway.db, "star", "ann", "bob", "cem", follows=dict.fromkeys(("ann", "bob", "cem"), ("star",)))
    await circle(gateway.db, "bob", "ann")
    sent = await write_post(gateway.db, "star", now=later(1))
    await deliver(gateway.db, now=later(5))
    merged = await write_post(gateway.db, "star", now=later(2))
    own = await write_post(gateway.db, "ann", now=later(3))
    await deliver(gateway.db, now=later(5), max_fan_out=2)
    assert await gateway.db["social.news"].count_documents({"post": merged["_id"]}) == 0
    assert await posts_in(gateway, "bob", NEWS) == [post_id(own), post_id(merged), post_id(sent)]
    page = await page_of(gateway, "bob", NEWS, first=2)
    rest = await page_of(gateway, "bob", NEWS, first=2, after=page["pageInfo"]["endCursor"])
    assert [edge["node"]["id"] for edge in rest["edges"]] == [post_id(sent)]
    await uncircle(gateway.db, "bob", "star")
    assert await posts_in(gateway, "bob", NEWS) == [post_id(own)]


async def test_a_deleted_post_is_gone_from_every_list(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", follows={"bob": ["ann"]})
    post = await write_post(gateway.db, "ann", to="bob", now=later(1))
    await deliver(gateway.db, now=later(2))
    assert await posts_in(gateway, "bob", NEWS) == await posts_in(gateway, "bob", INCOMING) == [post_id(post)]
    await post_edits.delete_post(gateway.db, post_id=post["_id"], now=NOW, operation_id=op())
    for name in (NEWS, INCOMING, "wall of ann", "wall of bob"):
        assert await posts_in(gateway, "bob", name) == await posts_in(gateway, "ann", name) == []
    assert await visible_by_id(gateway, "ann", [post]) == []


async def test_comments_by_blocked_members_are_neither_listed_nor_counted(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    post = await write_post(gateway.db, "ann")
    for number in range(6):
        await write_comment(gateway.db, post, ("bob", "cem", "dan")[number % 3], f"Comment {number}")
    await block(gateway.db, "bob", "cem")
    await block(gateway.db, "dan", "bob")
    for viewer, count in (("bob", 2), ("cem", 4), ("dan", 4), ("ann", 6), (None, 6)):
        [seen] = await visible_by_id(gateway, viewer, [post])
        page = await page_of(gateway, viewer, "wall of ann")
        listed = await comments_of(gateway, viewer, post)
        assert seen["commentCount"] == page["edges"][0]["node"]["commentCount"] == listed["commentCount"] == count
        assert len(listed["comments"]["nodes"]) == count
        assert page["edges"][0]["node"]["latestComments"] == seen["latestComments"]
        assert [one["text"] for one in seen["latestComments"]] == [
            one["text"] for one in listed["comments"]["nodes"][-3:]
        ]


@pytest.mark.sample(2)
@pytest.mark.parametrize("count", [39, 40, 65, 130])
async def test_comments_in_pages_are_listed_in_order_without_those_of_blocked_members(
    gateway: GatewayClient, count: int
) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "ann")
    for number in range(count):
        await write_comment(gateway.db, post, ("bob", "cem")[number % 2], f"Comment {number}")
    await block(gateway.db, "ann", "cem")

    async def read(viewer: str | None, expected: int, after: str | None) -> Any:
        found = await comments_of(gateway, viewer, post, first=7, after=after)
        assert found["commentCount"] == expected
        return found["comments"]

    for viewer, step in (("ann", 2), (None, 1)):
        expected = [f"Comment {number}" for number in range(0, count, step)]
        found = await nodes_of(partial(read, viewer, len(expected)))
        assert [comment["text"] for comment in found] == expected
        assert await latest_of(gateway, viewer, post, 10) == expected[-10:]


async def latest_of(gateway: GatewayClient, viewer: str | None, post: Any, last: int) -> list[str]:
    query = "query ($id: ID!, $last: Int!) { node(id: $id) { ... on Post { latestComments(last: $last) { text } } } }"
    data = await gateway.data(query, {"id": post_id(post), "last": last}, **as_member(gateway, viewer))
    wall = await page_of(gateway, viewer, "wall of ann", f"latestComments(last: {last}) {{ text }}")
    assert data["node"]["latestComments"] == wall["edges"][0]["node"]["latestComments"]
    return [comment["text"] for comment in data["node"]["latestComments"]]


async def test_a_cursor_stays_valid_while_comments_move_to_pages_and_are_deleted(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann")
    post = await write_post(gateway.db, "ann")
    ids = [await write_comment(gateway.db, post, "ann", f"Comment {number}") for number in range(39)]
    found = await comments_of(gateway, "ann", post, first=10)
    after = found["comments"]["pageInfo"]["endCursor"]
    for number in range(39, 50):
        await write_comment(gateway.db, post, "ann", f"Comment {number}")
    for number in (9, 10, 30):
        await post_comments.delete_comment(gateway.db, post_id=post["_id"], comment_id=ids[number], operation_id=op())
    found = await comments_of(gateway, "ann", post, first=100, after=after)
    texts = [comment["text"] for comment in found["comments"]["nodes"]]
    assert texts == [f"Comment {number}" for number in range(11, 50) if number != 30]
    assert found["commentCount"] == 47


async def test_a_month_starts_a_list_in_the_middle(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", follows={"bob": ["ann"]})
    posts = {
        f"2026{month:02}": await write_post(gateway.db, "ann", now=later(1), posted=NOW.replace(month=month, day=1))
        for month in (2, 3, 5)
    }
    await deliver(gateway.db, now=later(2))
    for name in (NEWS, "wall of ann"):
        page = await page_of(gateway, "bob", name)
        assert [edge["month"] for edge in page["edges"]] == ["202605", "202603", "202602"]
        for month, count in (("202606", 3), ("202605", 3), ("202604", 2), ("202603", 2), ("202601", 0), ("999912", 3)):
            found = await posts_in(gateway, "bob", name, month=month)
            assert found == [post_id(posts[one]) for one in ("202605", "202603", "202602")][3 - count :]


@pytest.mark.parametrize("month", ["", "2026", "202613", "202600", "000001", "٢٠٢٦٠٥", "202605\n", "-20260", "$gt"])
async def test_a_malformed_month_is_refused(gateway: GatewayClient, month: str) -> None:
    await join(gateway.db, "ann")
    query = "query ($month: String) { viewer { newsFeed(month: $month) { nodes { id } } } }"
    answer = await gateway.ask(query, {"month": month}, **as_member(gateway, "ann"))
    assert answer.codes == ["BAD_USER_INPUT"]


async def test_a_cursor_of_another_list_is_refused(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", follows={"bob": ["ann"]})
    await write_post(gateway.db, "ann", now=later(1))
    await deliver(gateway.db, now=later(2))
    cursor = (await page_of(gateway, "bob", "wall of ann"))["edges"][0]["cursor"]
    query = "query ($after: String) { viewer { newsFeed(after: $after) { nodes { id } } } }"
    for after in (cursor, "x", ""):
        answer = await gateway.ask(query, {"after": after}, **as_member(gateway, "bob"))
        assert answer.codes == ["BAD_USER_INPUT"]


@pytest.mark.parametrize(
    "key",
    [
        (None, None, None),
        ("0", 1, 2),
        (-1, NOW, ObjectId()),
        (2**62, NOW, ObjectId()),
        (0, "$gt", True),
        (True, NOW, 1),
    ],
)
async def test_a_forged_cursor_of_comments_causes_no_fault(gateway: GatewayClient, key: Any) -> None:
    await join(gateway.db, "ann")
    post = await write_post(gateway.db, "ann")
    for number in range(45):
        await write_comment(gateway.db, post, "ann", f"Comment {number}")
    after = gateway.cursor(comment_reads.comments_of(post["_id"]), key)
    found = await comments_of(gateway, "ann", post, after=after)
    assert {comment["text"] for comment in found["comments"]["nodes"]} <= {f"Comment {n}" for n in range(45)}


@pytest.mark.parametrize("key", [(None, None), ("$gt", 1), (True, NOW), (NOW, "x"), (1.5, ObjectId())])
async def test_a_forged_cursor_of_posts_causes_no_fault(gateway: GatewayClient, key: Any) -> None:
    await join(gateway.db, "ann")
    hidden = await write_post(gateway.db, "ann", audience="CIRCLES")
    for name, listed in ((NEWS, "news feed"), ("wall of ann", "wall")):
        after = gateway.cursor(PostList(listed, "bob" if name == NEWS else "ann").listing(), key)
        assert post_id(hidden) not in await posts_in(gateway, "bob", name, after=after)


async def test_hostile_texts_are_shown_as_they_are(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    text = "<script>alert(1)</script> $where {$gt: 1} 👩‍👩‍👧‍👦 " + "x" * 99_000
    await write_post(gateway.db, "ann", text)
    [edge] = (await page_of(gateway, "bob", "wall of ann", "... on StatusPost { text }"))["edges"]
    assert edge["node"]["text"] == text


async def test_a_poll_shows_its_votes_and_that_of_the_viewer(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    poll = await write_post(gateway.db, "ann", kind="poll", detail={"text": "Tea?", "options": ["yes", "no"]})
    for voter, option in (("ann", 0), ("bob", 1), ("cem", 1)):
        await votes.vote(gateway.db, post_id=poll["_id"], voter=voter, option=option, now=NOW, operation_id=op())
    selection = "... on PollPost { text options { text votes } viewerVote }"
    for viewer, vote in (("ann", 0), ("cem", 1), ("nobody", None), (None, None)):
        [edge] = (await page_of(gateway, viewer, "wall of ann", selection))["edges"]
        counts = [{"text": "yes", "votes": 1}, {"text": "no", "votes": 2}]
        assert edge["node"] == {"text": "Tea?", "options": counts, "viewerVote": vote}


async def test_walls_of_many_members_take_one_command(gateway: GatewayClient) -> None:
    names = [f"member{number}" for number in range(12)]
    await join(gateway.db, "ann", *names)
    for name in names:
        await circle(gateway.db, name, "ann")
        await write_post(gateway.db, name, f"By {name}")
    gateway.commands.clear()
    query = """
    query ($id: ID!) { user(id: $id) { followers { nodes { wall { nodes { by { userId } } } } } } }
    """
    data = await gateway.data(query, {"id": user_id("ann")}, **as_member(gateway, "ann"))
    found = [node["wall"]["nodes"] for node in data["user"]["followers"]["nodes"]]
    assert found == [[{"by": {"userId": name}}] for name in sorted(names)]
    assert gateway.commands.names().count("aggregate social.posts") == 1


async def test_the_photo_of_a_post_obeys_the_rule_of_photos(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann")
    await gateway.db["social.posts"].insert_one({**await photo_post(gateway), "type": "photo"})
    [edge] = (await page_of(gateway, "ann", "wall of ann", "... on PhotoPost { photo { id } }"))["edges"]
    assert edge["node"] == {"photo": None}


async def photo_post(gateway: GatewayClient) -> dict[str, Any]:
    post = await write_post(gateway.db, "ann")
    await gateway.db["social.posts"].delete_one({"_id": post["_id"]})
    return {**post, "detail": {"text": "", "photo": post["_id"]}, "by": who("ann")}


async def test_a_repeated_call_shows_a_post_as_the_caller_sees_it_now(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "ann")
    await write_comment(gateway.db, post, "cem")
    query = """
    mutation ($input: CommentOnPostInput!) {
      commentOnPost(input: $input) {
        __typename
        ... on PostPayload { post { commentCount latestComments { by { userId } } } }
      }
    }
    """
    variables = {"input": {"postId": post_id(post), "text": "Right on!", "idempotencyKey": "one"}}

    async def call() -> Any:
        return (await gateway.data(query, variables, **as_member(gateway, "bob")))["commentOnPost"]

    assert (await call())["post"]["commentCount"] == 2
    await block(gateway.db, "cem", "bob")
    assert (await call())["post"] == {"commentCount": 1, "latestComments": [{"by": {"userId": "bob"}}]}
    await block(gateway.db, "ann", "bob")
    assert (await call())["__typename"] == "NotFound"


async def test_the_rule_of_posts_depends_on_the_subject_so_that_subscribers_share_nothing_else(
    gateway: GatewayClient,
) -> None:
    await join(gateway.db, "ann", "bob")
    post = await write_post(gateway.db, "ann", audience="CIRCLES")
    session = Session(gateway.state, f"Bearer {gateway.token('bob', [])}", {})
    caller = WatchedCaller("bob", frozenset())
    context = replace(await session.context(), caller=caller)
    assert await visible_of(context, POST, {1: post}) == {}
    assert caller.facts == {"subject": "bob"}


@pytest.mark.parametrize("key", [(0, "soon", ObjectId()), (0, 1, ObjectId()), (0, NOW, "last"), (0, NOW, None)])
async def test_a_forged_cursor_of_comments_starts_from_the_beginning(gateway: GatewayClient, key: tuple[Any]) -> None:
    await join(gateway.db, "max")
    post = await write_post(gateway.db, "max")
    # The comment has the time of the cursor, so their ids are compared.
    await write_comment(gateway.db, post, "max", "Hi")
    after = gateway.cursor(comment_reads.comments_of(post["_id"]), key)

    page = await comments_of(gateway, "max", post, after=after)

    assert [comment["text"] for comment in page["comments"]["nodes"]] == ["Hi"]
