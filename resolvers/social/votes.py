"""Votes on polls. A member has one vote, and the latest one counts.

The votes of a poll are in 64 slots, by a hash of the voter. One update of a slot changes a vote together with the
counts, so voters of different slots do not delay each other.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.writes.marks import applied_with, is_repeatable, not_applied, trim_marks, was_applied
from portico.resolvers.writes.settler import AT_ONCE, Answering

from .member_rates import Counting, RateLimited
from .post_rules import POLL
from .posts import POSTS, VOTES

KIND = "Post"
SLOTS = 64


def slot_of(post_id: ObjectId, voter: str) -> Document:
    """Returns the key of the slot with the vote of a member: {post, slot}."""
    return {"post": post_id, "slot": slot_number(voter)}


def slot_number(voter: str) -> int:
    """Returns the number of the slot with the votes of a member, which is the same for all polls."""
    digest = hashlib.blake2b(voter.encode(), digest_size=4).digest()
    return int.from_bytes(digest) % SLOTS


async def vote(
    db: Database,
    *,
    post_id: ObjectId,
    voter: str,
    option: int,
    now: datetime,
    operation_id: str,
    post: Mapping[str, Any] | None = None,
    counting: Counting | None = None,
    answering: Answering = AT_ONCE,
) -> None:
    """Sets the vote of a member who may see the poll. A vote that changes nothing does not count.

    Args:     option: the position of the option, from 0.  post: as the caller has read it; None to read it.
              counting: counts the vote.  answering: how the call is answered.
    Raises:   NotFound; InvalidInput: the post is not a poll, or has no such option; RateLimited.
    Writes:   social.votes; one guarded upsert.
    """
    slot = slot_of(post_id, voter)
    count = _require_option(await _find_poll(db, post_id, post), post_id, option)
    await answering.confirmed()
    if counting is not None:
        try:
            await counting.counted()
        except RateLimited:
            if await _has_voted(db, slot, voter, option, operation_id):
                return
            raise
    put = _put if is_repeatable(operation_id) else _put_once
    is_changed = await put(db, slot, Ballot(voter, option, count, now), operation_id)
    if counting is not None and not is_changed:
        await counting.take_back()


def _require_option(found: Mapping[str, Any] | None, post_id: ObjectId, option: int) -> int:
    """Returns how many options the poll has. Raises NotFound and InvalidInput."""
    if found is None:
        raise NotFound(KIND, str(post_id))
    if found["type"] != POLL:
        raise InvalidInput("The post is not a poll.", "post_id", code=InvalidInput.NOT_ALLOWED)
    count = len(found["detail"]["options"])
    if not 0 <= option < count:
        raise InvalidInput(
            f"The option must be between 0 and {count - 1}; got {option}.",
            "option",
            code=InvalidInput.OUT_OF_RANGE,
            least=0,
            most=count - 1,
        )
    return count


async def _find_poll(db: Database, post_id: ObjectId, post: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    """Returns what a vote needs of a post: its type and its options never change."""
    if post is not None:
        return post
    shown = {"type": 1, "detail.options": 1}
    return await db[POSTS.name].find_one({"_id": post_id, "deleted": {"$exists": False}}, shown)


async def _has_voted(db: Database, slot: Document, voter: str, option: int, operation_id: str) -> bool:
    """Returns whether the member has chosen this option, or the operation has taken effect before."""
    found = await db[VOTES.name].find_one({"_id": slot, "post": slot["post"]}, _shown(voter))
    return found is not None and (_option_in(found, voter) == option or was_applied(found, operation_id))


def _shown(voter: str) -> Document:
    """Returns the projection of a slot with this voter only, and with the marks."""
    return {"voters": {"$elemMatch": {"id": voter}}, "applied": 1, "post": 1}


def _option_in(slot: Document, voter: str) -> int | None:
    """Returns the option of the voter; None without a vote."""
    # If a write is sent again, the server ignores the projection, and returns the whole slot.
    return next((one["option"] for one in slot.get("voters", ()) if one["id"] == voter), None)


class Ballot(NamedTuple):
    """The vote of a member for one of so many options."""

    voter: str
    option: int
    options: int
    at: datetime


async def _put_once(db: Database, slot: Document, ballot: Ballot, operation_id: str) -> bool:
    """Stores the vote of a call that nobody repeats, so it needs no mark. Returns as `_put`.

    It is cheaper: for each `find_one_and_update`, MongoDB also stores the whole document.
    """
    others = {"$not": {"$elemMatch": {"id": ballot.voter, "option": ballot.option}}}
    guard = {"_id": slot, "post": slot["post"], "voters": others}
    # An upsert fails if the member has this vote, or if another voter has just created the slot.
    for is_upsert in (True, False):
        with contextlib.suppress(DuplicateKeyError):
            written = await db[VOTES.name].update_one(guard, _change(ballot, operation_id), upsert=is_upsert)
            return bool(written.matched_count or written.did_upsert)
    return False


async def _put(db: Database, slot: Document, ballot: Ballot, operation_id: str) -> bool:
    """Stores the vote. Returns whether the member had none, or another one."""
    guard = {"_id": slot, "post": slot["post"], **not_applied(operation_id)}
    update = _change(ballot, operation_id)
    # An upsert fails if the slot has the mark of this operation, or if another voter has just created the slot.
    for is_upsert in (True, False):
        try:
            before = await db[VOTES.name].find_one_and_update(
                guard, update, _shown(ballot.voter), upsert=is_upsert, return_document=ReturnDocument.BEFORE
            )
        except DuplicateKeyError:
            continue
        if before is None:
            # The upsert has created the slot, or the operation has taken effect before.
            return is_upsert
        await trim_marks(db, VOTES, before)
        return _option_in(before, ballot.voter) != ballot.option
    return False


def _change(ballot: Ballot, operation_id: str) -> list[Document]:
    """Returns the update of a slot, which may not exist yet. The last voter is the one who has voted last."""
    me, option = {"$literal": ballot.voter}, ballot.option
    voters: Document = {"$ifNull": ["$voters", []]}
    mine = {"$filter": {"input": voters, "cond": {"$eq": ["$$this.id", me]}}}
    others = {"$filter": {"input": voters, "cond": {"$ne": ["$$this.id", me]}}}
    before, first = ({"$first": {"$map": {"input": mine, "in": f"$$this.{name}"}}} for name in ("option", "at"))
    voter: Document = {"id": me, "option": option, "at": {"$ifNull": [first, ballot.at]}}

    def one_if(condition: Document) -> Document:
        return {"$cond": [condition, 1, 0]}

    counted = {
        "$add": [
            {"$ifNull": [{"$arrayElemAt": ["$votes", "$$this"]}, 0]},
            one_if({"$eq": ["$$this", option]}),
            {"$multiply": [-1, one_if({"$eq": ["$$this", before]})]},
        ]
    }
    return [
        {
            "$set": {
                "votes": {"$map": {"input": {"$range": [0, ballot.options]}, "in": counted}},
                "voters": {"$concatArrays": [others, [voter]]},
                "applied": applied_with(operation_id),
            }
        }
    ]


def counts_of(slots: list[Document], options: int) -> list[int]:
    """Returns the number of votes for each option, from the slots of a poll."""
    return [sum(slot["votes"][option] for slot in slots) for option in range(options)]
