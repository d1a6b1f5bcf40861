"""A member who has blocked the reader, and what a change hides, do not exist for the reader, by any path of the schema.

The reader asks for everything that the schema leads to. Then the ghost joins, and follows, writes, comments and is
followed wherever that is possible, and at last blocks the reader and takes another name. After that, the reader asks
again, and gets the same answers: the same rows, counts, cursors and page infos. No answer has a name, an id or a text
of the ghost. Each run asks for pages of one size, and a soak for those of every size.

In another test, fifty readers read by every path while a change is made. Each read notes whether it began after the
acknowledgement.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.domains import schema_of
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database, Document
from portico.resolvers.social import member_edits, post_comments, post_edits, renames, votes
from portico.schema.kinds import Kind
from tests.notifications.support.news import write_news
from tests.social.support.all_fields import all_fields
from tests.social.support.post_reads import as_member, post_id
from tests.social.support.posts import deliver, later, op, write_comment, write_post
from tests.social.support.social import block, circle, join, operation, unblock, uncircle, user_id
from tests.support.harness import IS_SOAK, GatewayClient, running

OTHERS = ["ann", "bob", "yan", "zoe"]
# Of the ghost, each in the middle of the order of subjects.
GHOST, NAME, NEW_NAME = "mghost", "A Ghost", "A Ghost of another name"
MARKS = ["ghost", user_id(GHOST).lower()]
# What the reader shall find, to delete it or to unblock: see `test_hidden_pages` and `test_visibility`. And votes,
# which have no voter: they count those of all members.
FOR_THE_OWNER = frozenset({"hiddenPosts", "hiddenComments"})
POLL_VOTES = frozenset({"votes"})
SIZES = (2, 100)
# The lengths of the pages behind a cursor. A run asks for one of them at each cursor, and a soak for all.
LENGTHS = (1, 3, 100)
PAGE_INFO = "pageInfo { hasNextPage hasPreviousPage startCursor endCursor }"


@pytest.fixture
async def network(settings: Settings) -> AsyncIterator[GatewayClient]:
    """The reader and others, who follow each other, and have written to each other."""
    unbounded = replace(
        settings, max_cost=10**40, max_depth=100, max_tokens=10**7, max_body_bytes=10**8, operation_seconds=600
    )
    async with running(unbounded) as gateway:
        await write_news(gateway)
        await join(gateway.db, "reader", *OTHERS)
        for one, other in itertools.permutations(["reader", *OTHERS], 2):
            await circle(gateway.db, one, other)
        for number, author in enumerate(["reader", *OTHERS]):
            await _write(gateway, author, "reader", number)
            await _write(gateway, author, "zoe", number)
        await deliver(gateway.db, now=later(200))
        await write_news(gateway)
        yield gateway


async def _write(gateway: GatewayClient, author: str, owner: str, number: int) -> None:
    post = await write_post(gateway.db, author, f"{author} to {owner}", to=owner, now=later(number))
    poll = {"text": f"{author} asks {owner}", "options": ["yes", "no"]}
    await write_post(gateway.db, author, kind="poll", detail=poll, to=owner, now=later(number))
    for commenter in ("ann", "reader", "zoe"):
        await write_comment(gateway.db, post, commenter, f"{commenter} on it", now=later(number))


async def _posts(gateway: GatewayClient) -> list[Document]:
    return await gateway.db["social.posts"].find({}).sort("_id").to_list()


async def _haunt(gateway: GatewayClient) -> None:
    db = gateway.db
    await member_edits.join(db, subject=GHOST, name=NAME, profile={"about": "A ghost"}, **operation())
    for other in ("reader", *OTHERS):
        await circle(db, GHOST, other)
        await circle(db, other, GHOST)
    for number, post in enumerate(await _posts(gateway)):
        for _ in range(1 if number else 45):
            await write_comment(db, post, GHOST, "I am the ghost")
        if post["type"] == "poll":
            await votes.vote(db, post_id=post["_id"], voter=GHOST, option=0, now=later(0), operation_id=op())
    for number, owner in enumerate([GHOST, "reader", *OTHERS]):
        for kind in ("status", "poll"):
            detail = {"text": f"The ghost to {owner}", "options": ["ghost", "no ghost"]}
            post = await write_post(db, GHOST, to=owner, kind=kind, detail=detail, now=later(number))
            await write_comment(db, post, "reader", "Who is this?")
            await write_comment(db, post, "ann", "Who is this?")
    await deliver(db, now=later(200))
    await write_news(gateway)


async def _vanish(gateway: GatewayClient) -> None:
    """Lets the ghost block the reader and take another name."""
    await block(gateway.db, GHOST, "reader")
    await member_edits.update_profile(gateway.db, subject=GHOST, name=NEW_NAME, profile={}, **operation())
    await renames.copy_name(gateway.db, GHOST, NEW_NAME)


def _selection(gateway: GatewayClient, name: str, first: int, *left_out: str) -> str:
    without = FOR_THE_OWNER | POLL_VOTES | set(left_out)
    return all_fields(schema_of(gateway.domains)._schema, name, first=first, without=without)


async def _everything(gateway: GatewayClient, first: int, ids: list[str]) -> Any:
    """Returns everything that the reader sees, from every root."""
    user, node = _selection(gateway, "User", first), _selection(gateway, "Node", first)
    users = " ".join(f'{name}: user(id: "{user_id(name)}") {user}' for name in ("zoe", GHOST))
    connection, found = _selection(gateway, "PostConnection", first), _selection(gateway, "UserConnection", first)
    roots = [
        f"{{ publicPosts(first: {first}) {connection} }}",
        f"{{ users(first: {first}) {found} }}",
        f'{{ usersByName(text: "a", first: {first}) {user} }}',
        f'{{ suggest(text: "a", first: {min(first, 20)}) {{ title match {{ text }} node {node} }} }}',
        f"{{ viewer {_selection(gateway, 'Viewer', first)} }}",
        f"{{ {users} }}",
        f"{{ nodes(ids: {json.dumps(ids)}) {node} }}",
        *(f'{{ node(id: "{one}") {node} }}' for one in ids[:1]),
    ]
    return [await gateway.data(text, **as_member(gateway, "reader")) for text in roots]


def _marks_in(answer: Any) -> list[str]:
    text = json.dumps(answer).lower()
    return [text[max(0, place - 300) : place + 50] for mark in MARKS if (place := text.find(mark)) >= 0]


async def test_every_path_is_as_if_there_were_no_ghost(network: GatewayClient) -> None:
    ids = [post_id(post) for post in await _posts(network)] + [user_id(name) for name in OTHERS]
    sizes = SIZES if IS_SOAK else [random.choice(SIZES)]
    before = [await _everything(network, first, ids) for first in sizes]
    assert all("zoe on it" in json.dumps(answers) for answers in before)

    await _haunt(network)
    assert _marks_in(await _everything(network, max(sizes), ids))
    await _vanish(network)

    for first, expected in zip(sizes, before, strict=True):
        assert await _everything(network, first, ids) == expected, first
    gone = [post_id(post) for post in await _posts(network) if post["by"]["id"] == GHOST]
    found = await network.data(
        f"{{ nodes(ids: {json.dumps([*gone, user_id(GHOST)])}) {{ id }} }}", **as_member(network, "reader")
    )
    assert found["nodes"] == [None] * 13


async def test_every_cursor_from_before_leads_to_the_rows_that_are_left(network: GatewayClient) -> None:
    """Also the cursors of rows that are hidden now."""
    await _haunt(network)
    posts = [post for post in await _posts(network) if post["by"]["id"] != GHOST]
    zoe, post = f'root: user(id: "{user_id("zoe")}")', f'root: node(id: "{post_id(posts[0])}")'
    lists = [
        f"{zoe} {{ list: followers PAGE }}",
        f"{zoe} {{ list: wall PAGE }}",
        f"{post} {{ ... on Post {{ list: comments PAGE }} }}",
        "root: viewer { list: newsFeed PAGE }",
        "root: viewer { list: incoming PAGE }",
        "root: __typename list: users PAGE",
        "root: __typename list: publicPosts PAGE",
    ]

    async def rows(text: str, first: int, after: str | None) -> Any:
        page = f"(first: {first}, after: {json.dumps(after)}) {{ nodes {{ id }} edges {{ cursor }} {PAGE_INFO} }}"
        data = await network.data(f"{{ {text.replace('PAGE', page)} }}", **as_member(network, "reader"))
        return data["list"] if "list" in data else data["root"]["list"]

    everything = {text: await rows(text, 100, None) for text in lists}
    await _vanish(network)
    for text, whole in everything.items():
        left = await rows(text, 100, None)
        visible = [row["id"] for row in left["nodes"]]
        assert len(visible) < len(whole["nodes"])
        cursors = dict(zip((edge["cursor"] for edge in left["edges"]), visible, strict=True))
        for place, edge in enumerate(whole["edges"]):
            behind = [row["id"] for row in whole["nodes"][place + 1 :] if row["id"] in visible]
            for first in LENGTHS if IS_SOAK else [random.choice(LENGTHS)]:
                page = await rows(text, first, edge["cursor"])
                assert [row["id"] for row in page["nodes"]] == behind[:first]
                assert [cursors[one["cursor"]] for one in page["edges"]] == behind[:first]
                assert page["pageInfo"]["hasNextPage"] is (len(behind) > first)


MUTATIONS = """
mutation ($zoe: ID!, $ghost: ID!, $hers: ID!, $its: ID!, $poll: ID!) {
  a: addToCircle(input: { userId: $zoe, circle: "new", idempotencyKey: "a" }) USER
  b: addToCircle(input: { userId: $ghost, circle: "new", idempotencyKey: "b" }) USER
  c: removeFromCircle(input: { userId: $ghost, circle: "new", idempotencyKey: "c" }) USER
  d: updateProfile(input: { profile: { about: "I read" }, idempotencyKey: "d" }) USER
  e: createPost(input: { toId: $zoe, detail: { status: { text: "Hi" } }, idempotencyKey: "e" }) POST
  f: createPost(input: { toId: $ghost, detail: { status: { text: "Hi" } }, idempotencyKey: "f" }) POST
  g: commentOnPost(input: { postId: $hers, text: "Hi", idempotencyKey: "g" }) POST
  h: commentOnPost(input: { postId: $its, text: "Hi", idempotencyKey: "h" }) POST
  i: vote(input: { postId: $poll, option: 1, idempotencyKey: "i" }) POST
}
"""


async def test_no_answer_to_a_mutation_names_the_ghost(network: GatewayClient) -> None:
    await _haunt(network)
    posts = await _posts(network)
    given = {
        "zoe": user_id("zoe"),
        "ghost": user_id(GHOST),
        "hers": post_id(next(post for post in posts if post["by"]["id"] == "zoe")),
        "its": post_id(next(post for post in posts if post["by"]["id"] == GHOST)),
        "poll": post_id(next(post for post in posts if post["by"]["id"] == "ann" and post["type"] == "poll")),
    }
    # With the objects of all kinds, to which these two lead, the operation would be too large. Queries select them.
    to_all = ("notifications", "subject")
    text = MUTATIONS.replace("USER", _selection(network, "UserResult", 3, *to_all))
    text = text.replace("POST", _selection(network, "PostResult", 3, *to_all))
    first = await network.data(text, given, **as_member(network, "reader"))
    assert {name: answer["__typename"] for name, answer in first.items()} == {
        **dict.fromkeys("abcd", "UserPayload"),
        **dict.fromkeys("efghi", "PostPayload"),
    }
    await _vanish(network)

    # Of a hidden member, `id` is the input of the caller, who gets it back.
    for keys in (text, text.replace('idempotencyKey: "', 'idempotencyKey: "another ')):
        again = await network.data(keys, given, **as_member(network, "reader"))
        for name in "bcfh":
            payload = again[name].pop("PostPayload_post", {})
            assert again[name]["__typename"] == ("PostPayload" if payload else "NotFound"), name
            assert (bool(payload), payload.get("Post_to")) == (name == "f" and keys is text, None)
            again[name] = payload
        assert _marks_in(again) == []


async def test_no_event_is_of_the_ghost(network: GatewayClient) -> None:
    await _haunt(network)
    await _vanish(network)
    reader = network.as_caller("reader")
    selection = _selection(network, "Post", 3)

    async with reader.subscription(f"subscription {{ newsFeedPosted {selection} }}") as events:
        await write_post(network.db, GHOST, "The ghost again", now=later(300))
        post = await write_post(network.db, "zoe", "The last one", now=later(301))
        await deliver(network.db, now=later(400))
        event = await anext(events)

    assert event["newsFeedPosted"]["Post_id"] == Kind.encode_id("Post", post["_id"])
    assert _marks_in(event) == []


READERS = 50
READS = """
query ($ann: ID!, $cem: ID!, $post: ID!, $other: ID!) {
  node(id: $post) { id }
  nodes(ids: [$post, $post]) { id }
  cem: user(id: $cem) { wall { nodes { id } } }
  ann: user(id: $ann) { wall { nodes { id } } }
  viewer { newsFeed { nodes { id } } incoming { nodes { id } } }
  other: node(id: $other) {
    ... on Post { commentCount latestComments { by { userId } } comments { nodes { by { userId } } } }
  }
}
"""
Change = Callable[[Database, Document, Document], Awaitable[None]]


async def _block(db: Database, _post: Document, _other: Document) -> None:
    await block(db, "ann", "bob")


async def _be_blocked(db: Database, _post: Document, _other: Document) -> None:
    await block(db, "bob", "ann")


async def _uncircle(db: Database, _post: Document, _other: Document) -> None:
    await uncircle(db, "ann", "bob", name="secret")


async def _delete(db: Database, post: Document, _other: Document) -> None:
    await post_edits.delete_post(db, post_id=post["_id"], now=later(9), operation_id=op())


async def _delete_comment(db: Database, _post: Document, other: Document) -> None:
    [comment] = (await db["social.posts"].find_one({"_id": other["_id"]}))["comments"]  # type: ignore[index]
    await post_comments.delete_comment(db, post_id=other["_id"], comment_id=comment["id"], operation_id=op())


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    ("change", "hides_post", "hides_comment"),
    [
        (_block, True, True),
        (_be_blocked, True, True),
        (_uncircle, True, False),
        (_delete, True, False),
        (_delete_comment, False, True),
    ],
)
async def test_nothing_leaks_after_a_change_is_acknowledged(
    gateway: GatewayClient, change: Change, hides_post: bool, hides_comment: bool
) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"bob": ["ann", "cem"]})
    await circle(gateway.db, "ann", "bob", name="secret")
    post = await write_post(gateway.db, "ann", to="cem", audience="SELECTED", circle_names=["secret"], now=later(1))
    other = await write_post(gateway.db, "cem", now=later(2))
    await write_comment(gateway.db, other, "ann")
    await deliver(gateway.db, now=later(9))
    variables = {"ann": user_id("ann"), "cem": user_id("cem"), "post": post_id(post), "other": post_id(other)}
    reading, acknowledged = asyncio.Event(), asyncio.Event()
    before: list[Any] = []
    after: list[Any] = []

    async def read() -> None:
        for _ in range(2):
            is_after = acknowledged.is_set()
            data = await gateway.data(READS, variables, **as_member(gateway, "bob"))
            (after if is_after else before).append(data)
            if len(before) == READERS // 2:
                reading.set()
        await acknowledged.wait()
        after.append(await gateway.data(READS, variables, **as_member(gateway, "bob")))

    async def make() -> None:
        await reading.wait()
        await change(gateway.db, post, other)
        acknowledged.set()

    await asyncio.gather(make(), *(read() for _ in range(READERS)))
    shown = post_id(post)
    assert shown in str(before[0])
    assert len(after) >= READERS
    for data in after:
        comments = data.pop("other")
        assert (shown in str(data)) is not hides_post
        assert comments == _comments(0 if hides_comment else 1)


def _comments(count: int) -> dict[str, Any]:
    rows = [{"by": {"userId": "ann"}}] * count
    return {"commentCount": count, "latestComments": rows, "comments": {"nodes": rows}}


WALL = "query ($id: ID!) @live { user(id: $id) { name wall(first: 5) { nodes { id } } } }"


async def rows(answers: AsyncGenerator[Any, None]) -> int | None:
    """Returns how many posts the next answer shows; None if it does not show the member."""
    user = (await anext(answers))["user"]
    return None if user is None else len(user["wall"]["nodes"])


async def test_a_live_query_follows_circles_and_blocks(gateway: GatewayClient) -> None:
    await join(gateway.db, "mara", "bo", follows={"mara": ["bo"]})
    bo = gateway.as_caller("bo")
    async with bo.subscription(WALL, {"id": user_id("mara")}) as answers:
        assert await rows(answers) == 0
        await write_post(gateway.db, "mara", audience="SELECTED", circle_names=["friends"])
        assert await rows(answers) == 1
        await uncircle(gateway.db, "mara", "bo")
        assert await rows(answers) == 0
        await circle(gateway.db, "mara", "bo")
        assert await rows(answers) == 1
        await block(gateway.db, "mara", "bo")
        assert await rows(answers) is None
        await unblock(gateway.db, "mara", "bo")
        # The block has left bo in the circle.
        assert await rows(answers) == 1
