"""Writes the comments of posts.

A new comment is one update of the post. When a post holds `FULL` comments, its oldest `PAGE` comments move to a page:

1. The page is written, with the `version` of the post that was read. A page of a later version is not overwritten.
2. One update of the post, guarded by that version, removes the comments and adds to `spilled`. The page is now valid.

`version` changes with every removal and every rename of stored comments, but not with a new comment, which comes behind
the oldest ones. So a page that becomes valid has the comments as they are, and many writers do not delay each other.
After a crash between the two steps, the next move of comments overwrites the page.

A comment in the post is removed by one update. For a comment in a page:

1. One update of the post, guarded by the version, counts one comment less, and adds the comment to `removing`. This is
   the decision: no reader shows the comment any more.
2. It is removed from its page, and then from `removing`. After a crash, a job does this.
"""

from __future__ import annotations

import contextlib
from datetime import datetime

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.writes.marks import (
    applied_with,
    derived_id,
    is_repeatable,
    mark_applied,
    not_applied,
    trim_marks,
    was_applied,
)
from portico.resolvers.writes.retries import attempts

from .member_rates import Counting
from .post_rules import require_comment_text
from .posts import COMMENT_PAGES, MOST_HELD, PAGE, POSTS

KIND = "Post"
COMMENT = "PostComment"
# From this number of comments in a post, the oldest ones move to a page.
FULL = 40
_LIVE = {"deleted": {"$exists": False}}


async def comment_on_post(
    db: Database,
    *,
    post_id: ObjectId,
    author: Document,
    text: str,
    now: datetime,
    operation_id: str,
    counting: Counting | None = None,
) -> ObjectId:
    """Adds a comment to a post that the author may see.

    The comment is posted later than the comment before it, even if clocks differ.

    Args:     author: {id, name} of a member.  counting: counts the comment.
    Returns:  the id of the comment.
    Raises:   InvalidInput (the text), NotFound (the post), RateLimited, Conflict (too many others comment at the same
              time).
    Writes:   social.posts; one guarded update. Once in 20 comments, the oldest ones move: see above.
    """
    comment_id = derived_id(operation_id, "comment")
    comment: Document = {"id": comment_id, "by": author, "text": require_comment_text(text)}
    if is_repeatable(operation_id) and await _was_applied(db, post_id, operation_id):
        if counting is not None:
            await counting.take_back()
        return comment_id
    if counting is not None:
        await counting.counted()
    async for _ in attempts():
        if await _add(db, post_id, comment, now, operation_id) or await _was_applied(db, post_id, operation_id):
            return comment_id
        await move_comments(db, post_id)
    raise Conflict("Too many members comment on this post at the same time. Retry later.")


async def _add(db: Database, post_id: ObjectId, comment: Document, now: datetime, operation_id: str) -> bool:
    """Adds the comment, unless the post is gone, has no room, or has been changed by the operation before.

    Returns:  whether it has.
    """
    has_room = {f"comments.{MOST_HELD - 1}": {"$exists": False}}
    guard = {"_id": post_id, **_LIVE, **has_room, **not_applied(operation_id)}
    # If the driver sends the write again, the server returns the whole document, and computes nothing.
    shown = {"applied": 1, "comments.id": 1}
    found = await db[POSTS.name].find_one_and_update(
        guard, _push(comment, now, operation_id), shown, return_document=ReturnDocument.AFTER
    )
    if found is None:
        return False
    if len(found["comments"]) >= FULL:
        await move_comments(db, post_id)
    await trim_marks(db, POSTS, found)
    return True


def _push(comment: Document, now: datetime, operation_id: str) -> list[Document]:
    added = {**{name: {"$literal": value} for name, value in comment.items()}, "posted": "$commented"}
    return [
        {"$set": {"commented": {"$max": [now, {"$add": ["$commented", 1]}]}}},
        {
            "$set": {
                "comments": {"$concatArrays": ["$comments", [added]]},
                "comment_count": {"$add": ["$comment_count", 1]},
                "applied": applied_with(operation_id),
            }
        },
    ]


