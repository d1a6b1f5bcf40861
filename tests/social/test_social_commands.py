"""The commands of the social network: `budgets.json` lists them. Each uses an index, and writes go to one shard."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest

from portico.resolvers.social import post_jobs, renames
from tests.social.kit import KIT
from tests.social.support.post_reads import post_id
from tests.social.support.posts import add_followers, call, deliver, later, new_post, write_comment, write_post
from tests.social.support.social import circle, join, user_id
from tests.support.harness import GatewayClient, SettableClock
from tests.support.routing import unroutable
from tests.support.sending import assert_indexed

BUDGETS = KIT.budgets
_POSTS = """
    nodes {
      by { name } posted audience commentCount latestComments { by { name } text } ... on StatusPost { text }
    }
    pageInfo { hasNextPage endCursor }
"""
READS = {
    "a member": "query ($user: ID!) { user(id: $user) { name profile { location } } }",
    "a member with followers": "query ($user: ID!) { user(id: $user) { followers { nodes { name } } } }",
    "a page of members with all that the viewer knows of them": """
        query ($user: ID!) {
          user(id: $user) { followers { nodes { name viewerFollows viewerHasBlocked followerCount } } }
        }
    """,
    "one's own circles with their members": "{ viewer { user { name circles { name members { nodes { name } } } } } }",
    "a page of a news feed": f"{{ viewer {{ newsFeed {{ {_POSTS} }} }} }}",
    "a page of incoming posts": f"{{ viewer {{ incoming {{ {_POSTS} }} }} }}",
    "a page of a wall": f"query ($user: ID!) {{ user(id: $user) {{ wall {{ {_POSTS} }} }} }}",
    "a page of one's own wall": f"{{ viewer {{ user {{ wall {{ {_POSTS} }} }} }} }}",
    "the walls of all followers": """
        query ($user: ID!) { user(id: $user) { followers { nodes { wall(first: 3) { nodes { id } } } } } }
    """,
    "a page of the directory of members": "{ users { nodes { name } } }",
    "members by a part of their names": '{ usersByName(text: "b") { name profile { location } } }',
    "a page of all public posts": f"{{ publicPosts {{ {_POSTS} }} }}",
    "a news feed with the authors as members": "{ viewer { newsFeed { nodes { by { user { name } } } } } }",
    "a news feed with polls": """
        { viewer { newsFeed { nodes { ... on PollPost { options { text votes } viewerVote } } } } }
    """,
    "a news feed with pages of comments": """
        { viewer { newsFeed { nodes { comments(first: 10) { nodes { by { name } text } } } } } }
    """,
    "a post": "query ($post: ID!) { node(id: $post) { ... on StatusPost { text commentCount } } }",
}


@pytest.fixture
async def network(gateway: GatewayClient) -> tuple[GatewayClient, dict[str, str]]:
    """A gateway whose caller is ann, and the ids of a member, of a post, of a poll, and of a comment."""
    await join(gateway.db, "ann", "bob", "cem")
    for one, other in (("ann", "bob"), ("bob", "ann"), ("cem", "ann"), ("cem", "bob")):
        await circle(gateway.db, one, other)
    for number in range(30):
        post = await write_post(
            gateway.db, "bob", f"Post {number}", to="ann" if number % 2 else None, now=later(number - 60)
        )
        await write_comment(gateway.db, post, "cem")
    poll = await new_post(gateway, "bob", detail={"poll": {"text": "?", "options": ["Yes", "No"]}})
    mine = await new_post(gateway, "ann", "By Ann")
    gone = await new_post(gateway, "ann", "Gone")
    said = await call(gateway, "ann", "commentOnPost", postId=mine["id"], text="A comment")
    await deliver(gateway.db, now=later(60))
    ids = {"user": user_id("bob"), "post": post_id(post), "poll": poll["id"], "mine": mine["id"], "gone": gone["id"]}
    return gateway.as_caller("ann"), {**ids, "comment": said["post"]["latestComments"][0]["id"]}


async def _sent(gateway: GatewayClient, text: str, variables: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Returns the names of the commands, and the data of the answer."""
    gateway.commands.clear()
    data = await gateway.data(text, variables)
    return sorted(gateway.commands.names()), data


