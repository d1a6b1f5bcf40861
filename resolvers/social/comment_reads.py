"""Reads of the comments of posts, oldest first: first those in pages, then those in the post.

A post moves its oldest comments to pages while readers page through them. So a reader reads the post first, which says
how many comments have moved, and then the pages below that number. A cursor has the first page in which its comment can
be, its time and its id. If the comment was deleted, the list continues after its time.

The author of a post finds the comments by members with a block in a list of their own: see `find_hidden`. A page of it
considers a bounded number of comments, too.

Comments by members with a block are left out. Where they wrote most of a long discussion, a read considers about 1,000
comments at most. A page then ends early: it has fewer comments than requested, and the next page continues behind them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.paging import Key, Listing, Page, Sort

from . import relations as relations_of
from .posts import COMMENT_PAGES, PAGE, POSTS
from .visibility import Relations, find_relations, without_blocked

# The most pages that one command reads of a post, and the most of these commands.
_MOST_PAGES, _ROUNDS = 50, 3
# The most pages, of all posts together, among which one read looks for hidden comments.
_MOST_CONSIDERED = 250
_BY_PLACE = Sort((("page", 1), ("posted", 1)))
_READ = {"comments": 1, "spilled": 1, "removing": 1}
_BEFORE_ALL = (datetime.min, ObjectId(bytes(12)))  # noqa: DTZ901 - as the driver gives it


class CommentPage(Page):
    """A page of comments. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


def comments_of(post: DocumentId) -> Listing:
    """Returns the listing of a post's comments."""
    return Listing({}, _BY_PLACE, named={"comments of": post})


def hidden_comments_of(post: DocumentId) -> Listing:
    """Returns the listing of the comments on a post by members with whom its author has a block."""
    return Listing({}, _BY_PLACE, named={"hidden comments of": post})


async def find_comment_pages(
    db: Database, posts: Sequence[DocumentId], *, viewer: str | None, first: int, after: Key | None
) -> dict[DocumentId, Page]:
    """Returns a page of each post's comments, without those by members with a block.

    Three commands for all posts, or up to seven if blocked members wrote most of the comments. Leaves out posts that do
    not exist.

    Args:     after: the key of a cursor, from `comments_of`.
    """
    readers = {post["_id"]: _Reader(post, after) for post in await _find_posts(db, posts)}
    width = math.ceil((first + 1) / PAGE) + 1
    for _ in range(_ROUNDS):
        unfinished = [one for one in readers.values() if len(one.shown) <= first and not one.is_finished]
        if not unfinished:
            break
        await _read_on(db, unfinished, width, viewer)
        width = min(4 * width, _MOST_PAGES)
    return {key: one.page(db, first, after) for key, one in readers.items()}


async def find_row(db: Database, post: Mapping[str, Any], comment_id: ObjectId) -> Document | None:
    """Returns a comment of a post as a row of `comments_of`; None if it is gone.

    No command if the document of the post still holds the comment.
    """
    held = next((one for one in post.get("comments") or () if one["id"] == comment_id), None)
    if held is not None:
        return _row(held, post.get("spilled") or 0)
    wanted = {"post": post["_id"], "comments.id": comment_id}
    page = await db[COMMENT_PAGES.name].find_one(wanted, {"comments": {"$elemMatch": {"id": comment_id}}})
    return None if page is None else _row(page["comments"][0], page["_id"]["page"])


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
    return next(iter(without_blocked(found, await _relations_with(db, viewer, found))), None)


async def find_latest(
    db: Database, posts: Sequence[DocumentId], *, viewer: str | None, last: int
) -> dict[DocumentId, list[Document]]:
    """Returns the latest comments of each post, oldest first, without those by members with a block.

    Two commands for all posts, and two more if the comments in the posts do not suffice; up to six more if blocked
    members wrote most of the latest ones. Then there can be fewer.
    """
    found: dict[DocumentId, list[Document]] = {}
    ends: dict[DocumentId, Document] = {}
    there = await _find_posts(db, posts)
    relations = await _relations_with(db, viewer, [comment for post in there for comment in post["comments"]])
    for post in there:
        found[post["_id"]] = without_blocked(post["comments"], relations)
        ends[post["_id"]] = {**post, "end": post.get("spilled") or 0}
    width = math.ceil(last / PAGE) + 1
    for _ in range(_ROUNDS):
        short = [post for key, post in ends.items() if len(found[key]) < last and post["end"] > 0]
        if not short:
            break
        starts = {post["_id"]: max(0, post["end"] - width * PAGE) for post in short}
        pages = await _find_pages(db, [(post, starts[post["_id"]], post["end"]) for post in short])
        relations = await _relations_with(db, viewer, [comment for rows in pages.values() for comment in rows])
        for post in short:
            key = post["_id"]
            found[key] = without_blocked(pages[key], relations) + found[key]
            post["end"] = starts[key]
        width = min(4 * width, _MOST_PAGES)
    return {key: comments[-last:] for key, comments in found.items()}


