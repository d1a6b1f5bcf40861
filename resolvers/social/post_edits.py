"""Writes posts and deletes them.

A post is one insert. It carries its pending fan-out, so the insert is the whole decision: see `fan_out`. A deletion is
one update, after which no reader shows the post: see `post_jobs` for what is removed later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.writes import idempotency

from .members import MEMBERS
from .post_rules import require_detail
from .posts import POSTS
from .relations import RELATIONS

KIND = "Post"
USER = "User"
PUBLIC, CIRCLES, SELECTED = "PUBLIC", "CIRCLES", "SELECTED"


async def create_post(
    db: Database,
    *,
    author: Document,
    to: str | None = None,
    kind: str,
    detail: Mapping[str, Any],
    audience: str = PUBLIC,
    circles: Sequence[str] = (),
    now: datetime,
    operation_id: str,
    posted: datetime | None = None,
) -> Document:
    """Posts on the author's wall, or on the wall of the member `to`. The news feeds get the post later.

    Args:     author: {id, name} of a member.  kind, detail: as in `post_rules.require_detail`.
              circles: with SELECTED, one or more circles of the author.  posted: of an imported post.
    Returns:  the post.
    Raises:   InvalidInput; NotFound: there is no member `to`, or one of the two has blocked the other, or the post has
              been deleted since an earlier call with this id.
    Writes:   social.posts; one insert.
    """
    stored = require_detail(kind, detail)
    named = await _require_circles(db, author["id"], audience, circles)
    owner = author if to in {None, author["id"]} else await _require_owner(db, author["id"], str(to))
    post: Document = {
        "_id": idempotency.derived_id(operation_id, "post"),
        "by": author,
        "to": owner,
        "walls": list(dict.fromkeys((author["id"], owner["id"]))),
        "audience": audience,
        "circles": named,
        "type": kind,
        "detail": stored,
        "posted": posted or now,
        "created": now,
        "comments": [],
        "comment_count": 0,
        "spilled": 0,
        "version": 0,
        "fan_out": {"after": None, "due": now},
    }
    try:
        await db[POSTS.name].insert_one(post)
    except DuplicateKeyError:
        found = await db[POSTS.name].find_one({"_id": post["_id"], "deleted": {"$exists": False}})
        if found is None:
            raise NotFound(KIND, str(post["_id"])) from None
        return found
    return post


async def _require_circles(db: Database, author: str, audience: str, circles: Sequence[str]) -> list[str]:
    """Returns the circles of a new post, each once. Raises InvalidInput."""
    named = list(dict.fromkeys(circles))
    if audience != SELECTED:
        if named:
            raise InvalidInput(f"Only a post with the audience {SELECTED} names circles.", "circles")
        return []
    if not named:
        raise InvalidInput(f"A post with the audience {SELECTED} names at least one circle.", "circles")
    member = await db[MEMBERS.name].find_one({"_id": author}, {"circles": 1})
    known = set() if member is None else set(member.get("circles", ()))
    for number, name in enumerate(named):
        if name not in known:
            raise InvalidInput("You have no circle of this name.", "circles", str(number))
    return named


async def _require_owner(db: Database, author: str, to: str) -> Document:
    """Returns {id, name} of the member whose wall it is. Raises NotFound."""
    owner = await db[MEMBERS.name].find_one({"_id": to}, {"name": 1})
    if owner is None:
        raise NotFound(USER, to)
    relation = await db[RELATIONS.name].find_one({"of": author, "to": to}, {"blocks": 1, "blocked": 1})
    if relation is not None and (relation.get("blocks") or relation.get("blocked")):
        raise NotFound(USER, to)
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
        **idempotency.mark_applied(operation_id),
    }
    if not (await db[POSTS.name].update_one(guard, update)).matched_count:
        await require_applied(db, post_id, operation_id)


async def require_applied(db: Database, post_id: ObjectId, operation_id: str) -> None:
    """Raises NotFound (the post), unless the operation has changed the post before."""
    found = await db[POSTS.name].find_one({"_id": post_id}, {"applied": 1})
    if found is None or not idempotency.was_applied(found, operation_id):
        raise NotFound(KIND, str(post_id))