async def test_every_read_of_the_social_network_sends_the_commands_of_its_budget(
    network: tuple[GatewayClient, dict[str, str]],
) -> None:
    gateway, ids = network
    for name, text in READS.items():
        variables = {key: value for key, value in ids.items() if f"${key}:" in text}
        commands, _ = await _sent(gateway, text, variables)
        assert commands == BUDGETS[name], name


# The list in the text of a read, and the same from its end.
FROM_THE_END = {
    "a page of a news feed": ("newsFeed {", "newsFeed(last: 20) {"),
    "a page of incoming posts": ("incoming {", "incoming(last: 20) {"),
    "a page of a wall": ("wall {", "wall(last: 20) {"),
    "a page of one's own wall": ("wall {", "wall(last: 20) {"),
    "the walls of all followers": ("wall(first: 3)", "wall(last: 3)"),
    "a page of all public posts": ("publicPosts {", "publicPosts(last: 20) {"),
    "a news feed with pages of comments": ("comments(first: 10)", "comments(last: 10)"),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FROM_THE_END)
async def test_a_page_from_the_end_sends_the_commands_of_the_first_page(
    network: tuple[GatewayClient, dict[str, str]], name: str
) -> None:
    gateway, ids = network
    text = READS[name].replace(*FROM_THE_END[name])
    variables = {key: value for key, value in ids.items() if f"${key}:" in text}

    commands, _ = await _sent(gateway, text, variables)

    assert text != READS[name]
    assert commands == BUDGETS[name]


async def test_every_mutation_of_the_social_network_sends_the_commands_of_its_budget(
    network: tuple[GatewayClient, dict[str, str]],
) -> None:
    gateway, ids = network
    status = {"detail": {"status": {"text": "Hello"}}}
    comment = {"postId": ids["post"], "text": "Hello"}
    cem = user_id("cem")
    writes: dict[str, tuple[str, str, dict[str, Any]]] = {
        "change one's profile": ("updateProfile", "UpdateProfile", {"profile": {"location": "Porto"}}),
        "put a member into a circle": ("addToCircle", "Circle", {"userId": cem, "circle": "friends"}),
        "take a member out of a circle": ("removeFromCircle", "Circle", {"userId": cem, "circle": "friends"}),
        "post": ("createPost", "CreatePost", status),
        "post by a key": ("createPost", "CreatePost", {**status, "idempotencyKey": "post"}),
        "post on another's wall": ("createPost", "CreatePost", {**status, "toId": ids["user"]}),
        "comment on a post": ("commentOnPost", "CommentOnPost", comment),
        "comment on a post by a key": ("commentOnPost", "CommentOnPost", {**comment, "idempotencyKey": "comment"}),
        "vote": ("vote", "Vote", {"postId": ids["poll"], "option": 1}),
        "delete a comment of a post": (
            "deletePostComment",
            "DeletePostComment",
            {"postId": ids["mine"], "commentId": ids["comment"]},
        ),
        "delete a post": ("deletePost", "DeletePost", {"postId": ids["gone"]}),
        "block a member": ("block", "Block", {"userId": cem}),
        "unblock a member": ("unblock", "Block", {"userId": cem}),
    }
    for name, (mutation, kind, given) in writes.items():
        text = f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename }} }}"
        commands, data = await _sent(gateway, text, {"input": given})
        assert data[mutation]["__typename"].endswith("Payload"), name
        assert commands == BUDGETS[name], name


POLL = {"poll": {"text": "?", "options": ["Yes", "No"]}}
# The reads of jobs, which look for work on all shards.
OF_ALL_SHARDS = {
    "find social.posts _id by.id fan_out.due",
    "find social.posts remove_at",
    "find social.posts removing",
    "find social.members $or",
    # A name can be in any post and page.
    "find social.posts by.id by.name deleted",
    "find social.posts deleted to.id to.name",
    "find social.posts comments comments.by.id",
    "find social.comment_pages comments comments.by.id",
    "find social.news post",
}
# The shard key begins with `of`, so these go to the shards with the relations of one member.
OF_A_MEMBER = {
    "aggregate social.relations circles of",
    "aggregate social.relations follower of",
    "find social.relations follower of",
    "find social.relations follower_before of",
}


@pytest.fixture
async def members(gateway: GatewayClient) -> GatewayClient:
    """A gateway with members, some posts with comments in pages, and entries."""
    await join(gateway.db, "max", "dwight")
    await circle(gateway.db, "max", "dwight", name="work")
    await add_followers(gateway.db, "max", [f"f{number:03}" for number in range(200)])
    now = gateway.state.clock.now()
    for number in range(30):
        post = await write_post(gateway.db, "max", str(number), now=now)
    for number in range(45):
        await write_comment(gateway.db, post, "dwight", str(number), now=now)
    gateway.commands.clear()
    return gateway


