"""The changes of posts after they were posted: new comments, and votes in polls.

A comment sets `commented` of its post, and nothing else does. A vote changes a slot of the votes: a member who votes
for the first time is appended to its voters, with the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from bson import ObjectId

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Document

from .posts import POSTS, VOTES

_COMMENTED = "updateDescription.updatedFields.commented"


class Commented(NamedTuple):
    """A comment, by its post and its time, which no other comment of the post has."""

    post: ObjectId
    at: datetime


class Voted(NamedTuple):
    """The vote of a member in a poll, and when it was given first."""

    post: ObjectId
    voter: str
    at: datetime


def comments_of(post: ObjectId) -> tuple[str, ObjectId]:
    """Returns the topic of the comments of a post. The key of an event is a `Commented`."""
    return "post comments", post


def votes_of(post: ObjectId) -> tuple[str, ObjectId]:
    """Returns the topic of the votes in a poll. The key of an event is the `_id` of the post."""
    return "post votes", post


def _commented(change: Document) -> Iterator[Event]:
    at = _updated(change).get("commented")
    if isinstance(at, datetime):
        post = change["documentKey"]["_id"]
        yield Event(comments_of(post), Commented(post, at))


def _voted(change: Document) -> Iterator[Event]:
    """Yields the last voter of the slot, if the change has added or moved them."""
    post = change["documentKey"]["_id"]["post"]
    added = change.get("fullDocument") or _updated(change)
    for voter in _voters(added):
        if isinstance(voter.get("at"), datetime):
            yield Event("voted", Voted(post, voter["id"], voter["at"]))


def _votes_changed(change: Document) -> Iterator[Event]:
    post = change["documentKey"]["_id"]["post"]
    yield Event(votes_of(post), post)


def _updated(change: Document) -> Mapping[str, Any]:
    return (change.get("updateDescription") or {}).get("updatedFields") or {}


def _voters(fields: Mapping[str, Any]) -> Iterator[Document]:
    """Yields the voters that the change has written whole. The server writes a changed list whole, or by its parts."""
    whole = fields.get("voters")
    if isinstance(whole, list):
        yield from whole[-1:]
    for name, value in fields.items():
        if name.startswith("voters.") and isinstance(value, dict) and "id" in value:
            yield value


COMMENTED = ChangeSource(
    frozenset({POSTS.name}),
    {"operationType": "update", _COMMENTED: {"$exists": True}},
    ("documentKey", _COMMENTED),
    _commented,
)
VOTED = ChangeSource(
    frozenset({VOTES.name}),
    {"operationType": {"$in": ["insert", "update"]}},
    ("documentKey", "fullDocument.voters", "updateDescription.updatedFields"),
    _voted,
)
VOTES_CHANGED = ChangeSource(
    frozenset({VOTES.name}), {"operationType": {"$in": ["insert", "update"]}}, ("documentKey",), _votes_changed
)
# What subscriptions listen to.
SOURCES: Sequence[ChangeSource] = (COMMENTED, VOTES_CHANGED)
