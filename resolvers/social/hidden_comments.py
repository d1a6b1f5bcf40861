"""The comments under a member's posts that the member does not see because of a block.

Everybody else sees them there. The author of the post can delete them, and finds them in this list.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.paging import Key, Listing, Page

from . import comment_rows, relations
from .comment_readers import BackwardReader, CommentPage, Reader
from .comment_reads import BY_PLACE, MOST_PAGES
from .comment_rows import Part
from .posts import COMMENT_PAGES, POSTS

# The most pages, of all posts together, among which one read looks for hidden comments.
_MOST_CONSIDERED = 250


def hidden_comments_of(post: DocumentId) -> Listing:
    """Returns the listing of the comments on a post by members with whom its author has a block."""
    return Listing({}, BY_PLACE, named={"hidden comments of": post})


def no_hidden(db: Database, post: DocumentId) -> Page:
    """Returns an empty page, without a read."""
    return CommentPage(hidden_comments_of(post), db[POSTS.name], [], has_next=False)


async def find_hidden(
    db: Database, posts: Sequence[DocumentId], *, author: str, size: int, key: Key | None, is_backwards: bool = False
) -> dict[DocumentId, Page]:
    """Returns a page of the comments on each post that its author does not see because of a block.

    Each comment has its author in `by`, or None if they have blocked the author of the post. Up to five commands for
    all posts, and more only for long pages. Looks for such comments among the next 5,000, and a page ends early if it
    has found too few. Leaves out missing posts.

    Args:     author: the author of all posts.  key: that of a cursor, from `hidden_comments_of`: of `after`, or of
              `before` if `is_backwards`.
    Returns:  a page of each post; if `is_backwards`, of the opposite list.
    """
    kind = BackwardReader if is_backwards else Reader
    readers = {post["_id"]: kind(post, key) for post in await comment_rows.find_posts(db, posts)}
    width = max(1, _MOST_CONSIDERED // max(1, len(readers)))
    parts = {post: one.next_part(width) for post, one in readers.items()}
    commenters = await _commenters_by_page(db, parts)
    embedded = {comment["by"]["id"] for one in readers.values() for comment in one.post["comments"]}
    others = await relations.find_blocks_among(db, author, embedded.union(*commenters.values()))
    await _read(db, readers, parts, _pages_by(others, commenters), others, size)
    authors = {row["by"]["id"] for one in readers.values() for row in one.shown}
    blocking = await relations.find_blocking(db, author, list(authors)) if authors else set()
    return {post: _page_of(db, one, blocking, size, key) for post, one in readers.items()}


async def _read(
    db: Database,
    readers: Mapping[DocumentId, Reader],
    parts: Mapping[DocumentId, Part],
    pages: dict[DocumentId, Sequence[int]],
    others: Collection[str],
    size: int,
) -> None:
    """Reads the comments by the others, a bounded number of pages at a time, until each post has enough of them."""
    while unfinished := [
        (post, one) for post, one in readers.items() if len(one.shown) <= size and one.has_more(parts[post])
    ]:
        width = max(1, MOST_PAGES // len(unfinished))
        wanted: list[tuple[Document, Part]] = []
        for post, one in unfinished:
            some, pages[post] = one.nearest(pages.get(post, ()), width)
            wanted += [(one.post, Part(page, page + 1)) for page in some]
        found = await comment_rows.find_in_pages(db, wanted)
        for post, one in unfinished:
            rows = one.take(one.part_before(pages[post], parts[post]), found.get(post, []))
            one.show([row for row in rows if row["by"]["id"] in others])


def _page_of(db: Database, reader: Reader, blocking: Collection[str], size: int, key: Key | None) -> Page:
    page = reader.page(db, hidden_comments_of(reader.post["_id"]), size, key)
    page.documents = [{**row, "by": None if row["by"]["id"] in blocking else row["by"]} for row in page.documents]
    return page


async def _commenters_by_page(db: Database, parts: Mapping[DocumentId, Part]) -> dict[tuple[DocumentId, int], set[str]]:
    """Returns the authors of the comments in each of these pages. One command, or none."""
    ranges = [
        {"_id": {"$gte": {"post": post, "page": part.start}, "$lt": {"post": post, "page": part.end}}}
        for post, part in parts.items()
        if part.start < part.end
    ]
    if not ranges:
        return {}
    query = {"post": {"$in": [one["_id"]["$gte"]["post"] for one in ranges]}, "$or": ranges}
    pages = db[COMMENT_PAGES.name].find(query, {"comments.by.id": 1}, batch_size=_MOST_CONSIDERED + 1, hint="_id_")
    return {
        (page["_id"]["post"], page["_id"]["page"]): {comment["by"]["id"] for comment in page["comments"]}
        for page in await pages.to_list()
    }


def _pages_by(
    authors: Collection[str], commenters: Mapping[tuple[DocumentId, int], set[str]]
) -> dict[DocumentId, Sequence[int]]:
    """Returns the pages of each post with a comment by one of the authors, in order."""
    found: dict[DocumentId, list[int]] = {}
    for post, page in sorted(key for key, people in commenters.items() if not people.isdisjoint(authors)):
        found.setdefault(post, []).append(page)
    return dict(found)
