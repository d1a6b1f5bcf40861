"""What a block hides from the owner of a wall or a post can be listed and deleted. Pages of what is hidden are full."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.social import post_edits, post_lists, walks
from tests.social.support.post_reads import as_member, comments_of, page_of, post_id, posts_in
from tests.social.support.posts import call, codes, deliver, later, op, write_comment, write_comments, write_post
from tests.social.support.social import block, block_each_other, circle, join, unblock, user_id
from tests.support.fixtures import gateway_with
from tests.support.harness import GatewayClient
from tests.support.paging import nodes_of

POSTS = """
query ($first: Int, $after: String) {
  viewer { hiddenPosts(first: $first, after: $after) {
    nodes { postId posted text url place options photo { id } by { userId name user { name } } }
    edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  } }
}
"""
COMMENTS = """
query ($ids: [ID!]!, $first: Int, $after: String) {
  nodes(ids: $ids) { ... on Post { hiddenComments(first: $first, after: $after) {
    nodes { commentId text by { userId name user { name } } }
    edges { cursor } pageInfo { hasNextPage hasPreviousPage startCursor endCursor }
  } } }
}
"""

# The member who has blocked the other.
BLOCKS: dict[str, Callable[[Database], Awaitable[None]]] = {
    "the author": lambda db: block(db, "bob", "ann"),
    "the owner": lambda db: block(db, "ann", "bob"),
    "both, first the author": lambda db: block_each_other(db, "bob", "ann"),
    "both, first the owner": lambda db: block_each_other(db, "ann", "bob"),
}


async def hidden_posts(gateway: GatewayClient, viewer: str, **variables: Any) -> Any:
    return (await gateway.data(POSTS, variables, **as_member(gateway, viewer)))["viewer"]["hiddenPosts"]


async def hidden_comments(gateway: GatewayClient, viewer: str | None, *posts: Any, **variables: Any) -> list[Any]:
    given = {"ids": [post_id(post) for post in posts], **variables}
    nodes = (await gateway.data(COMMENTS, given, **as_member(gateway, viewer)))["nodes"]
    return [node and node["hiddenComments"] for node in nodes]


@pytest.mark.parametrize("blocks", BLOCKS)
async def test_the_owner_of_a_wall_lists_and_deletes_a_hidden_post(gateway: GatewayClient, blocks: str) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "bob", "You cannot delete this!", to="ann")
    await write_post(gateway.db, "cem", "Hello", to="ann")
    assert (await hidden_posts(gateway, "ann"))["nodes"] == []
    await BLOCKS[blocks](gateway.db)

    page = await hidden_posts(gateway, "ann")

    is_named = blocks == "the owner"
    by = {"userId": "bob", "name": "Bob", "user": {"name": "Bob"}} if is_named else None
    [row] = page["nodes"]
    assert (row["postId"], row["text"], row["by"]) == (post_id(post), "You cannot delete this!", by)
    assert page["pageInfo"]["hasNextPage"] is False
    assert post_id(post) in await posts_in(gateway, "cem", "wall of ann")
    deleted = await call(gateway, "ann", "deletePost", postId=row["postId"])
    assert deleted["__typename"] == "DeletedPayload"
    assert (await hidden_posts(gateway, "ann"))["nodes"] == []
    assert post_id(post) not in await posts_in(gateway, "cem", "wall of ann")


@pytest.mark.parametrize("deleted", [0, 1, 2])
async def test_a_hidden_post_that_is_deleted_during_a_read_does_not_end_the_list(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, deleted: int
) -> None:
    await join(gateway.db, "ann", "bob")
    posts = [await write_post(gateway.db, "bob", to="ann", now=later(number)) for number in range(5)]
    newest = [post_id(post) for post in reversed(posts)]
    await block(gateway.db, "ann", "bob")
    find_by_ids = walks.find_by_ids

    async def delete_before(db: Database, ids: Sequence[Any], shown: Document | None) -> dict[Any, Document]:
        monkeypatch.setattr(walks, "find_by_ids", find_by_ids)
        await call(gateway, "ann", "deletePost", postId=newest[deleted])
        return await find_by_ids(db, ids, shown)

    monkeypatch.setattr(walks, "find_by_ids", delete_before)
    found = [row["postId"] for row in await nodes_of(lambda after: hidden_posts(gateway, "ann", first=2, after=after))]

    assert [one for one in newest if one != newest[deleted]] == [one for one in found if one != newest[deleted]]
    assert len(found) == len(set(found))


async def test_hidden_posts_show_what_each_kind_has(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("link", {"text": "", "url": "https://example.org/"}),
        ("checkin", {"text": "Here", "place": "Lisbon", "latitude": 1.0, "longitude": 2.0}),
        ("poll", {"text": "Tea?", "options": ["yes", "no"]}),
    ]
    for number, (kind, detail) in enumerate(kinds):
        await write_post(gateway.db, "bob", kind=kind, detail=detail, to="ann", now=later(number))
    await block(gateway.db, "bob", "ann")

    rows = (await hidden_posts(gateway, "ann"))["nodes"]

    assert [[row["text"], row["url"], row["place"], row["options"]] for row in rows] == [
        ["Tea?", None, None, ["yes", "no"]],
        ["Here", None, "Lisbon", None],
        ["", "https://example.org/", None, None],
    ]


async def test_hidden_posts_come_in_pages(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    posts = []
    for number in range(9):
        # Some were posted at the same time.
        author = ("bob", "cem", "dan")[number % 3]
        posts.append(await write_post(gateway.db, author, str(number), to="ann", now=later(number // 2)))
    await block(gateway.db, "bob", "ann")
    await block(gateway.db, "ann", "cem")
    hidden = [post for post in posts if post["by"]["id"] != "dan"]
    wanted = [
        post["detail"]["text"] for post in sorted(hidden, key=lambda one: (one["posted"], one["_id"]), reverse=True)
    ]

    async def read(first: int, after: str | None) -> Any:
        page = await hidden_posts(gateway, "ann", first=first, after=after)
        assert page["pageInfo"]["hasPreviousPage"] is (after is not None)
        assert page["edges"][-1]["cursor"] == page["pageInfo"]["endCursor"]
        return page

    for first in (1, 2, 5, 6, 7):
        assert [row["text"] for row in await nodes_of(partial(read, first))] == wanted


async def test_only_the_wall_of_the_viewer_has_hidden_posts(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob")
    await write_post(gateway.db, "bob", to="ann")
    await write_post(gateway.db, "bob")
    await block(gateway.db, "bob", "ann")
    gateway.commands.clear()

    for viewer in ("bob", "guest"):
        assert (await hidden_posts(gateway, viewer))["nodes"] == []
    assert len((await hidden_posts(gateway, "ann"))["nodes"]) == 1
    await unblock(gateway.db, "bob", "ann")
    assert (await hidden_posts(gateway, "ann"))["nodes"] == []


@pytest.mark.sample(3)
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize("others", [0, 45])
async def test_the_author_of_a_post_lists_and_deletes_a_hidden_comment(
    gateway: GatewayClient, blocks: str, others: int
) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "ann")
    await write_comment(gateway.db, post, "bob", "You cannot delete this!")
    await write_comments(gateway.db, post, "cem", others)
    await BLOCKS[blocks](gateway.db)

    [page] = await hidden_comments(gateway, "ann", post)

    is_named = blocks == "the owner"
    by = {"userId": "bob", "name": "Bob", "user": {"name": "Bob"}} if is_named else None
    [row] = page["nodes"]
    assert (row["text"], row["by"]) == ("You cannot delete this!", by)
    assert (await comments_of(gateway, "cem", post))["commentCount"] == others + 1
    given = {"postId": post_id(post), "commentId": row["commentId"]}
    assert (await call(gateway, "ann", "deletePostComment", **given))["__typename"] == "PostPayload"
    [page] = await hidden_comments(gateway, "ann", post)
    assert page["nodes"] == []
    assert (await comments_of(gateway, "cem", post))["commentCount"] == others


async def test_hidden_comments_come_in_pages(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", "dan")
    long = await write_post(gateway.db, "ann")
    short = await write_post(gateway.db, "ann")
    wanted: list[str] = []
    for number in range(130):
        author = "cem" if 40 <= number < 100 else ("bob", "cem", "dan")[number % 3]
        await write_comment(gateway.db, long, author, str(number))
        wanted += [] if author == "cem" else [str(number)]
    await write_comment(gateway.db, short, "dan", "short")
    await block(gateway.db, "bob", "ann")
    await block(gateway.db, "ann", "dan")

    async def read(first: int, after: str | None) -> Any:
        [page] = await hidden_comments(gateway, "ann", long, first=first, after=after)
        return page

    for first in (1, 7, 23, 30):
        assert [row["text"] for row in await nodes_of(partial(read, first))] == wanted
    both = await hidden_comments(gateway, "ann", long, short, first=2)
    assert [[row["text"] for row in page["nodes"]] for page in both] == [wanted[:2], ["short"]]


async def test_hidden_comments_take_few_commands(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    posts = [await write_post(gateway.db, "ann") for _ in range(3)]
    for post in posts:
        for number in range(150):
            await write_comment(gateway.db, post, "bob" if number == 70 else "cem", str(number))
    await block(gateway.db, "bob", "ann")
    gateway.commands.clear()

    pages = await hidden_comments(gateway, "ann", *posts)

    assert [[row["text"] for row in page["nodes"]] for page in pages] == [["70"]] * 3
    reads = gateway.commands.names()
    assert sum(name == "find social.comment_pages" for name in reads) == 2
    # The posts by id and their relations; then the posts with their comments, the blocks, and the names.
    assert len(reads) <= 7, reads


async def test_only_the_author_of_a_post_sees_hidden_comments(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem")
    post = await write_post(gateway.db, "ann", to="cem")
    await write_comment(gateway.db, post, "bob")
    await block(gateway.db, "bob", "ann")
    await block(gateway.db, "bob", "cem")

    assert [page and len(page["nodes"]) for page in await hidden_comments(gateway, "ann", post)] == [1]
    for viewer in ("cem", "guest", None):
        [page] = await hidden_comments(gateway, viewer, post)
        nothing = {"hasNextPage": False, "hasPreviousPage": False, "startCursor": None, "endCursor": None}
        assert page == {"nodes": [], "edges": [], "pageInfo": nothing}
    # An editor of the site deletes it by its id, and nobody else does.
    comment = (await hidden_comments(gateway, "ann", post))[0]["nodes"][0]["commentId"]
    assert await codes(gateway, "cem", "deletePostComment", postId=post_id(post), commentId=comment) == []


@pytest.mark.parametrize("name", ["wall of ann", "incoming"])
async def test_other_lists_still_leave_hidden_posts_out(gateway: GatewayClient, name: str) -> None:
    await join(gateway.db, "ann", "bob")
    await write_post(gateway.db, "bob", to="ann")
    await block(gateway.db, "bob", "ann")

    assert (await page_of(gateway, "ann", name))["edges"] == []


NEWS = "newsFeed"


async def test_a_full_page_is_shown_whatever_is_hidden_before_it(gateway: GatewayClient) -> None:
    await join(gateway.db, "ann", "bob", "cem", follows={"bob": ["ann"]})
    await circle(gateway.db, "ann", "cem", name="others")
    shown = [await write_post(gateway.db, "ann", now=later(number)) for number in range(3)]
    for number in range(100):
        await write_post(gateway.db, "ann", audience="SELECTED", circle_names=["others"], now=later(10 + number))
    await deliver(gateway.db, now=later(999))
    # They were sent, as if bob had been in the circle then.
    hidden = await gateway.db["social.posts"].find({"audience": "SELECTED"}).to_list()
    await gateway.db["social.news"].insert_many(
        [
            {"_id": {"post": p["_id"], "of": "bob"}, "of": "bob", "posted": p["posted"], "post": p["_id"], "by": "ann"}
            for p in hidden
        ]
    )
    for name in (NEWS, "wall of ann"):
        gateway.commands.clear()
        page = await page_of(gateway, "bob", name, "id", first=2)
        assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(post) for post in reversed(shown)][:2]
        assert page["pageInfo"]["hasNextPage"]
        # In each of two rounds, a news feed reads one's own posts, too.
        assert len([sent for sent in gateway.commands.names() if sent == "find social.posts"]) <= {NEWS: 7}.get(name, 5)
        rest = await page_of(gateway, "bob", name, "id", first=2, after=page["pageInfo"]["endCursor"])
        assert [edge["node"]["id"] for edge in rest["edges"]] == [post_id(shown[0])]
        assert rest["pageInfo"] == {
            "hasNextPage": False,
            "hasPreviousPage": True,
            "endCursor": rest["edges"][-1]["cursor"],
        }


@pytest.mark.parametrize("name", ["wall of ann", NEWS])
async def test_a_page_behind_hidden_posts_is_full_without_a_post_that_is_deleted_meanwhile(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    # Every page searches.
    monkeypatch.setattr(post_lists, "_ROUNDS_OF_ALL", 0)
    await join(gateway.db, "ann", "bob", follows={"bob": ["ann"]})
    shown = [await write_post(gateway.db, "ann", now=later(number)) for number in range(4)]
    await deliver(gateway.db, now=later(999))
    find_by_ids = walks.find_by_ids

    async def delete_first(db: Database, ids: Sequence[Any], projection: Document | None) -> dict[Any, Document]:
        # The last read of a search asks for the whole posts.
        if projection is not None and "detail.text" in projection and shown[2]["_id"] in ids:
            with contextlib.suppress(NotFound):
                await post_edits.delete_post(db, post_id=shown[2]["_id"], now=later(9), operation_id=op())
        return await find_by_ids(db, ids, projection)

    monkeypatch.setattr(walks, "find_by_ids", delete_first)
    page = await page_of(gateway, "bob", name, "id ... on StatusPost { text }", first=2)
    assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(shown[3]), post_id(shown[1])]
    assert page["pageInfo"]["hasNextPage"]


# Four bytes a character.
LONGEST = "😀" * 100_000
# A gateway without a bound on the size of an answer.
unbounded = gateway_with(max_answer_bytes=1_000_000_000)


async def test_an_own_wall_with_the_longest_posts_of_members_not_followed_shows_the_own_post(
    unbounded: GatewayClient,
) -> None:
    await join(unbounded.db, "max", "dwight")
    own = await write_post(unbounded.db, "max", now=later(1))
    post = await write_post(unbounded.db, "dwight", LONGEST, to="max", now=later(2))
    for _ in range(13):
        await unbounded.db["social.posts"].insert_many([{**post, "_id": ObjectId()} for _ in range(30)])

    page = await page_of(unbounded, "max", "wall of max", "id ... on StatusPost { text }")

    assert [edge["node"]["id"] for edge in page["edges"]] == [post_id(own)]


async def test_the_walls_of_many_members_show_the_longest_posts(unbounded: GatewayClient) -> None:
    names = [f"m{number:02}" for number in range(15)]
    await join(unbounded.db, "max", *names)
    for name in names:
        await circle(unbounded.db, name, "max")
        post = await write_post(unbounded.db, name, LONGEST)
        await unbounded.db["social.posts"].insert_many([{**post, "_id": ObjectId()} for _ in range(19)])
    walls = """
    query ($id: ID!) {
      user(id: $id) { followers { nodes { wall { nodes { ... on StatusPost { text } } } } } }
    }
    """

    found = await unbounded.data(walls, {"id": user_id("max")})

    assert [len(one["wall"]["nodes"]) for one in found["user"]["followers"]["nodes"]] == [20] * 15
