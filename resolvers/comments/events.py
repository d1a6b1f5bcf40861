"""The events of comments that subscriptions deliver."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from bson import ObjectId

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Document

from . import posted


def comments_of(discussion: ObjectId) -> Hashable:
    """Returns the topic of a discussion's comments. The key of an event is the comment's `CommentRef`."""
    return "comments", discussion


def _posted(change: Document) -> Iterator[Event]:
    ref = posted.posted_ref(change)
    yield Event(comments_of(ref.discussion), ref)


POSTED = ChangeSource(
    frozenset(
        {
            posted.COMMENTS_COLLECTION,
            posted.EMBEDDED_COLLECTION,
            posted.PAGES_COLLECTION,
        }
    ),
    posted.MATCH,
    posted.PATHS,
    _posted,
)
SOURCES: Sequence[ChangeSource] = (POSTED,)
