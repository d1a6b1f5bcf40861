"""How a posted comment shows in a change stream: as one insert or one update, which names it.

    DOCUMENTS   an insert into `comments`: of the comment, with its `_id`, `discussion` and `key`
    EMBEDDED    an update of `comment_discussions` that sets `newest`, and pushes the comment
    PAGES       an update of `comment_pages` that sets `newest`, and pushes the comment

`newest` is the comment's name as text, see `comments.CommentRef`; no other write sets it. What else is written to these
collections (a page that is split, an edit, a count) has neither the one nor the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from portico.resolvers.documents import Document

from .comments import CommentRef, parse_comment_ref
from .discussions import DOCUMENTS

COMMENTS_COLLECTION = "comments"
EMBEDDED_COLLECTION = "comment_discussions"
PAGES_COLLECTION = "comment_pages"
KEYS_COLLECTION = "comment_keys"

_NEWEST = "updateDescription.updatedFields.newest"
MATCH: Document = {
    "$or": [
        {"operationType": "insert", "ns.coll": COMMENTS_COLLECTION, "fullDocument.key": {"$exists": True}},
        {
            "operationType": "update",
            "ns.coll": {"$in": [EMBEDDED_COLLECTION, PAGES_COLLECTION]},
            _NEWEST: {"$exists": True},
        },
    ]
}
# What `posted_ref` reads of a change.
PATHS = ("operationType", "fullDocument._id", "fullDocument.discussion", _NEWEST)


def posted_ref(change: Mapping[str, Any]) -> CommentRef:
    """The comment that was posted by a change that matches."""
    if change["operationType"] == "insert":
        comment = change["fullDocument"]
        return CommentRef(DOCUMENTS, comment["discussion"], comment["_id"])
    return parse_comment_ref(change["updateDescription"]["updatedFields"]["newest"])
