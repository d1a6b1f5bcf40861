"""Writes posts and deletes them.

A post is one insert. It carries its pending fan-out, so the insert is the whole decision: see `fan_out`. If nobody
followed the author before the insert, no news feed needs the post, and it has no fan-out. A deletion is one update,
after which no reader shows the post: see `post_jobs` for what is removed later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.together import both
from portico.resolvers.writes.marks import derived_id, mark_applied, was_applied
from portico.resolvers.writes.settler import AT_ONCE, Answering

from . import circles, members, relations
from .fan_out_order import LEASE
from .member_rates import Counting
from .post_rules import require_detail
from .posts import POSTS, PUBLIC, SELECTED

KIND = "Post"


class Poster(NamedTuple):
    """A member who is about to post: {id, name}, and whether news feeds may need the post."""

    author: Document
    has_recipients: bool


async def require_poster(db: Database, subject: str) -> Poster:
    """Returns the caller as the author of a post. Raises NotFound if the caller has not joined.

    Somebody who begins to follow the author after this read does so while the post is being written.
    """
    shown = {"name": 1, "is_merged": 1}
    member, is_followed = await both(members.require(db, subject, shown), relations.is_followed(db, subject))
    # The posts of a merged author are marked when they are delivered.
    return Poster({"id": member["_id"], "name": member["name"]}, is_followed or bool(member.get("is_merged")))


async def create_post(
    db: Database,
    *,
    author: Document,
    to: str | None = None,
    kind: str,
    detail: Mapping[str, Any],
    audience: str = PUBLIC,
    circle_names: Sequence[str] = (),
    now: datetime,
    operation_id: str,
    posted: datetime | None = None,
    has_recipients: bool = True,
    claim: str | None = None,
    counting: Counting | None = None,
    answering: Answering = AT_ONCE,
) -> Document:
    """Posts on the author's wall, or on the wall of the member `to`. The news feeds get the post later.

    Args:     author: {id, name} of a member.  kind, detail: as in `post_rules.require_detail`.
              circle_names: with SELECTED, one or more circles of the author.  posted: of an imported post.
              has_recipients: whether news feeds may need the post.  answering: how the call is answered.
              claim: of the process, if it delivers the post itself: see `fresh_posts`.  counting: counts the post.
    Returns:  the post.
    Raises:   InvalidInput; RateLimited; NotFound: there is no member `to`, or one of the two has blocked the other, or
              the post has been deleted since an earlier call with this id.
    Writes:   social.posts; one insert.
    """
    post_id = derived_id(operation_id, "post")
    if answering.is_repeated and (earlier := await _find_earlier(db, post_id)):
        return earlier
    content = _require_content(kind, detail, audience, circle_names)
    seen_by = {"audience": audience, "circles": await require_circles(db, author["id"], audience, circle_names)}
    owner = author if to in {None, author["id"]} else await _require_owner(db, author["id"], str(to))
    delivery = pending_delivery(now, claim) if has_recipients else {}
    post = {"_id": post_id, **_on_walls(author, owner), **seen_by, **content, **_new(posted or now, now), **delivery}
    await answering.confirmed()
    if counting is not None:
        await counting.counted()
    return await _insert(db, post)


def _require_content(kind: str, detail: Mapping[str, Any], audience: str, circle_names: Sequence[str]) -> Document:
    """Returns {type, detail}. Raises InvalidInput for these and for the names of circles."""
    with InvalidInput.collect() as check:
        content = {"type": kind, "detail": check(require_detail, kind, detail)}
        check(require_circle_names, audience, circle_names)
    return content


async def _insert(db: Database, post: Document) -> Document:
    """Decides. Returns the post, or the one that another call with the same id has created."""
    try:
        await db[POSTS.name].insert_one(post)
    except DuplicateKeyError:
        return await _find_earlier(db, post["_id"]) or post
    return post


def _on_walls(author: Document, owner: Document) -> Document:
    return {"by": author, "to": owner, "walls": list(dict.fromkeys((author["id"], owner["id"])))}


def _new(posted: datetime, now: datetime) -> Document:
    """Returns the fields of a post without comments."""
    return {
        "posted": posted,
        "created": now,
        "comments": [],
        "comment_count": 0,
        "spilled": 0,
        "version": 0,
    }


def pending_delivery(now: datetime, claim: str | None = None) -> Document:
    """Returns the fields of a post that news feeds may lack, with the claim of its worker: see `fan_out`."""
    claimed = {"due": now} if claim is None else {"due": now + LEASE, "op": claim}
    return {"fan_out": {"after": None, **claimed}}


async def _find_earlier(db: Database, post_id: ObjectId) -> Document | None:
    """Returns the post that an earlier call with the same id has created. Raises NotFound if it has been deleted."""
    found = await db[POSTS.name].find_one({"_id": post_id})
    if found is not None and "deleted" in found:
        raise NotFound(KIND, str(post_id))
    return found


def require_circle_names(audience: str, names: Sequence[str]) -> list[str]:
    """Returns the names of the circles of a post, each once. Raises InvalidInput if the audience has no such names."""
    named = list(dict.fromkeys(name.strip() for name in names))
    if audience != SELECTED:
        if named:
            text = f"Only a post with the audience {SELECTED} names circles."
            raise InvalidInput(text, "circles", code=InvalidInput.NOT_ALLOWED)
        return []
    if not 1 <= len(named) <= circles.MAX_CIRCLES:
        text = f"With the audience {SELECTED}, name 1 to {circles.MAX_CIRCLES} circles."
        code = InvalidInput.TOO_MANY if named else InvalidInput.TOO_FEW
        raise InvalidInput(text, "circles", code=code, least=1, most=circles.MAX_CIRCLES)
    return named


async def require_circles(db: Database, author: str, audience: str, names: Sequence[str]) -> list[str]:
    """Returns the circles of a post, each once. Raises InvalidInput."""
    named = require_circle_names(audience, names)
    there = await circles.existing(db, author, named) if named else []
    with InvalidInput.collect() as check:
        for number, name in enumerate(names):
            if named and name.strip() not in there:
                text = "You have no circle of this name."
                check.refuse(InvalidInput(text, "circles", str(number), code=InvalidInput.UNKNOWN))
    return named


async def _require_owner(db: Database, author: str, to: str) -> Document:
    """Returns {id, name} of the member whose wall it is. Raises NotFound."""
    owner = (await members.find_by_ids(db, [to], {"name": 1})).get(to)
    if owner is None or relations.has_block(await relations.find_one(db, author, to, relations.DECIDING) or {}):
        raise NotFound(members.USER, to)
    return {"id": owner["_id"], "name": owner["name"]}


async def delete_post(db: Database, *, post_id: ObjectId, now: datetime, operation_id: str) -> None:
    """Deletes a post. From now on, no reader shows it. Ends its fan-out.

    Raises:   NotFound, unless an earlier call with this id has deleted it.
    Writes:   social.posts; one guarded update.
    """
    guard = {"_id": post_id, "deleted": {"$exists": False}}
    update = {
        "$set": {"deleted": now, "remove_at": now},
        "$unset": {"fan_out": ""},
        **mark_applied(operation_id),
    }
    if not (await db[POSTS.name].update_one(guard, update)).matched_count:
        await require_applied(db, post_id, operation_id)


async def require_applied(db: Database, post_id: ObjectId, operation_id: str) -> None:
    """Raises NotFound (the post), unless the operation has changed the post before."""
    found = await db[POSTS.name].find_one({"_id": post_id}, {"applied": 1})
    if found is None or not was_applied(found, operation_id):
        raise NotFound(KIND, str(post_id))
