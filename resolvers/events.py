"""Everything that clients are told of as it happens."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence

from bson import ObjectId

from . import comment_changes
from .changes import Event, Source
from .documents import Document


def comments_of(discussion: ObjectId) -> Hashable:
    """The topic of a discussion's comments. The key of an event is the comment's name, a `CommentRef`."""
    return "comments", discussion


def _posted(change: Document) -> Iterator[Event]:
    ref = comment_changes.posted_in(change)
    yield Event(comments_of(ref.discussion), ref)


_COMMENTS = Source(
    frozenset(
        {
            comment_changes.COMMENTS_COLLECTION,
            comment_changes.EMBEDDED_COLLECTION,
            comment_changes.PAGES_COLLECTION,
        }
    ),
    comment_changes.MATCH,
    comment_changes.PATHS,
    _posted,
)
SOURCES: Sequence[Source] = (_COMMENTS,)
