"""Reads the stored comments of posts: those in the documents of the posts, and those in pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portico.resolvers.documents import Database, Document, DocumentId

from .posts import COMMENT_PAGES, PAGE, POSTS
from .visibility import Relations, find_relations

_READ = {"comments": 1, "spilled": 1, "removing": 1}


class Part(NamedTuple):
    """Pages of a post, from `start` and before `end`."""

    start: int
    end: int


async def find_posts(db: Database, posts: Sequence[DocumentId]) -> list[Document]:
    """Returns the posts that exist, with the comments that they hold. One command."""
    query = {"_id": {"$in": list(posts)}}
    found = await db[POSTS.name].find(query, _READ, batch_size=len(posts) + 1).to_list()
    return [{**post, "comments": post.get("comments") or []} for post in found]


async def find_in_pages(db: Database, parts: Sequence[tuple[Document, Part]]) -> dict[DocumentId, list[Document]]:
    """Returns the comments in these pages of posts as rows, oldest first. One command, or none."""
    keys = [{"post": post["_id"], "page": page} for post, part in parts for page in range(part.start, part.end, PAGE)]
    found: dict[DocumentId, list[Document]] = {post["_id"]: [] for post, _ in parts}
    removing = {post["_id"]: set(post.get("removing") or ()) for post, _ in parts}
    if keys:
        # With the shard key.
        query = {"post": {"$in": list(found)}, "_id": {"$in": keys}}
        pages = await db[COMMENT_PAGES.name].find(query, {"comments": 1}).to_list()
        for page in sorted(pages, key=lambda page: page["_id"]["page"]):
            post = page["_id"]["post"]
            rows = (row_of(comment, page["_id"]["page"]) for comment in page["comments"])
            found[post] += [row for row in rows if row["id"] not in removing[post]]
    return found


def row_of(comment: Mapping[str, Any], page: int) -> Document:
    """Returns a stored comment as a row of a list. `page` is the first page in which it can be, from now on."""
    return {**comment, "_id": comment["id"], "page": page}


async def relations_with(db: Database, viewer: str | None, comments: Sequence[Mapping[str, Any]]) -> Relations:
    """Returns the viewer's relations with the authors of these comments."""
    return await find_relations(db, viewer, {comment["by"]["id"] for comment in comments})
