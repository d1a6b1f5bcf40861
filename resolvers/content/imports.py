"""Imports of blog entries, by their paths. May be repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from bson import ObjectId

from portico.resolvers.documents import Author, Database
from portico.resolvers.errors import DomainError, InvalidInput, SlugTaken
from portico.resolvers.import_outcomes import Outcome, outcome_of
from portico.resolvers.together import every
from portico.resolvers.writes.marks import random_operation_id

from .creation import NewNode, create_entry, create_section
from .edits import Edit, rewrite_entry
from .nodes import BLOG, ENTRY, NODES, NodeDocument, Path, find_by_paths
from .rules import require_tags, require_title

# Entries that are written in parallel.
_AT_ONCE = 16


@dataclass(frozen=True)
class PostRecord:
    """A blog entry as an import describes it. `blog` is the path of its blog. Without `publish_on`, it is a draft."""

    blog: Path
    slug: str
    title: str
    text: str
    author: Author
    tags: Sequence[str] = ()
    publish_on: datetime | None = None


async def import_posts(db: Database, records: Sequence[PostRecord], *, now: datetime) -> list[Outcome]:
    """Creates or updates the entries of the records. Each path may occur only once.

    Creates missing blogs. Updates of existing entries are edits: the previous text stays in the revisions, and the
    author of the entry stays.

    Returns:  the outcome of each record.
    Writes:   as `create_entry` and `rewrite_entry`.
    """
    blogs = {path: await _blog_at(db, path, records, now) for path in dict.fromkeys(one.blog for one in records)}
    known = {path: await _entries_in(db, blog, records) for path, blog in blogs.items() if isinstance(blog, ObjectId)}
    room = asyncio.Semaphore(_AT_ONCE)

    async def import_one(record: PostRecord) -> Outcome:
        blog = blogs[record.blog]
        if not isinstance(blog, ObjectId):
            return blog
        async with room:
            return await outcome_of(_import(db, blog, known[record.blog].get(record.slug), record, now))

    return await every(import_one(record) for record in records)


async def _blog_at(db: Database, path: Path, records: Sequence[PostRecord], now: datetime) -> ObjectId | InvalidInput:
    """Returns the _id of the blog at the path. Creates the blog if it is missing."""
    shown = "/" + "/".join(path)
    found = await find_by_paths(db, [path, path[:-1]] if len(path) > 1 else [path])
    blog = found.get(path)
    if blog is None:
        above = found.get(path[:-1])
        if len(path) > 1 and above is None:
            return InvalidInput(f"there is no section {shown.rpartition('/')[0]!r}", "blog")
        author = next(record.author for record in records if record.blog == path)
        title = path[-1].replace("-", " ").capitalize()
        node = NewNode(path[-1], title, author, None if above is None else above["_id"])
        operation_id = random_operation_id()
        try:
            blog = await create_section(db, node=node, kind=BLOG, now=now, operation_id=operation_id)
        except SlugTaken:
            # Another import has just created it.
            blog = (await find_by_paths(db, [path]))[path]
        except DomainError as error:
            return InvalidInput(error.message, "blog")
    if blog["detail"].get("kind") != BLOG:
        return InvalidInput(f"the node {shown!r} is not a blog", "blog")
    key: ObjectId = blog["_id"]
    return key


async def _entries_in(db: Database, blog: ObjectId, records: Sequence[PostRecord]) -> dict[str, NodeDocument]:
    query = {"parent": blog, "slug": {"$in": [record.slug for record in records]}}
    return {node["slug"]: node async for node in NODES.of(db).find(query)}


async def _import(
    db: Database, blog: ObjectId, known: NodeDocument | None, record: PostRecord, now: datetime
) -> Outcome:
    operation_id = random_operation_id()
    if known is None:
        # Uses the time of publication as the time of creation, so that lists by time are in the expected order.
        created = min(record.publish_on or now, now)
        node = NewNode(record.slug, record.title, record.author, blog, list(record.tags), "blog", created)
        await create_entry(
            db, node=node, text=record.text, publish_on=record.publish_on, now=now, operation_id=operation_id
        )
        return "created"
    if known["type"] != ENTRY:
        raise InvalidInput("another node has the slug", "slug")
    tags = require_tags(record.tags)
    wanted = (require_title(record.title), record.text, record.publish_on, set(tags))
    if wanted == (known["title"], known["detail"]["text"], known["detail"]["publish_on"], set(known["tags"])):
        return "unchanged"
    edit = Edit(known["_id"], known["nonce"], record.author, now, operation_id)
    await rewrite_entry(db, edit, title=record.title, text=record.text, tags=tags, publish_on=record.publish_on)
    return "changed"
