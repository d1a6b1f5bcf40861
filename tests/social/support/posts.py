"""Members, followers and posts for tests of the social network, written as the resolvers write them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from portico.gateway.clock import SystemClock
from portico.resolvers.documents import Database, Document
from portico.resolvers.social import fan_out, post_comments, post_edits
from portico.resolvers.social.fresh_posts import FreshPosts
from portico.resolvers.social.members import MEMBERS
from portico.resolvers.social.names import searched
from portico.resolvers.writes.marks import random_operation_id
from portico.testing.kits import mutation_text
from tests.support.domains import SCHEMA
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


async def add_members(
    db: Database, *names: str, circles: Sequence[str] = (), followers: Mapping[str, Iterable[str]] | None = None
) -> None:
    """Adds members, who have these circles, and the followers of some of them."""
    await db["social.members"].insert_many(
        [
            {
                "_id": name,
                "name": name.capitalize(),
                **searched(name.capitalize()),
                "schema_version": MEMBERS.version,
                "profile": {"interests": []},
                "circles": ["friends", *circles],
                "is_merged": False,
                "joined": BEFORE,
            }
            for name in names
        ]
    )
    for author, some in (followers or {}).items():
        await add_followers(db, author, some)


def side(of: str, to: str, **values: Any) -> Document:
    """Returns the document of what one member has decided about another."""
    both: Document = {"circles": [], "in_circles": [], "blocks": False, "blocked": False, "version": 1, "copied": 1}
    return {"_id": {"of": of, "to": to}, "of": of, "to": to, **both, **values}


async def add_followers(db: Database, author: str, names: Iterable[str], since: datetime = BEFORE) -> None:
    """Lets members follow the author, who has them in no circle."""
    chosen, sides = list(names), []
    await db["social.members"].update_many({"_id": {"$in": chosen}}, {"$addToSet": {"circles": "friends"}})
    for name in chosen:
        sides.append(side(name, author, circles=["friends"], since=since))
        sides.append(side(author, name, in_circles=["friends"], follower=since))
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
    given: Any = {"now": NOW, "operation_id": op(), **fields}
    return await post_comments.comment_on_post(db, post_id=post["_id"], author=who(author), text=text, **given)


async def write_comments(db: Database, post: Document, author: str, count: int) -> list[ObjectId]:
    """Writes this many comments, whose texts are their numbers. Returns their ids."""
    return [await write_comment(db, post, author, str(number)) for number in range(count)]


def stored_post(author: str, posted: datetime, to: str | None = None, comments: int = 3) -> Document:
    """Returns the document of a public status with comments by ann, which has been delivered."""
    rows = [stored_comment("ann", posted, f"C{number}") for number in range(comments)]
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


def stored_comment(author: str, posted: datetime, text: str = "C") -> Document:
    return {"id": ObjectId(), "by": who(author), "posted": posted, "text": text}


async def add_pages(db: Database, post: Document, comments: Sequence[Document]) -> None:
    pages = [
        {
            "_id": {"post": post["_id"], "page": start},
            "post": post["_id"],
            "version": 0,
            "comments": comments[start : start + 20],
        }
        for start in range(0, len(comments), 20)
    ]
    await db["social.comment_pages"].insert_many(pages)


async def write_fresh(db: Database, fresh: FreshPosts, author: str, text: str = "Hello", **fields: Any) -> Document:
    """Posts as a process does that delivers the post itself."""
    claim = fresh.claim(author)
    post = await write_post(db, author, text, claim=claim, **fields)
    if claim is not None:
        fresh.add(post)
    return post


async def deliver(
    db: Database,
    *,
    now: datetime = NOW,
    max_fan_out: int = NO_BOUND,
    news_age: timedelta = timedelta(days=1),
    fresh: FreshPosts | None = None,
) -> int:
    return await fan_out.deliver_posts(db, fan_out.Limits(max_fan_out, news_age), now=now, fresh=fresh)


async def comments_of(db: Database, post: Document) -> list[Document]:
    """Returns all comments of a post, oldest first, as a reader finds them."""
    pages = await db["social.comment_pages"].find({"post": post["_id"]}, sort=[("_id", 1)]).to_list()
    moved = [one for page in pages if page["_id"]["page"] < post["spilled"] for one in page["comments"]]
    return [one for one in [*moved, *post["comments"]] if one["id"] not in post.get("removing", ())]


async def feeds_with(db: Database, post: Document) -> set[str]:
    return {entry["of"] async for entry in db["social.news"].find({"post": post["_id"]})}


_POST = (
    "... on PostPayload { post { __typename id by { userId name } to { userId name } audience circles commentCount "
    "latestComments { id by { userId } text } "
    "... on StatusPost { text } ... on LinkPost { text url } ... on PhotoPost { text photo { id } } "
    "... on CheckinPost { text place latitude longitude } "
    "... on PollPost { text options { text votes } viewerVote } } }"
)


# What the mutations of posts select.
SELECTED = {
    "createPost": f"{_POST} ... on InvalidInput {{ path }}",
    "commentOnPost": f"{_POST} ... on InvalidInput {{ path }}",
    "deletePost": "... on DeletedPayload { deletedId }",
    "deletePostComment": _POST,
    "vote": f"{_POST} ... on InvalidInput {{ path }}",
}
POSTING = {
    name: mutation_text(SCHEMA._schema, name, f"... on NotFound {{ missingId }} {selection}")
    for name, selection in SELECTED.items()
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
