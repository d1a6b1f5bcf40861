"""Members, followers and posts for tests of the social network, written as the resolvers write them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from portico.gateway.clock import SystemClock
from portico.resolvers.documents import SCHEMA_VERSION, Database, Document
from portico.resolvers.social import fan_out, post_comments, post_edits
from portico.resolvers.social.members import MEMBERS
from portico.resolvers.social.names import searched
from portico.resolvers.writes.idempotency import random_operation_id
from tests.support.harness import GatewayClient

# Longer ago than anything that a test writes.
BEFORE = datetime(2020, 1, 1)  # noqa: DTZ001 - as the driver gives it
NOW = datetime(2026, 5, 4, 12)  # noqa: DTZ001 - as above
NO_BOUND = 1_000_000
_numbers = itertools.count()


def op() -> str:
    """Returns the id of a new operation that cannot be repeated."""
    return random_operation_id()


def keyed_op() -> str:
    """Returns the id of a new operation with an idempotency key."""
    return f"k-{next(_numbers):040}.0"


def later(seconds: float) -> datetime:
    """Returns the time in so many seconds: after the relations that a test has changed."""
    return SystemClock().now() + timedelta(seconds=seconds)


def who(name: str) -> Document:
    """Returns the member `name` as an author."""
    return {"id": name, "name": name.capitalize()}


async def add_members(db: Database, *names: str, circles: Sequence[str] = ()) -> None:
    """Adds members, who have these circles."""
    await db["social.members"].insert_many(
        [
            {
                "_id": name,
                "name": name.capitalize(),
                **searched(name.capitalize()),
                SCHEMA_VERSION: MEMBERS.version,
                "profile": {"interests": []},
                "circles": ["friends", *circles],
                "is_merged": False,
                "joined": BEFORE,
            }
            for name in names
        ]
    )


def _side(of: str, to: str, **values: Any) -> Document:
    both: Document = {"circles": [], "in_circles": [], "blocks": False, "blocked": False, "version": 1, "copied": 1}
    return {"_id": {"of": of, "to": to}, "of": of, "to": to, **both, **values}


async def add_followers(db: Database, author: str, names: Iterable[str], since: datetime = BEFORE) -> None:
    """Lets members follow the author, who has them in no circle."""
    chosen, sides = list(names), []
    await db["social.members"].update_many({"_id": {"$in": chosen}}, {"$addToSet": {"circles": "friends"}})
    for name in chosen:
        sides.append(_side(name, author, circles=["friends"], since=since))
        sides.append(_side(author, name, in_circles=["friends"], follower=since))
    await db["social.relations"].insert_many(sides)


async def put_in_circles(db: Database, author: str, name: str, *circles: str) -> None:
    """Puts a follower of the author into circles of the author."""
    relations = db["social.relations"]
    await relations.update_one(
        {"of": author, "to": name}, {"$set": {"circles": ["friends", *circles], "since": BEFORE}}
    )
    await relations.update_one({"of": name, "to": author}, {"$set": {"in_circles": list(circles), "follower": BEFORE}})


async def write_post(db: Database, author: str, text: str = "Hello", **fields: Any) -> Document:
    """Posts a status, or what `fields` say."""
    given: Any = {"kind": "status", "detail": {"text": text}, "now": NOW, "operation_id": op(), **fields}
    return await post_edits.create_post(db, author=who(author), **given)


async def write_comment(db: Database, post: Document, author: str, text: str = "Right on!", **fields: Any) -> ObjectId:
    """Comments on a post."""
    given: Any = {"now": NOW, "operation_id": op(), **fields}
    return await post_comments.comment_on_post(db, post_id=post["_id"], author=who(author), text=text, **given)


def stored_post(author: str, posted: datetime, to: str | None = None, comments: int = 3) -> Document:
    """Returns the document of a public status with comments by ann, which has been delivered."""
    rows = [{"id": ObjectId(), "by": who("ann"), "posted": posted, "text": f"C{number}"} for number in range(comments)]
    return {
        "_id": ObjectId(),
        "by": who(author),
        "to": who(to or author),
        "walls": list(dict.fromkeys((author, to or author))),
        "audience": "PUBLIC",
        "circles": [],
        "type": "status",
        "detail": {"text": "Hello"},
        "posted": posted,
        "created": posted,
        "comments": rows,
        "comment_count": comments,
        "spilled": 0,
        "version": 0,
    }


class CommentedPosts:
    """Posts of max with the same comments of dwight. The first is written as the resolvers write it. The others are
    copies of it with ids of their own, which takes two commands instead of one for each comment.
    """

    def __init__(self, db: Database, comments: int) -> None:
        self._db = db
        self._comments = comments
        self._ids: list[ObjectId] = []
        self._post: Document = {}
        self._pages: list[Document] = []

    async def write(self, text: str, now: datetime) -> tuple[ObjectId, list[ObjectId]]:
        """Posts a status with this text. Returns the id of the post and the ids of its comments, oldest first."""
        if not self._post:
            await self._write_first(now)
        new = {key: ObjectId() for key in (self._post["_id"], *self._ids)}
        await self._db["social.posts"].insert_one({**_with_ids(self._post, new), "detail": {"text": text}})
        if self._pages:
            await self._db["social.comment_pages"].insert_many(_with_ids(self._pages, new))
        return new[self._post["_id"]], [new[key] for key in self._ids]

    async def _write_first(self, now: datetime) -> None:
        post = await write_post(self._db, "max", now=now)
        self._ids = [await write_comment(self._db, post, "dwight", str(number)) for number in range(self._comments)]
        (self._post,) = await self._db["social.posts"].find({"_id": post["_id"]}).to_list()
        self._pages = await self._db["social.comment_pages"].find({"post": post["_id"]}).to_list()


def _with_ids(value: Any, ids: dict[ObjectId, ObjectId]) -> Any:
    """Returns the value with other ids."""
    if isinstance(value, dict):
        return {key: _with_ids(inner, ids) for key, inner in value.items()}
    if isinstance(value, list):
        return [_with_ids(inner, ids) for inner in value]
    return ids.get(value, value) if isinstance(value, ObjectId) else value


async def deliver(
    db: Database, *, now: datetime = NOW, max_fan_out: int = NO_BOUND, news_age: timedelta = timedelta(days=1)
) -> int:
    """Delivers all posts that are due."""
    return await fan_out.deliver_posts(db, fan_out.Limits(max_fan_out, news_age), now=now)


async def feeds_with(db: Database, post: Document) -> set[str]:
    """Returns the members whose news feed has the post."""
    entries = await db["social.news"].find({"post": post["_id"]}).to_list()
    return {entry["of"] for entry in entries}


_POST = (
    "... on PostPayload { post { __typename id by { userId name } to { userId name } audience circles commentCount "
    "latestComments { id by { userId } text } "
    "... on StatusPost { text } ... on LinkPost { text url } ... on PhotoPost { text photo { id } } "
    "... on CheckinPost { text place latitude longitude } "
    "... on PollPost { text options { text votes } viewerVote } } }"
)
_ERRORS = "... on NotFound { missingId } ... on UserError { message }"


def _mutation(name: str, selection: str) -> str:
    kind = name[0].upper() + name[1:]
    return f"mutation ($input: {kind}Input!) {{ {name}(input: $input) {{ __typename {_ERRORS} {selection} }} }}"


POSTING = {
    "createPost": _mutation("createPost", f"{_POST} ... on InvalidInput {{ path }}"),
    "commentOnPost": _mutation("commentOnPost", f"{_POST} ... on InvalidInput {{ path }}"),
    "deletePost": _mutation("deletePost", "... on DeletedPayload { deletedId }"),
    "deletePostComment": _mutation("deletePostComment", _POST),
    "vote": _mutation("vote", f"{_POST} ... on InvalidInput {{ path }}"),
}


async def call(gateway: GatewayClient, member: str, mutation: str, **given: Any) -> Any:
    """Calls a mutation of posts as a member without roles. Returns the union member."""
    caller = gateway.as_caller(member)
    return (await caller.data(POSTING[mutation], {"input": given}))[mutation]


async def codes(gateway: GatewayClient, member: str, mutation: str, **given: Any) -> list[str]:
    """Calls a mutation of posts that fails. Returns the codes of the errors."""
    return (await gateway.as_caller(member).ask(POSTING[mutation], {"input": given})).codes


async def new_post(gateway: GatewayClient, member: str, text: str = "Hello", **given: Any) -> Any:
    """Posts a status, or what `given` says. Returns the post."""
    result = await call(gateway, member, "createPost", **{"detail": {"status": {"text": text}}, **given})
    assert result["__typename"] == "PostPayload", result
    return result["post"]
