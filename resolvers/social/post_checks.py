"""Checks posts, and what belongs to them: entries of news feeds, comments, votes and names."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.hints import with_hint
from portico.resolvers.snapshots import read_at_one_time
from portico.resolvers.writes.sweeps import require, wrong_in_batches, wrong_with

from . import fan_out, members
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


async def find_strays(db: Database) -> AsyncIterator[Document]:
    """Yields entries, comment pages and votes whose post does not exist, as {_id, problem, collection, key}."""
    for name, paths in _BELONGINGS.items():
        found = db[name].find({}, {"post": 1, **dict.fromkeys(paths, 1)}, sort=[("post", 1)])
        async for wrong in wrong_in_batches(found, partial(_strays_in, db, name, paths)):
            yield wrong


async def _strays_in(db: Database, name: str, paths: Sequence[str], batch: list[Document]) -> AsyncIterator[Document]:
    wanted = list({row["post"] for row in batch})
    posts = await db[POSTS.name].find({"_id": {"$in": wanted}}, {"_id": 1}, batch_size=len(wanted) + 1).to_list()
    there = {post["_id"] for post in posts}
    for row in batch:
        if row["post"] not in there:
            key = {path: row[path] for path in paths}
            # The job removes what belongs to a post, and then the post.
            if await db[name].find_one(key, {"_id": 1}) is not None:
                problem = f"its post, {row['post']}, does not exist"
                yield {"_id": row["_id"], "problem": problem, "collection": name, "key": key}


async def remove_stray(db: Database, stray: Document) -> None:
    """Removes what `find_strays` has found."""
    await db[stray["collection"]].delete_one(stray["key"])


async def find_undelivered(db: Database) -> AsyncIterator[Document]:
    """Yields public posts that followers of the author lack in their news feeds, as {_id, problem}.

    It checks posts that count as delivered, and followers who had followed the author for a minute. For other posts it
    is not known who was in which circle at that time.
    """
    done = {**_LIVE, "fan_out": {"$exists": False}, "audience": PUBLIC}
    found = db[POSTS.name].find(done, dict.fromkeys(("by", "created", "posted", "audience"), 1), sort=_BY_ID)
    async for wrong in wrong_in_batches(found, partial(_undelivered_in, db)):
        yield wrong


async def _undelivered_in(db: Database, batch: list[Document]) -> AsyncIterator[Document]:
    authors = await members.find_by_ids(db, [post["by"]["id"] for post in batch], {"is_merged": 1})
    for post in batch:
        if not authors.get(post["by"]["id"], {}).get("is_merged"):
            missing = await _count_missing(db, post)
            if missing:
                yield {
                    "_id": post["_id"],
                    "problem": f"news feeds of followers that lack it: {missing:,}",
                }


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


async def deliver_again(db: Database, post_id: ObjectId) -> None:
    """Lets the job deliver the post again. Entries that exist stay."""
    post = await db[POSTS.name].find_one({"_id": post_id}, {"created": 1})
    if post is not None:
        pending = {"fan_out": {"after": None, "due": post["created"]}}
        await db[POSTS.name].update_one({"_id": post_id, **_LIVE, "fan_out": {"$exists": False}}, {"$set": pending})


async def find_wrong_comments(db: Database) -> AsyncIterator[Document]:
    """Yields posts that count their comments wrongly, or lack a comment page.

    Each hundred posts are read as of one point in time. Yields {_id, problem}, and {version, comment_count, counted} if
    the count can be repaired.
    """
    ids = db[POSTS.name].find(_LIVE, {"_id": 1}, sort=_BY_ID)
    async for batch in in_batches(ids, _BATCH):
        for post in await _with_pages(db, [post["_id"] for post in batch]):
            for wrong in wrong_with(post, _comment_problems):
                yield {"_id": post["_id"], **wrong}


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


def _comment_problems(post: Document) -> list[Document]:
    require(post, ("comments", "comment_count", "spilled", "version"))
    pages = {page["_id"]["page"]: page for page in post["pages"] if page["_id"]["page"] < post["spilled"]}
    found: list[Document] = []
    if sorted(pages) != list(range(0, post["spilled"], PAGE)):
        found.append({"problem": f"it has {len(pages):,} comment pages for {post['spilled']:,} comments"})
    comments = [one["id"] for held in (post, *pages.values()) for one in held["comments"]]
    if len(set(comments)) != len(comments):
        found.append({"problem": "it has a comment twice"})
    counted = len(set(comments) - set(post.get("removing", ())))
    if counted != post["comment_count"]:
        problem = f"it counts {post['comment_count']:,} comments and has {counted:,}"
        known = {name: post[name] for name in ("version", "comment_count")}
        found.append({"problem": problem, "counted": counted, **known})
    return found


async def mend_count(db: Database, wrong: Document) -> None:
    """Corrects the number of comments, unless the comments have changed since the check."""
    unchanged = {name: wrong[name] for name in ("_id", "version", "comment_count")}
    await db[POSTS.name].update_one(unchanged, {"$set": {"comment_count": wrong["counted"]}})


async def find_wrong_votes(db: Database) -> AsyncIterator[Document]:
    """Yields slots of polls that count their votes wrongly, as {_id, post, problem, voters, counted}."""
    async for slot in db[VOTES.name].find({}, dict.fromkeys(("post", "votes", "voters"), 1), sort=_BY_ID):
        for wrong in wrong_with(slot, _vote_problems):
            yield {"_id": slot["_id"], "post": slot.get("post"), **wrong}


def _vote_problems(slot: Document) -> list[Document]:
    votes, voters = slot["votes"], slot["voters"]
    if len({voter["id"] for voter in voters}) != len(voters):
        return [{"problem": "a member has voted twice"}]
    counts = Counter(voter["option"] for voter in voters)
    counted = [counts[option] for option in range(len(votes))]
    if counted == votes:
        return []
    return [
        {"problem": f"it counts the votes {votes}, but its voters make {counted}", "voters": voters, "counted": counted}
    ]


async def mend_votes(db: Database, wrong: Document) -> None:
    """Corrects the counts of a slot, unless somebody has voted since the check."""
    unchanged = {name: wrong[name] for name in ("_id", "post", "voters")}
    await db[VOTES.name].update_one(unchanged, {"$set": {"votes": wrong["counted"]}})


async def find_outdated_names(db: Database) -> AsyncIterator[Document]:
    """Yields posts and comment pages with a name that a member no longer has, as {_id, problem, member, name}.

    Leaves out members whose new name is being copied.
    """
    shown = dict.fromkeys(("by", "to", "comments.by"), 1)
    for name, query in ((POSTS.name, _LIVE), (COMMENT_PAGES.name, {})):
        found = db[name].find(query, shown, sort=_BY_ID)
        async for wrong in wrong_in_batches(found, partial(_outdated_in, db), _BATCH):
            yield wrong


async def _outdated_in(db: Database, batch: list[Document]) -> AsyncIterator[Document]:
    people = [(holder, _people_of(holder)) for holder in batch]
    ids = {member for _, named in people for member in named}
    current = await members.find_by_ids(db, sorted(ids), {"name": 1, "renamed": 1})
    for holder, named in people:
        for member_id, names in named.items():
            member = current.get(member_id)
            if member is None or "renamed" in member or names == {member["name"]}:
                continue
            wrong = ", ".join(sorted(names - {member["name"]}))
            problem = f"it has an outdated name of {member_id!r}: {wrong} instead of {member['name']}"
            yield {"_id": holder["_id"], "problem": problem, "member": member_id, "name": member["name"]}


def _people_of(holder: Mapping[str, Any]) -> Mapping[str, set[str]]:
    """Returns the names in a post or a comment page, by member."""
    people: dict[str, set[str]] = {}
    authors = (one["by"] for one in holder.get("comments", ()))
    for person in (*(holder[side] for side in ("by", "to") if side in holder), *authors):
        people.setdefault(person["id"], set()).add(person["name"])
    return people
