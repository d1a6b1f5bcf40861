"""Reads of the comments of posts, oldest first: first those in pages, then those in the post.

A post moves its oldest comments to pages while readers page through them. So a read takes the post first, which says
how many comments have moved, and then the pages below that number. See `comment_readers`.

The author of a post finds the comments by members with a block in a list of their own: see `hidden_comments`.

Comments by members with a block are left out. Where they wrote most of a long discussion, a read considers about 1,000
comments at most. A page then ends early: it has fewer comments than requested, and the next page continues behind them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.paging import Key, Listing, Page, Sort

from .comment_readers import BackwardReader, Reader
from .comment_rows import Part, find_in_pages, find_posts, relations_with, row_of
from .posts import COMMENT_PAGES, PAGE
from .visibility import without_blocked

# The most pages that one command reads of a post, and the most of these commands.
MOST_PAGES, _ROUNDS = 50, 3
BY_PLACE = Sort((("page", 1), ("posted", 1)))


def comments_of(post: DocumentId) -> Listing:
    """Returns the listing of a post's comments."""
    return Listing({}, BY_PLACE, named={"comments of": post})


async def find_comment_pages(
    db: Database,
    posts: Sequence[DocumentId],
    *,
    viewer: str | None,
    size: int,
    key: Key | None,
    is_backwards: bool = False,
) -> dict[DocumentId, Page]:
    """Returns a page of each post's comments, without those by members with a block.

    Three commands for all posts, or up to seven if blocked members wrote most of the comments. Leaves out posts that do
    not exist.

    Args:     key: that of a cursor, from `comments_of`: of `after`, or of `before` if `is_backwards`.
    Returns:  a page of each post; if `is_backwards`, of the opposite list.
    """
    kind = BackwardReader if is_backwards else Reader
    readers = {post["_id"]: kind(post, key) for post in await find_posts(db, posts)}
    width = math.ceil((size + 1) / PAGE) + 1
    for _ in range(_ROUNDS):
        unfinished = [one for one in readers.values() if len(one.shown) <= size and not one.is_finished]
        if not unfinished:
            break
        await _read_on(db, unfinished, width, viewer)
        width = min(4 * width, MOST_PAGES)
    return {post: one.page(db, comments_of(post), size, key) for post, one in readers.items()}


async def find_row(db: Database, post: Mapping[str, Any], comment_id: ObjectId) -> Document | None:
    """Returns a comment of a post as a row of `comments_of`; None if it is gone.

    No command if the document of the post still holds the comment.
    """
    held = next((one for one in post.get("comments") or () if one["id"] == comment_id), None)
    if held is not None:
        return row_of(held, post.get("spilled") or 0)
    wanted = {"post": post["_id"], "comments.id": comment_id}
    page = await db[COMMENT_PAGES.name].find_one(wanted, {"comments": {"$elemMatch": {"id": comment_id}}})
    return None if page is None else row_of(page["comments"][0], page["_id"]["page"])


async def find_posted(db: Database, post: Mapping[str, Any], at: datetime, *, viewer: str | None) -> Document | None:
    """Returns the comment that was posted at this time; None if it is gone, or if the viewer does not see it.

    No command if the post still holds the comment, otherwise two.

    Args:     post: the whole post, as the viewer sees it.
    """
    held = next((one for one in post["comments"] if one["posted"] == at), None)
    if held is not None or not post["spilled"]:
        return held
    wanted = {"post": post["_id"], "comments.posted": at}
    page = await db[COMMENT_PAGES.name].find_one(wanted, {"comments": {"$elemMatch": {"posted": at}}})
    if page is None or page["_id"]["page"] >= post["spilled"]:
        return None
    found = [one for one in page["comments"] if one["id"] not in post.get("removing", ())]
    return next(iter(without_blocked(found, await relations_with(db, viewer, found))), None)


async def find_latest(
    db: Database, posts: Sequence[DocumentId], *, viewer: str | None, last: int
) -> dict[DocumentId, list[Document]]:
    """Returns the latest comments of each post, oldest first, without those by members with a block.

    Two commands for all posts, and two more if the comments in the posts do not suffice; up to six more if blocked
    members wrote most of the latest ones. Then there can be fewer.
    """
    found: dict[DocumentId, list[Document]] = {}
    ends: dict[DocumentId, Document] = {}
    there = await find_posts(db, posts)
    relations = await relations_with(db, viewer, [comment for post in there for comment in post["comments"]])
    for post in there:
        found[post["_id"]] = without_blocked(post["comments"], relations)
        ends[post["_id"]] = {**post, "end": post.get("spilled") or 0}
    width = math.ceil(last / PAGE) + 1
    for _ in range(_ROUNDS):
        short = [post for key, post in ends.items() if len(found[key]) < last and post["end"] > 0]
        if not short:
            break
        starts = {post["_id"]: max(0, post["end"] - width * PAGE) for post in short}
        pages = await find_in_pages(db, [(post, Part(starts[post["_id"]], post["end"])) for post in short])
        relations = await relations_with(db, viewer, [comment for rows in pages.values() for comment in rows])
        for post in short:
            key = post["_id"]
            found[key] = without_blocked(pages[key], relations) + found[key]
            post["end"] = starts[key]
        width = min(4 * width, MOST_PAGES)
    return {key: comments[-last:] for key, comments in found.items()}


async def _read_on(db: Database, readers: Sequence[Reader], width: int, viewer: str | None) -> None:
    parts = [(one, one.next_part(width)) for one in readers]
    pages = await find_in_pages(db, [(one.post, part) for one, part in parts])
    rows = {one: one.take(part, pages[one.post["_id"]]) for one, part in parts}
    relations = await relations_with(db, viewer, [row for some in rows.values() for row in some])
    for one, some in rows.items():
        one.show(without_blocked(some, relations))
