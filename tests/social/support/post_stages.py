"""Posts of a member with followers, and the writes to them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from bson import ObjectId

from portico.schema.kinds import Kind
from portico.testing.kits import Given
from portico.testing.stages import Case, Stage
from tests.social.support.posts import SELECTED, add_followers, comments_of, feeds_with, write_comment, write_post
from tests.social.support.social import join

AUTHOR = "max"
FOLLOWERS = ["dwight", "jared"]
# For each post by its text: the texts of its comments, its votes by option, and the news feeds that have it.
State = dict[str, tuple[list[str], list[int], list[str]]]
_Change = Callable[[State], State]


def _on(post: str, **given: Any) -> Callable[[Any], Given]:
    return lambda stage: {"postId": Kind.encode_id("Post", stage.posts[post]), **given}


def _comments(post: str, change: Callable[[list[str]], list[str]]) -> _Change:
    return lambda before: {**before, post: (change(before[post][0]), *before[post][1:])}


class Posts(Stage):
    """A status without comments, and a poll on which the author and a follower have voted."""

    collections = (
        "social.posts",
        "social.news",
        "social.comment_pages",
        "social.votes",
        "social.members",
        "social.relations",
        "social.rates",
        "operations",
    )
    job_names = ("deliver-posts", "finish-posts")
    # A worker that has crashed keeps its lease for a while.
    next_run = 31
    selections = SELECTED
    cases: ClassVar[dict[str, Case]] = {
        "a post": Case(
            "createPost",
            lambda _: {"detail": {"status": {"text": "new"}}},
            "PostPayload",
            lambda before: {**before, "new": ([], [], FOLLOWERS)},
        ),
        "a first comment": Case(
            "commentOnPost", _on("plain", text="New."), "PostPayload", _comments("plain", lambda _: ["New."])
        ),
        "another vote": Case(
            "vote", _on("poll", option=1), "PostPayload", lambda before: {**before, "poll": ([], [1, 1], FOLLOWERS)}
        ),
        "deleting a poll": Case(
            "deletePost",
            _on("poll"),
            "DeletedPayload",
            lambda before: {text: post for text, post in before.items() if text != "poll"},
        ),
    }

    async def build(self) -> None:
        self.posts: dict[str, ObjectId] = {}
        await join(self.gateway.db, AUTHOR, *FOLLOWERS)
        await add_followers(self.gateway.db, AUTHOR, FOLLOWERS)
        await self.fill()
        await self.run_jobs()

    async def fill(self) -> None:
        await self.write("plain", 0)
        await self.write("poll", 0, kind="poll", detail={"text": "poll", "options": ["Yes", "No"]})
        for voter in (AUTHOR, FOLLOWERS[0]):
            given = {"postId": Kind.encode_id("Post", self.posts["poll"]), "option": 0}
            await self.gateway.as_caller(voter).result("vote", given)

    async def write(self, text: str, comments: int, **fields: Any) -> None:
        post = await write_post(self.gateway.db, AUTHOR, text, now=self.clock.now(), **fields)
        self.posts[text] = post["_id"]
        self.comments = [
            await write_comment(self.gateway.db, post, FOLLOWERS[0], str(number), now=self.clock.now())
            for number in range(comments)
        ]

    def token(self, _mutation: str) -> str:
        return str(self.gateway.token(AUTHOR, []))

    async def state(self) -> State:
        db = self.gateway.db
        found: State = {}
        async for post in db["social.posts"].find({"deleted": None}):
            texts = [one["text"] for one in await comments_of(db, post)]
            assert len(texts) == post["comment_count"]
            slots = await db["social.votes"].find({"post": post["_id"]}).to_list()
            votes = [sum(counts) for counts in zip(*(slot["votes"] for slot in slots), strict=True)]
            found[post["detail"]["text"]] = texts, votes, sorted(await feeds_with(db, post))
        return found

    async def assert_over(self) -> None:
        """Asserts that nothing of a deleted post is left when its key has expired."""
        await self.run_jobs(seconds=2 * 24 * 3600)
        db = self.gateway.db
        kept = await db["social.posts"].distinct("_id", {"deleted": None, "removing": None})
        assert await db["social.posts"].count_documents({}) == len(kept)
        for name in ("social.news", "social.votes", "social.comment_pages"):
            assert await db[name].find_one({"post": {"$nin": kept}}) is None, name


def _deletion(number: int) -> Case:
    """Returns the case that deletes a comment by its number."""

    def given(stage: Any) -> Given:
        return {**_on("paged")(stage), "commentId": Kind.encode_id("PostComment", stage.comments[number])}

    change = _comments("paged", lambda texts: [text for text in texts if text != str(number)])
    return Case("deletePostComment", given, "PostPayload", change)


class Comments(Posts):
    """A post whose next comment makes older ones move to a page, and one with a page."""

    cases: ClassVar[dict[str, Case]] = {
        "a comment that makes older ones move": Case(
            "commentOnPost", _on("full", text="New."), "PostPayload", _comments("full", lambda texts: [*texts, "New."])
        ),
        "deleting a comment in the page": _deletion(5),
    }

    async def fill(self) -> None:
        await self.write("full", 39)
        await self.write("paged", 45)


class LatestComments(Comments):
    """A post with a page of comments. The latest ones are in the post."""

    cases: ClassVar[dict[str, Case]] = {"deleting a comment in the post": _deletion(30)}

    async def fill(self) -> None:
        await self.write("paged", 45)


class Unfollowed(Posts):
    """The wall of a member whom nobody follows."""

    cases: ClassVar[dict[str, Case]] = {
        "a post that nobody gets": Case(
            "createPost",
            lambda _: {"detail": {"status": {"text": "new"}}},
            "PostPayload",
            lambda before: {**before, "new": ([], [], [])},
        )
    }

    async def fill(self) -> None:
        await self.write("plain", 0)

    def token(self, _mutation: str) -> str:
        return str(self.gateway.token(FOLLOWERS[0], []))
