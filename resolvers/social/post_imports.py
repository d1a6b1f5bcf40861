"""Imports of posts on walls, by their ids. May be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.import_outcomes import Outcome, outcome_of, refused_row, rejected_rows
from portico.resolvers.together import every

from . import member_edits, members
from .members import MEMBERS, MemberDocument
from .post_edits import create_post, pending_delivery, require_circles
from .post_rules import require_detail
from .posts import POSTS

# Posts that are written in parallel.
_AT_ONCE = 16
_OPERATION = "import-wall-post:"


@dataclass(frozen=True)
class WallPostRecord:
    """A post as an import describes it. `author` is {id, name}; `to` is the subject of another member."""

    id: str
    author: Document
    kind: str
    detail: Mapping[str, Any]
    posted: datetime | None
    audience: str
    circles: Sequence[str]
    to: str | None


async def import_wall_posts(db: Database, records: Sequence[WallPostRecord], *, now: datetime) -> list[Outcome]:
    """Stores the posts of the records, and makes members of authors who are none. Each id may occur only once.

    A job delivers new posts to those who follow their authors now. A stored post gets the kind, the content and the
    audience of its record. If its audience changes, the job delivers it again.

    Returns:  the outcome of each record.
    Writes:   social.members, by one insert for each; social.posts, by one insert or one guarded update for each.
    """
    refused = await _join(db, {record.author["id"]: record.author["name"] for record in records}, now)
    names = await members.find_by_ids(db, [record.author["id"] for record in records], {"name": 1})
    room = asyncio.Semaphore(_AT_ONCE)

    async def import_one(record: WallPostRecord) -> Outcome:
        author = names.get(record.author["id"])
        if author is None:
            return refused.get(record.author["id"]) or InvalidInput("the member has been removed", "author")
        async with room:
            return await outcome_of(_import(db, record, {"id": author["_id"], "name": author["name"]}, now))

    return await every(import_one(record) for record in records)


async def _join(db: Database, names: Mapping[str, str], now: datetime) -> dict[str, InvalidInput]:
    """Makes members of those who are none. Returns why authors were refused."""
    there = await members.find_by_ids(db, list(names), {"_id": 1})
    new: list[MemberDocument] = []
    refused: dict[str, InvalidInput] = {}
    for subject, name in names.items():
        if subject not in there:
            try:
                new.append(member_edits.new_member(subject, name, {}, now))
            except InvalidInput as error:
                refused[subject] = InvalidInput(error.message, "author", *error.path)
    if new:
        try:
            await MEMBERS.of(db).insert_many(new, ordered=False)
        except BulkWriteError as error:
            for row in rejected_rows(error):
                reason = refused_row(row)
                if reason is not None:
                    refused[new[row["index"]]["_id"]] = reason
    return refused


async def _import(db: Database, record: WallPostRecord, author: Document, now: datetime) -> Outcome:
    try:
        post = await create_post(
            db,
            author=author,
            to=record.to,
            kind=record.kind,
            detail=record.detail,
            audience=record.audience,
            circle_names=record.circles,
            now=now,
            operation_id=_OPERATION + record.id,
            posted=min(record.posted or now, now),
        )
    except NotFound as error:
        if error.kind == members.USER:
            raise InvalidInput(f"there is no member {record.to!r} who can be seen", "to") from None
        raise InvalidInput("the post has been deleted", "id") from None
    if post["by"]["id"] != author["id"]:
        raise InvalidInput(f"{post['by']['id']!r} has a post with this id", "id")
    if post["created"] == now:
        return "created"
    return await _bring_up_to_date(db, post, record, now)


async def _bring_up_to_date(db: Database, post: Document, record: WallPostRecord, now: datetime) -> Outcome:
    """Gives the stored post what the record has. With another audience, it is delivered again.

    Writes:   social.posts; one guarded update, with the pending delivery. Entries that exist stay.
    """
    seen_by = {
        "audience": record.audience,
        "circles": await require_circles(db, post["by"]["id"], record.audience, record.circles),
    }
    wanted = {"type": record.kind, "detail": require_detail(record.kind, record.detail), **seen_by}
    if all(post[name] == value for name, value in wanted.items()):
        return "unchanged"
    if any(post[name] != value for name, value in seen_by.items()):
        wanted |= pending_delivery(now)
    await db[POSTS.name].update_one({"_id": post["_id"], "deleted": {"$exists": False}}, {"$set": wanted})
    return "changed"
