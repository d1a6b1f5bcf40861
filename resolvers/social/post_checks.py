"""Checks posts, and what belongs to them: entries of news feeds, comments, votes and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.hints import with_hint
from portico.resolvers.problems import Problem, problems_with
from portico.resolvers.snapshots import read_at_one_time
from portico.resolvers.writes.sweeps import require

from . import fan_out, members, renames
from .news import NEWS
from .posts import COMMENT_PAGES, PAGE, POSTS, PUBLIC, VOTES

_BATCH = 100
# The collections of what belongs to a post, with the paths of their keys.
_BELONGINGS: Mapping[str, Sequence[str]] = {
    NEWS.name: ("_id", "of"),
    COMMENT_PAGES.name: ("_id", "post"),
    VOTES.name: ("_id", "post"),
}
# Longer than a change of the graph takes. A follower whose change was in progress may lack a post.
_SETTLED = timedelta(minutes=1)
_LIVE: Document = {"deleted": {"$exists": False}}
_BY_ID = [("_id", 1)]
_POST, _SLOT = Problem.named("post"), Problem.named("votes")


async def find_strays(db: Database) -> AsyncIterator[Problem]:
    """Yields entries, comment pages and votes whose post does not exist."""
    for name, paths in _BELONGINGS.items():
        found = db[name].find({}, {"post": 1, **dict.fromkeys(paths, 1)}, sort=[("post", 1)])
        async for problem in Problem.all_in(found, partial(_strays_in, db, name, paths), Problem.named(name)):
            yield problem


async def _strays_in(db: Database, name: str, paths: Sequence[str], batch: list[Document]) -> AsyncIterator[Problem]:
    wanted = list({row["post"] for row in batch})
    posts = await db[POSTS.name].find({"_id": {"$in": wanted}}, {"_id": 1}, batch_size=len(wanted) + 1).to_list()
    there = {post["_id"] for post in posts}
    for row in batch:
        if row["post"] not in there:
            key = {path: row[path] for path in paths}
            # The job removes what belongs to a post, and then the post.
            if await db[name].find_one(key, {"_id": 1}) is not None:
                text = f"its post, {row['post']}, does not exist"
                yield Problem(f"{name} {row['_id']}", text, partial(_remove_stray, db, name, key))


async def _remove_stray(db: Database, collection: str, key: Document) -> None:
    await db[collection].delete_one(key)


async def find_undelivered(db: Database) -> AsyncIterator[Problem]:
    """Yields public posts that followers of the author lack in their news feeds.

    It checks posts that count as delivered, and followers who had followed the author for a minute. For other posts it
    is not known who was in which circle at that time.
    """
    done = {**_LIVE, "fan_out": {"$exists": False}, "audience": PUBLIC}
    found = db[POSTS.name].find(done, dict.fromkeys(("by", "created", "posted", "audience"), 1), sort=_BY_ID)
    async for problem in Problem.all_in(found, partial(_undelivered_in, db), _POST):
        yield problem


async def _undelivered_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    authors: Mapping[str, Mapping[str, Any]] = await members.find_by_ids(
        db, [post["by"]["id"] for post in batch], {"is_merged": 1}
    )
    for post in batch:
        if not authors.get(post["by"]["id"], {}).get("is_merged"):
            missing = await _count_missing(db, post)
            if missing:
                text = f"news feeds of followers that lack it: {missing:,}"
                yield Problem(_POST(post), text, partial(_deliver_again, db, post["_id"]))


async def _count_missing(db: Database, post: Document) -> int:
    settled = {**post, "created": post["created"] - _SETTLED}
    after, missing = None, 0
    while page := await fan_out.recipients(db, settled, after=after):
        wanted = [follower["to"] for follower in page]
        query = {"post": post["_id"], "of": {"$in": wanted}}
        count = partial(db[NEWS.name].count_documents, query)
        missing += len(wanted) - await with_hint([("post", 1), ("of", 1)], count)
        after = wanted[-1]
    return missing


async def _deliver_again(db: Database, post_id: ObjectId) -> None:
    """Lets the job deliver the post again. Entries that exist stay."""
    post = await db[POSTS.name].find_one({"_id": post_id}, {"created": 1})
    if post is not None:
        pending = {"fan_out": {"after": None, "due": post["created"]}}
        await db[POSTS.name].update_one({"_id": post_id, **_LIVE, "fan_out": {"$exists": False}}, {"$set": pending})


async def find_wrong_comments(db: Database) -> AsyncIterator[Problem]:
    """Yields posts that count their comments wrongly, or lack a comment page.

    Each hundred posts are read as of one point in time.
    """
    ids = db[POSTS.name].find(_LIVE, {"_id": 1}, sort=_BY_ID)
    async for batch in in_batches(ids, _BATCH):
        for post in await _with_pages(db, [post["_id"] for post in batch]):
            for problem in problems_with(post, partial(_comment_problems, db), _POST):
                yield problem


async def _with_pages(db: Database, ids: Sequence[ObjectId]) -> list[Document]:
    pages: list[Document] = [{"$project": {"comments.id": 1}}]
    lookup = {"from": COMMENT_PAGES.name, "localField": "_id", "foreignField": "post", "pipeline": pages, "as": "pages"}
    fields = ("comments.id", "comment_count", "spilled", "version", "removing")
    stages: list[Document] = [
        {"$match": {"_id": {"$in": list(ids)}, **_LIVE}},
        {"$project": dict.fromkeys(fields, 1)},
        {"$lookup": lookup},
    ]
    return await read_at_one_time(db, POSTS, stages, batch_size=len(ids) + 1)


def _comment_problems(db: Database, post: Document) -> Iterator[Problem]:
    require(post, ("comments", "comment_count", "spilled", "version"))
    pages = {page["_id"]["page"]: page for page in post["pages"] if page["_id"]["page"] < post["spilled"]}
    if sorted(pages) != list(range(0, post["spilled"], PAGE)):
        yield Problem(_POST(post), f"it has {len(pages):,} comment pages for {post['spilled']:,} comments")
    comments = [one["id"] for held in (post, *pages.values()) for one in held["comments"]]
    if len(set(comments)) != len(comments):
        yield Problem(_POST(post), "it has a comment twice")
    counted = len(set(comments) - set(post.get("removing", ())))
    if counted != post["comment_count"]:
        text = f"it counts {post['comment_count']:,} comments and has {counted:,}"
        yield Problem(_POST(post), text, partial(_mend_count, db, post, counted))


async def _mend_count(db: Database, post: Document, counted: int) -> None:
    """Corrects the number of comments, unless the comments have changed since the check."""
    unchanged = {name: post[name] for name in ("_id", "version", "comment_count")}
    await db[POSTS.name].update_one(unchanged, {"$set": {"comment_count": counted}})


async def find_wrong_votes(db: Database) -> AsyncIterator[Problem]:
    """Yields slots of polls that count their votes wrongly."""
    async for slot in db[VOTES.name].find({}, dict.fromkeys(("post", "votes", "voters"), 1), sort=_BY_ID):
        for problem in problems_with(slot, partial(_vote_problems, db), _SLOT):
            yield problem


def _vote_problems(db: Database, slot: Document) -> Iterator[Problem]:
    votes, voters = slot["votes"], slot["voters"]
    if len({voter["id"] for voter in voters}) != len(voters):
        yield Problem(_SLOT(slot), "a member has voted twice")
        return
    counts = Counter(voter["option"] for voter in voters)
    counted = [counts[option] for option in range(len(votes))]
    if counted != votes:
        text = f"it counts the votes {votes}, but its voters make {counted}"
        yield Problem(_SLOT(slot), text, partial(_mend_votes, db, slot, counted))


async def _mend_votes(db: Database, slot: Document, counted: Sequence[int]) -> None:
    """Corrects the counts of a slot, unless somebody has voted since the check."""
    unchanged = {name: slot.get(name) for name in ("_id", "post", "voters")}
    await db[VOTES.name].update_one(unchanged, {"$set": {"votes": counted}})


async def find_outdated_names(db: Database) -> AsyncIterator[Problem]:
    """Yields posts and comment pages with a name that a member no longer has.

    Leaves out members whose new name is being copied.
    """
    shown = dict.fromkeys(("by", "to", "comments.by"), 1)
    for name, query in ((POSTS.name, _LIVE), (COMMENT_PAGES.name, {})):
        found = db[name].find(query, shown, sort=_BY_ID)
        async for problem in Problem.all_in(found, partial(_outdated_in, db), _POST, _BATCH):
            yield problem


async def _outdated_in(db: Database, batch: list[Document]) -> AsyncIterator[Problem]:
    people = [(holder, _people_of(holder)) for holder in batch]
    ids = {member for _, names_of in people for member in names_of}
    current = await members.find_by_ids(db, sorted(ids), {"name": 1, "renamed": 1})
    for holder, names_of in people:
        for member_id, names in names_of.items():
            member = current.get(member_id)
            if member is None or "renamed" in member or names == {member["name"]}:
                continue
            wrong = ", ".join(sorted(names - {member["name"]}))
            text = f"it has an outdated name of {member_id!r}: {wrong} instead of {member['name']}"
            yield Problem(_POST(holder), text, partial(renames.copy_name, db, member_id, member["name"]))


def _people_of(holder: Mapping[str, Any]) -> Mapping[str, set[str]]:
    """Returns the names in a post or a comment page, by member."""
    people: dict[str, set[str]] = {}
    authors = (one["by"] for one in holder.get("comments", ()))
    for person in (*(holder[side] for side in ("by", "to") if side in holder), *authors):
        people.setdefault(person["id"], set()).add(person["name"])
    return people