async def assert_cheap(gateway: GatewayClient) -> list[str]:
    """Asserts that the recorded commands use indexes, and go to one shard or are known. Returns their names."""
    sent, names = list(gateway.commands.sent), gateway.commands.names()
    assert set(unroutable(sent)) <= OF_ALL_SHARDS | OF_A_MEMBER
    await assert_indexed(gateway, sent)
    gateway.commands.clear()
    return names


async def test_mutations_of_posts_use_indexes_and_go_to_one_shard(members: GatewayClient) -> None:
    given: dict[str, dict[str, Any]] = {
        "createPost": {"detail": POLL, "audience": "SELECTED", "circles": ["work"], "idempotencyKey": "one"},
        "commentOnPost": {"text": "x", "idempotencyKey": "two"},
        "vote": {"option": 1, "idempotencyKey": "three"},
        "deletePost": {"idempotencyKey": "four"},
    }
    post = await new_post(members, "max", detail=POLL)
    members.commands.clear()
    for mutation, fields in given.items():
        for _ in range(2):
            own = {} if mutation == "createPost" else {"postId": post["id"]}
            await call(members, "max", mutation, **own, **fields)

            assert await assert_cheap(members), mutation


async def test_a_public_post_takes_the_insert_and_few_reads(members: GatewayClient) -> None:
    await call(members, "max", "createPost", detail={"status": {"text": "x"}})

    # The reads and the count go out together.
    assert sorted(await assert_cheap(members)) == [
        "find social.members",
        "find social.relations",
        "insert social.posts",
        "update social.rates",
    ]


async def test_a_member_who_votes_again_is_not_read_again_for_a_minute(
    members: GatewayClient, clock: SettableClock
) -> None:
    post = await new_post(members, "max", detail=POLL)
    members.commands.clear()
    clock.stop()
    read = []
    for option, seconds in ((0, 0), (1, 59), (0, 1)):
        clock.advance(seconds=seconds)
        await call(members, "max", "vote", postId=post["id"], option=option)
        read.append((await assert_cheap(members)).count("find social.members"))

    assert read == [1, 0, 1]


async def test_a_stranger_who_has_been_refused_can_vote_after_joining(members: GatewayClient) -> None:
    post = await new_post(members, "max", detail=POLL)
    refused = await call(members, "stranger", "vote", postId=post["id"], option=0)
    await join(members.db, "stranger")

    voted = await call(members, "stranger", "vote", postId=post["id"], option=0)

    assert (refused["__typename"], voted["__typename"]) == ("NotFound", "PostPayload")


async def test_a_delivery_counts_no_followers_whom_it_has_read(members: GatewayClient, clock: SettableClock) -> None:
    now = clock.now() + timedelta(seconds=1)
    await deliver(members.db, now=now)
    await assert_cheap(members)
    await write_post(members.db, "max", now=now)
    members.commands.clear()

    assert await deliver(members.db, now=now) == 1

    names = await assert_cheap(members)
    assert "aggregate social.relations" not in names
    assert (names.count("find social.relations"), names.count("find social.members")) == (2, 1)


async def test_jobs_of_posts_use_indexes_and_write_to_one_shard(members: GatewayClient, clock: SettableClock) -> None:
    db, now = members.db, clock.now() + timedelta(seconds=1)
    await deliver(db, now=now, max_fan_out=10_000)
    await assert_cheap(members)
    (latest,) = await db["social.posts"].find({"comment_count": 45}).to_list()
    await write_post(db, "max", now=now)
    await deliver(db, now=now, max_fan_out=100)
    members.commands.clear()
    await db["social.members"].update_one({"_id": "dwight"}, {"$set": {"name": "D", "renamed": {"op": "x", "at": now}}})
    await db["social.posts"].update_one({"_id": latest["_id"]}, {"$set": {"deleted": now, "remove_at": now}})
    members.commands.clear()

    await renames.copy_names(db, now=now)
    await assert_cheap(members)
    await post_jobs.finish_posts(db, now=now)
    await assert_cheap(members)
    await post_jobs.finish_posts(db, now=now + timedelta(days=2))
    await assert_cheap(members)
