"""Changes of the social graph: circles and blocks.

A change writes the deciding member's own document first, with the mark `uncopied`, then the copy in the other member's
document, and then removes the mark (`relation_jobs.finish`). It is acknowledged when both documents have it. If it is
interrupted, a job finishes it.

Everything except `add_to_circle` also works if the other member has blocked the caller, because a block that one could
not take back would be worse. The answer is then NotFound nevertheless, as if there were no such member.

After the copy, the writer looks at both members (*mark, then look*). If the followed member has become merged, the
writer marks its relation: see `merged_authors`. If the name of the circle was removed from the member's list of circles
because the circle was empty, the writer adds it again.

Members do not see who has blocked them. There is one exception: of two who have blocked each other, each finds the
other in `blocked`, to take the own block back. The block stores the name that its member could see then, `known_as`, so
the list never shows a newer one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.texts import require_line
from portico.resolvers.writes.marks import applied_with, is_repeatable, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts

from . import circles, member_rates, members, relation_jobs, relations
from .members import MemberDocument
from .relations import RELATIONS

MAX_CIRCLE_NAME = 64
# Of the times that a member followed another and stopped, the latest are kept. They decide about posts that are still
# being delivered.
_TIMES_KEPT = 8


@dataclass(frozen=True)
class Change:
    """A change of what a member has decided about another.

    `is_done` returns whether a document needs no change, and `pending` is the filter of those that do. `fields` are the
    new values, as expressions. With `keeps_name`, the other member's name is one of them. `circle` is the circle that
    the change may create. With `creates`, a missing document needs the change, too. With `is_visible`, the other member
    must not have blocked this one.
    """

    is_done: Callable[[Document], bool]
    pending: Document
    fields: Document
    circle: str | None = None
    creates: bool = False
    is_visible: bool = False
    keeps_name: bool = False


async def add_to_circle(
    db: Database, *, member: str, other: str, circle: str, rate: int | None, now: datetime, operation_id: str
) -> MemberDocument:
    """Puts another member into a circle of the member. The circle need not exist. Twice is the same as once.

    Args:     rate: the most changes of the graph in a minute; None for no bound.
    Returns:  the other member.
    Raises:   InvalidInput (the name, the member itself, or more than 200 circles), NotFound (the other member, or the
              caller has not joined), RateLimited.
    Writes:   social.members, if the circle is new; then social.relations as described above.
    """
    with InvalidInput.collect() as check:
        name = check(require_circle_name, circle)
        check(_require_another, member, other)
    change = adding(name, now)
    return await _decide(db, member, other, change, rate=rate, now=now, operation_id=operation_id)


async def remove_from_circle(
    db: Database, *, member: str, other: str, circle: str, rate: int | None, now: datetime, operation_id: str
) -> MemberDocument:
    """Takes another member out of a circle of the member. If they are not in it, nothing changes.

    Returns, raises and writes like `add_to_circle`.
    """
    with InvalidInput.collect() as check:
        name = check(require_circle_name, circle)
        check(_require_another, member, other)
    change = removing(name, now)
    return await _decide(db, member, other, change, rate=rate, now=now, operation_id=operation_id)


async def block(
    db: Database, *, member: str, other: str, rate: int | None, now: datetime, operation_id: str
) -> MemberDocument:
    """Blocks another member. Circles stay as they are.

    Returns:  the other member.
    Raises:   InvalidInput (the member itself), NotFound, RateLimited.
    Writes:   social.relations as described above.
    """
    return await _decide(db, member, other, _BLOCK, rate=rate, now=now, operation_id=operation_id)


async def unblock(
    db: Database, *, member: str, other: str, rate: int | None, now: datetime, operation_id: str
) -> MemberDocument:
    """Takes a block back. Returns, raises and writes like `block`."""
    return await _decide(db, member, other, _UNBLOCK, rate=rate, now=now, operation_id=operation_id)


def _require_another(member: str, other: str) -> None:
    if member == other:
        text = "You cannot put yourself into a circle, or block yourself."
        raise InvalidInput(text, "user_id", code=InvalidInput.NOT_ALLOWED)


def require_circle_name(circle: str) -> str:
    """Returns the name of a circle without surrounding blanks: 1 to 64 characters of any text. Raises InvalidInput."""
    return require_line(circle, "circle", longest=MAX_CIRCLE_NAME)


def adding(circle: str, now: datetime) -> Change:
    """Returns the change that puts the other member into the circle."""
    return Change(
        is_done=lambda relation: circle in relation.get("circles", ()),
        pending={"circles": {"$ne": circle}},
        fields={
            "circles": {"$concatArrays": [{"$ifNull": ["$circles", []]}, [{"$literal": circle}]]},
            "since": {"$ifNull": ["$since", now]},
        },
        circle=circle,
        creates=True,
        is_visible=True,
    )


def removing(circle: str, now: datetime) -> Change:
    """Returns the change that takes the other member out of the circle. With the last circle, following them ends."""
    left = {"$filter": {"input": "$circles", "cond": {"$ne": ["$$this", {"$literal": circle}]}}}
    before = {"$ifNull": ["$followed_before", []]}
    ended = {"$concatArrays": [before, [{"since": "$since", "until": now}]]}
    kept = {"$ifNull": ["$followed_before", "$$REMOVE"]}
    return Change(
        is_done=lambda relation: circle not in relation.get("circles", ()),
        pending={"circles": circle},
        fields={
            "circles": left,
            "followed_before": {"$cond": [{"$eq": [left, []]}, {"$slice": [ended, -_TIMES_KEPT]}, kept]},
            **{name: {"$cond": [{"$eq": [left, []]}, "$$REMOVE", f"${name}"]} for name in ("since", "is_merged")},
        },
    )


_BLOCK = Change(
    lambda relation: bool(relation.get("blocks")),
    {"blocks": {"$ne": True}},
    {"blocks": True},
    creates=True,
    keeps_name=True,
)
_UNBLOCK = Change(
    lambda relation: not relation.get("blocks"), {"blocks": True}, {"blocks": False, "known_as": "$$REMOVE"}
)


def _naming(change: Change, name: str) -> Change:
    """Returns the change with the current name of the other member, unless that member has blocked this one."""
    known_as = {"$cond": [{"$eq": ["$blocked", True]}, "$$REMOVE", {"$literal": name}]}
    return replace(change, fields={**change.fields, "known_as": known_as})


async def _decide(
    db: Database,
    member: str,
    other: str,
    change: Change,
    *,
    rate: int | None,
    now: datetime,
    operation_id: str,
) -> MemberDocument:
    """Makes the change and returns the other member. Raises NotFound after it if they have blocked this member."""
    _require_another(member, other)
    own, found = await members.require_both(db, member, other)
    relation = await relations.find_one(db, member, other) or {}
    _require_visible(relation, change)
    if _is_settled(relation, change, operation_id):
        await relation_jobs.finish(db, relation)
    else:
        try:
            await member_rates.count(db, member, member_rates.GRAPH, rate=rate, now=now, operation_id=operation_id)
        except member_rates.RateLimited:
            # A member who does not exist for the caller must not be told from one who does not exist at all.
            if relation.get("blocked"):
                raise NotFound(members.USER, other) from None
            raise
        if change.circle is not None:
            await circles.require_room(db, own, change.circle)
        if change.keeps_name:
            change = _naming(change, found["name"])
        relation = await _apply(db, member, other, change, now=now, operation_id=operation_id)
    if relation.get("blocked"):
        raise NotFound(members.USER, other)
    return found


async def _apply(
    db: Database, member: str, other: str, change: Change, *, now: datetime, operation_id: str
) -> Document:
    """Writes the change into the member's own document, and finishes it. Returns the document as it was written."""
    key = relations.key_of(member, other)
    pending = {**key, **change.pending, **not_applied(operation_id)}
    if change.is_visible:
        pending["blocked"] = {"$ne": True}
    update = [{"$set": {**change.fields, **deciding(now, operation_id)}}]
    async for _ in attempts():
        relation: Document | None
        try:
            relation = await db[RELATIONS.name].find_one_and_update(
                pending, update, upsert=change.creates, return_document=ReturnDocument.AFTER
            )
        except DuplicateKeyError:
            # The document exists, and the filter does not match it.
            relation = None
        if relation is None:
            relation = await relations.find_one(db, member, other) or {}
            _require_visible(relation, change)
            if not _is_settled(relation, change, operation_id):
                continue
        await relation_jobs.finish(db, relation)
        if relation:
            await trim_marks(db, RELATIONS, relation)
        return relation
    raise Conflict("Other calls keep changing this relation. Try again.")


def deciding(now: datetime, operation_id: str) -> Document:
    """Returns the fields that every change of the deciding document sets, as expressions."""
    fields: dict[str, Any] = {
        "version": {"$add": [{"$ifNull": ["$version", 0]}, 1]},
        "uncopied": {"$literal": {"op": operation_id, "at": now}},
        "schema_version": RELATIONS.version,
    }
    if is_repeatable(operation_id):
        fields["applied"] = applied_with(operation_id)
    return fields


def _is_settled(relation: Document, change: Change, operation_id: str) -> bool:
    return change.is_done(relation) or was_applied(relation, operation_id)


def _require_visible(relation: Document, change: Change) -> None:
    if change.is_visible and relation.get("blocked"):
        raise NotFound(members.USER, str(relation["to"]))