async def move_comments(db: Database, post_id: ObjectId) -> None:
    """Moves the oldest comments of a post to a page, if it holds `FULL` comments. Another writer may do the same.

    Writes:   social.comment_pages, then social.posts; guarded by the version of the post.
    """
    shown = {"version": 1, "spilled": 1, "held": {"$size": "$comments"}, "comments": {"$slice": ["$comments", PAGE]}}
    post = await db[POSTS.name].find_one({"_id": post_id, **_LIVE}, shown)
    if post is None or post["held"] < FULL:
        return
    version, spilled, oldest = post["version"], post["spilled"], post["comments"]
    page = {"_id": {"post": post_id, "page": spilled}, "post": post_id}
    written = {"$set": {"version": version, "comments": oldest}}
    # If the page exists with this version, it has the same comments. If it has a later version, so has the post.
    with contextlib.suppress(DuplicateKeyError):
        await db[COMMENT_PAGES.name].update_one({**page, "version": {"$lt": version}}, written, upsert=True)
    await db[POSTS.name].update_one(
        {"_id": post_id, "version": version, "spilled": spilled, **_LIVE},
        {
            "$pull": {"comments": {"id": {"$in": [one["id"] for one in oldest]}}},
            "$inc": {"spilled": PAGE, "version": 1},
        },
    )


async def find_comment(db: Database, post_id: ObjectId, comment_id: ObjectId) -> Document | None:
    """Returns a comment of a post, as it is stored; None if it does not exist or is being removed."""
    found = await _find(db, post_id, comment_id)
    return None if found is None else found[1]


async def _find(db: Database, post_id: ObjectId, comment_id: ObjectId) -> tuple[Document, Document] | None:
    """Returns the post, with `version` and `is_embedded`, and the comment."""
    cell = {"comments": {"$elemMatch": {"id": comment_id}}}
    # A comment can move between the two reads. It never moves back.
    post = await db[POSTS.name].find_one(
        {"_id": post_id, **_LIVE}, {"version": 1, "spilled": 1, "removing": 1, "applied": 1, **cell}
    )
    if post is None or comment_id in post.get("removing", ()):
        return None
    if "comments" in post:
        return {**post, "is_embedded": True}, post["comments"][0]
    page = await db[COMMENT_PAGES.name].find_one({"post": post_id, "comments.id": comment_id}, cell)
    if page is None or page["_id"]["page"] >= post["spilled"]:
        # A page that never became valid can have comments that have been removed since.
        return None
    return {**post, "is_embedded": False}, page["comments"][0]


async def delete_comment(db: Database, *, post_id: ObjectId, comment_id: ObjectId, operation_id: str) -> None:
    """Deletes a comment of a post. From now on, no reader shows it, and it is not counted.

    Raises:   NotFound (the comment), unless an earlier call with this id has deleted it; Conflict.
    Writes:   social.posts; one guarded update. For a comment in a page, then social.comment_pages and social.posts.
    """
    mark = mark_applied(operation_id)
    async for _ in attempts():
        found = await _find(db, post_id, comment_id)
        if found is None:
            if await was_deleted(db, post_id, operation_id):
                return
            raise NotFound(COMMENT, str(comment_id))
        post = found[0]
        counted = {"comment_count": -1, "version": 1}
        guard = {"_id": post_id, **_LIVE, **not_applied(operation_id)}
        if post["is_embedded"]:
            update: Document = {"$pull": {"comments": {"id": comment_id}}, "$inc": counted, **mark}
            guard["comments.id"] = comment_id
        else:
            push = {**mark.get("$push", {}), "removing": comment_id}
            update = {"$push": push, "$inc": counted}
            guard["version"] = post["version"]
        if (await db[POSTS.name].update_one(guard, update)).matched_count:
            if not post["is_embedded"]:
                await finish_removal(db, post_id, comment_id)
            await trim_marks(db, POSTS, post)
            return
    raise Conflict("Others change the comments of this post at the same time. Retry later.")


async def finish_removal(db: Database, post_id: ObjectId, comment_id: ObjectId) -> None:
    """Removes a comment in `removing` from its page. May be repeated."""
    await db[COMMENT_PAGES.name].update_one(
        {"post": post_id, "comments.id": comment_id}, {"$pull": {"comments": {"id": comment_id}}}
    )
    rest = {"$filter": {"input": "$removing", "cond": {"$ne": ["$$this", comment_id]}}}
    kept = {"$let": {"vars": {"rest": rest}, "in": {"$cond": [{"$eq": ["$$rest", []]}, "$$REMOVE", "$$rest"]}}}
    await db[POSTS.name].update_one({"_id": post_id, "removing": comment_id}, [{"$set": {"removing": kept}}])


async def _was_applied(db: Database, post_id: ObjectId, operation_id: str) -> bool:
    """Returns whether an earlier call with this id has changed the post. Raises NotFound if there is no such post."""
    found = await db[POSTS.name].find_one({"_id": post_id, **_LIVE}, {"applied": 1})
    if found is None:
        raise NotFound(KIND, str(post_id))
    return was_applied(found, operation_id)


async def was_deleted(db: Database, post_id: ObjectId, operation_id: str) -> bool:
    """Returns whether an earlier call with this id has deleted a comment of this post."""
    return is_repeatable(operation_id) and await _was_applied(db, post_id, operation_id)