async def find_hidden(
    db: Database, posts: Sequence[DocumentId], *, author: str, first: int, after: Key | None
) -> dict[DocumentId, Page]:
    """Returns a page of the comments on each post that its author does not see because of a block.

    Each comment has its author in `by`, or None if they have blocked the author of the post. Up to five commands for
    all posts, and more only for long pages. Looks for such comments among the next 5,000, and a page ends early if it
    has found too few. Leaves out missing posts.

    Args:     author: the author of all posts.  after: the key of a cursor, from `hidden_comments_of`.
    """
    readers = {post["_id"]: _Reader(post, after) for post in await _find_posts(db, posts)}
    ends = _considered(readers.values())
    commenters = await _commenters_by_page(db, [one for one in readers.values() if one.next_page < one.spilled], ends)
    embedded = {comment["by"]["id"] for one in readers.values() for comment in one.post["comments"]}
    others = await relations_of.find_blocks_among(db, author, embedded.union(*commenters.values()))
    numbers = _pages_by(others, commenters)
    while unfinished := [one for one in readers.values() if len(one.shown) <= first and one.is_before(ends)]:
        width = max(1, _MOST_PAGES // len(unfinished))
        some = {one.post["_id"]: numbers.get(one.post["_id"], [])[:width] for one in unfinished}
        ranges = [(one.post, page, page + PAGE) for one in unfinished for page in some[one.post["_id"]]]
        pages = await _find_pages(db, ranges)
        for one in unfinished:
            key = one.post["_id"]
            left = numbers[key] = numbers.get(key, [])[width:]
            rows = one.take(left[0] if left else ends[key], pages.get(key, []))
            one.shown += [row for row in rows if row["by"]["id"] in others]
    authors = {row["by"]["id"] for one in readers.values() for row in one.shown}
    blocking = await relations_of.find_blocking(db, author, list(authors)) if authors else set()
    return {key: _hidden_page(db, one, blocking, first, after) for key, one in readers.items()}


def no_hidden(db: Database, post: DocumentId) -> Page:
    """Returns an empty page, without a read."""
    return CommentPage(hidden_comments_of(post), db[POSTS.name], [], has_next=False)


def _hidden_page(db: Database, reader: _Reader, blocking: Collection[str], first: int, after: Key | None) -> Page:
    page = reader.page(db, first, after)
    page.listing = hidden_comments_of(reader.post["_id"])
    page.documents = [{**row, "by": None if row["by"]["id"] in blocking else row["by"]} for row in page.documents]
    return page


def _considered(readers: Collection[_Reader]) -> dict[DocumentId, int]:
    """Returns the end of the pages among which one read looks for hidden comments, by post."""
    width = max(1, _MOST_CONSIDERED // max(1, len(readers)))
    return {one.post["_id"]: one.end_of(width) for one in readers}


async def _commenters_by_page(
    db: Database, readers: Sequence[_Reader], ends: Mapping[DocumentId, int]
) -> dict[tuple[DocumentId, int], set[str]]:
    """Returns the authors of the comments in each page before the end of its post. One command, or none."""
    if not readers:
        return {}
    ranges = [
        {"_id": {"$gte": {"post": key, "page": one.next_page}, "$lt": {"post": key, "page": ends[key]}}}
        for one in readers
        for key in (one.post["_id"],)
    ]
    query = {"post": {"$in": [one.post["_id"] for one in readers]}, "$or": ranges}
    pages = db[COMMENT_PAGES.name].find(query, {"comments.by.id": 1}, batch_size=_MOST_CONSIDERED + 1, hint="_id_")
    return {
        (page["_id"]["post"], page["_id"]["page"]): {comment["by"]["id"] for comment in page["comments"]}
        for page in await pages.to_list()
    }


def _pages_by(
    authors: Collection[str], commenters: Mapping[tuple[DocumentId, int], set[str]]
) -> dict[DocumentId, list[int]]:
    """Returns the pages of each post with a comment by one of the authors, in order."""
    found: dict[DocumentId, list[int]] = {}
    for post, page in sorted(key for key, people in commenters.items() if not people.isdisjoint(authors)):
        found.setdefault(post, []).append(page)
    return found


class _Reader:
    """What has been read of one post's comments: those to show, and the page to read next."""

    def __init__(self, post: Document, after: Key | None) -> None:
        self.post = post
        self.spilled: int = post.get("spilled") or 0
        self.after = _checked(after)
        self.next_page = 0 if self.after is None else min(self.after[0] // PAGE * PAGE, self.spilled)
        self.is_finished = False
        self.shown: list[Document] = []
        # The time and the id of the last comment that was considered.
        self.last: tuple[datetime, ObjectId] = _BEFORE_ALL if self.after is None else (self.after[1], self.after[2])

    def is_before(self, ends: Mapping[DocumentId, int]) -> bool:
        """Returns whether there is more to read before the end of this post."""
        return not self.is_finished and (
            self.next_page < ends[self.post["_id"]] or ends[self.post["_id"]] == self.spilled
        )

    def end_of(self, width: int) -> int:
        return min(self.next_page + width * PAGE, self.spilled)

    def take(self, end: int, paged: Sequence[Document]) -> list[Document]:
        """Takes the comments of the pages up to `end`, and after the last page the others. Returns those to show."""
        rows = list(paged)
        if end >= self.spilled:
            rows += [_row(comment, self.spilled) for comment in self.post["comments"]]
            self.is_finished = True
        self.next_page = end
        if rows:
            self.last = rows[-1]["posted"], rows[-1]["id"]
        return self._behind_cursor(rows)

    def page(self, db: Database, first: int, after: Key | None) -> Page:
        """Returns the page. If too few comments were found before the last round ended, it ends early."""
        has_more = len(self.shown) > first
        end = None if has_more or self.is_finished else (self.next_page, *self.last)
        listing, collection = comments_of(self.post["_id"]), db[POSTS.name]
        return CommentPage(listing, collection, self.shown[:first], has_more or end is not None, after, end)

    def _behind_cursor(self, rows: list[Document]) -> list[Document]:
        if self.after is None:
            return rows
        _, posted, key = self.after
        place = next((number for number, row in enumerate(rows) if row["id"] == key), None)
        if place is not None:
            self.after = None
            return rows[place + 1 :]
        return [row for row in rows if (row["posted"], row["id"]) > (posted, key)]


def _checked(after: Key | None) -> Key | None:
    """Returns a key whose parts can be compared. Others, which only a forged cursor has, start from the beginning."""
    if after is None or not all(map(isinstance, after, (int, datetime, ObjectId))):
        return None
    return (max(after[0], 0), after[1], after[2])


async def _read_on(db: Database, readers: Sequence[_Reader], width: int, viewer: str | None) -> None:
    ends = {one.post["_id"]: one.end_of(width) for one in readers}
    ranges = [(one.post, one.next_page, ends[one.post["_id"]]) for one in readers]
    pages = await _find_pages(db, ranges)
    rows = {one.post["_id"]: one.take(ends[one.post["_id"]], pages[one.post["_id"]]) for one in readers}
    relations = await _relations_with(db, viewer, [row for some in rows.values() for row in some])
    for one in readers:
        one.shown += without_blocked(rows[one.post["_id"]], relations)


async def _find_posts(db: Database, posts: Sequence[DocumentId]) -> list[Document]:
    query = {"_id": {"$in": list(posts)}}
    found = await db[POSTS.name].find(query, _READ, batch_size=len(posts) + 1).to_list()
    return [{**post, "comments": post.get("comments") or []} for post in found]


async def _find_pages(db: Database, ranges: Sequence[tuple[Document, int, int]]) -> dict[DocumentId, list[Document]]:
    """Returns the comments in pages of posts, from one page to another, each with its page. One command, or none."""
    keys = [{"post": post["_id"], "page": page} for post, start, end in ranges for page in range(start, end, PAGE)]
    found: dict[DocumentId, list[Document]] = {post["_id"]: [] for post, _, _ in ranges}
    removing = {post["_id"]: set(post.get("removing") or ()) for post, _, _ in ranges}
    if keys:
        # With the shard key.
        query = {"post": {"$in": list(found)}, "_id": {"$in": keys}}
        pages = await db[COMMENT_PAGES.name].find(query, {"comments": 1}).to_list()
        for page in sorted(pages, key=lambda page: page["_id"]["page"]):
            post = page["_id"]["post"]
            rows = (_row(comment, page["_id"]["page"]) for comment in page["comments"])
            found[post] += [row for row in rows if row["id"] not in removing[post]]
    return found


def _row(comment: Mapping[str, Any], page: int) -> Document:
    return {**comment, "_id": comment["id"], "page": page}


async def _relations_with(db: Database, viewer: str | None, comments: Sequence[Mapping[str, Any]]) -> Relations:
    return await find_relations(db, viewer, {comment["by"]["id"] for comment in comments})
