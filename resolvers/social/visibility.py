"""Who sees what of a post: the rule, and the reads that it needs.

The order of reads matters. A reader first reads a post, and then what decides about it. A block, a change of circles or
a deletion that is acknowledged before the reader began is then always seen. In the other order, a reader could show a
new post by an old permission. So nothing here is kept for a later read.

Circles are evaluated when a post is read, and not when it is written.

A post shows its author and the owner of its wall. If one of them has a block with the viewer, the viewer does not see
the post, with one exception: authors see their own posts on the walls of members who have blocked them. There, `to` is
null. `tests/social/test_hidden_paths.py` asks for every field of the schema as a blocked member, and compares the
answers with those of a network in which the blocker never joined.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import repeat
from typing import Any

from pymongo import ReadPreference

from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.parts import as_part
from portico.resolvers.writes.sweeps import DAMAGED

from . import relations as relations_of
from .posts import CIRCLES, COMMENT_PAGES, POSTS, PUBLIC, SELECTED

# The paths of a post that decide who sees it.
DECIDING = ("_id", "by.id", "to.id", "audience", "circles", "deleted")

# The most pages of a post whose hidden comments a count leaves out.
MAX_COUNTED_PAGES = 100
# The most members with a block whose comments a count leaves out.
MAX_COUNTED_BLOCKS = 1_000

# What the viewer knows of other members, by their subjects.
Relations = Mapping[str, Document]


def primary(db: Database) -> Database:
    """Returns the database for reads that must see every acknowledged write."""
    if db.read_preference == ReadPreference.PRIMARY:
        return db
    return db.with_options(read_preference=ReadPreference.PRIMARY)


def people_of(post: Mapping[str, Any]) -> set[str]:
    """Returns the members whose relations with the viewer decide what the viewer sees of the post."""
    return {post["by"]["id"], post["to"]["id"], *commenters_of(post)}


def people_in(posts: Iterable[Mapping[str, Any]]) -> set[str]:
    """Returns the same for several posts. Leaves out damaged ones."""
    people: set[str] = set()
    for post in posts:
        with contextlib.suppress(*DAMAGED):
            people |= people_of(post)
    return people


def commenters_of(post: Mapping[str, Any]) -> list[str]:
    """Returns the author of each comment in the post. `commenters` has them if not all comments were read."""
    found: list[str] | None = post.get("commenters")
    return [comment["by"]["id"] for comment in post.get("comments") or ()] if found is None else found


def circles_in(posts: Iterable[Mapping[str, Any]]) -> set[str]:
    """Returns the circles that the posts name. Leaves out damaged ones."""
    circles: set[str] = set()
    for post in posts:
        with contextlib.suppress(*DAMAGED):
            circles |= set(post.get("circles") or ())
    return circles


async def find_relations(
    db: Database,
    viewer: str | None,
    others: Collection[str],
    circles: Collection[str] = (),
    *,
    with_follows: bool = False,
) -> dict[str, Document]:
    """Returns the relations of the viewer with these members, by their subjects. One command, or none.

    They have what decides about posts that name these circles; `follows` needs `with_follows`. So a live query does not
    run again after other changes of them.
    """
    wanted = [other for other in others if other != viewer]
    if viewer is None or not wanted:
        return {}

    async def read(db: Database) -> dict[str, Document]:
        found = await relations_of.find(db, viewer, wanted)
        deciding = {other: _deciding(found[other], circles, with_follows=with_follows) for other in sorted(found)}
        return {other: relation for other, relation in deciding.items() if relation}

    return await as_part(db, read)


def _deciding(relation: Document, circles: Collection[str], *, with_follows: bool) -> Document:
    """Returns what of a relation decides about posts that name these circles."""
    found: Document = {path: True for path in ("blocks", "blocked") if relation.get(path)}
    if names := relation.get("in_circles"):
        # The empty text names no circle. It stands for all others.
        found["in_circles"] = [name for name in names if name in circles] or [""]
    if with_follows and relations_of.follows(relation):
        found["circles"] = True
    return found


def is_blocked(relations: Relations, other: str) -> bool:
    """Returns whether one of the viewer and this member has blocked the other."""
    relation = relations.get(other)
    return relation is not None and relations_of.has_block(relation)


def follows(relations: Relations, other: str) -> bool:
    """Returns whether the viewer follows this member."""
    relation = relations.get(other)
    return relation is not None and relations_of.follows(relation)


def is_visible(post: Mapping[str, Any], viewer: str | None, relations: Relations) -> bool:
    """Returns whether the viewer sees the post; None is an anonymous viewer.

    Args:     relations: with the author and the owner of the wall at least, read after the post.
    Source:   MongoDB Applied Design Patterns, ch. 8, "Viewing a News Feed or Wall Posts", with blocks both ways.
    """
    if post.get("deleted") is not None:
        return False
    author, owner = post["by"]["id"], post["to"]["id"]
    if viewer is not None and viewer == author:
        return True
    if is_blocked(relations, author) or is_blocked(relations, owner):
        return False
    return (viewer is not None and viewer == owner) or is_in_audience(post, relations)


def is_in_audience(post: Mapping[str, Any], relations: Relations) -> bool:
    """Returns whether the post is public, or the viewer is in the circles that it is for.

    Args:     relations: with the author at least.
    """
    if post["audience"] == PUBLIC:
        return True
    circles = relations.get(post["by"]["id"], {}).get("in_circles") or ()
    if post["audience"] == CIRCLES:
        return bool(circles)
    return post["audience"] == SELECTED and not set(circles).isdisjoint(post.get("circles") or ())


def is_for_feed(post: Mapping[str, Any], member: str, relations: Relations) -> bool:
    """Returns whether the post by another can be in the news feed of this member.

    They follow its author, and are in its audience. A post for others on the member's own wall is among the incoming
    posts, however it was delivered.
    """
    author = post["by"]["id"]
    return author != member and follows(relations, author) and is_in_audience(post, relations)


def shown_to(
    post: Mapping[str, Any], viewer: str | None, relations: Relations, *, hidden_in_pages: int = 0
) -> Document | None:
    """Returns the post as the viewer sees it, or None.

    Without the names of circles, except for the author, and without comments by members with a block. Without the owner
    of the wall if they have blocked the viewer, because members do not see the names of those who have blocked them.

    Args:     relations: with the author, the owner of the wall and the authors of the comments, read after the post.
              hidden_in_pages: how many comments in pages the viewer does not see.
    """
    if not is_visible(post, viewer, relations):
        return None
    view = dict(post)
    if view["by"]["id"] != viewer:
        view.pop("circles", None)
    if relations.get(post["to"]["id"], {}).get("blocked"):
        view["to"] = None
    if "comments" in view:
        view["comments"] = without_blocked(view["comments"], relations)
    if "comment_count" in view:
        hidden = sum(is_blocked(relations, commenter) for commenter in commenters_of(post))
        view["comment_count"] -= hidden + hidden_in_pages
    return view


def without_blocked(comments: Sequence[Document], relations: Relations) -> list[Document]:
    """Returns the comments by members without a block."""
    return [comment for comment in comments if not is_blocked(relations, comment["by"]["id"])]


async def count_hidden_in_pages(db: Database, viewer: str | None, posts: Sequence[Mapping[str, Any]]) -> dict[Any, int]:
    """Returns how many comments in pages the viewer does not see because of blocks, by post.

    No command if no post has pages, one if the viewer has no blocks, and otherwise two. An index has the commenters of
    each post. The server looks for the members with a block there, and reads up to 100 pages of each post with comments
    by them. Each of these pages has at least one, so a count is exact for up to 100 hidden comments of a post, and if
    the viewer has blocks with MAX_COUNTED_BLOCKS members at most.
    """
    paged = {post["_id"]: post for post in posts if post.get("spilled") and "comment_count" in post}
    if viewer is None or not paged:
        return {}
    hidden = set(await relations_of.find_blocks(db, viewer, MAX_COUNTED_BLOCKS))
    if not hidden:
        return {}
    removing = {comment for post in paged.values() for comment in post.get("removing") or ()}
    shown = {"by": "$comments.by.id", **({"ids": "$comments.id"} if removing else {})}
    stages = _pages_by(sorted(hidden), list(paged), shown)
    counts: dict[Any, int] = {}
    found = await (await db[POSTS.name].aggregate(stages, batchSize=len(paged) + 1)).to_list()
    for post, page in ((one["_id"], page) for one in found for page in one["pages"]):
        if page["_id"]["page"] < paged[post]["spilled"]:
            kept = [key not in removing for key in page["ids"]] if removing else repeat(True)
            count = sum(author in hidden and is_kept for author, is_kept in zip(page["by"], kept, strict=False))
            counts[post] = counts.get(post, 0) + count
    return counts


def _pages_by(authors: Sequence[str], posts: Sequence[DocumentId], shown: Document) -> list[Document]:
    """Returns the stages that find the `pages` with comments by the authors, a bounded number of each post."""
    wanted = [{"$match": {"comments.by.id": {"$in": authors}}}, {"$limit": MAX_COUNTED_PAGES}, {"$project": shown}]
    found = {"from": COMMENT_PAGES.name, "localField": "_id", "foreignField": "post", "pipeline": wanted, "as": "pages"}
    return [
        {"$match": {"_id": {"$in": posts}}},
        {"$project": {"_id": 1}},
        {"$lookup": found},
    ]


async def show_posts(
    db: Database, viewer: str | None, posts: Sequence[Mapping[str, Any]]
) -> list[Document | Exception | None]:
    """Returns each post as the viewer sees it, None, or the error of a damaged post.

    The posts must have been read before the call. One command for all of them; see also `count_hidden_in_pages`.
    """
    relations = await find_relations(db, viewer, people_in(posts), circles_in(posts))
    hidden = await count_hidden_in_pages(db, viewer, posts)
    return [_view_of(post, viewer, relations, hidden.get(post["_id"], 0)) for post in posts]


def _view_of(
    post: Mapping[str, Any], viewer: str | None, relations: Relations, hidden_in_pages: int
) -> Document | Exception | None:
    try:
        return shown_to(post, viewer, relations, hidden_in_pages=hidden_in_pages)
    except DAMAGED as error:
        return error
