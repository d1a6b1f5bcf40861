"""How a posted comment appears in a change stream: as one insert or one update with its reference.

    DOCUMENTS   an insert into `comments` of a document with `_id`, `discussion` and `key`
    EMBEDDED    an update of `comment_discussions` that sets `newest`, and pushes the comment
    PAGES       an update of `comment_pages` that sets `newest`, and pushes the comment

`newest` is the reference of the comment as text, see `comments.CommentRef`. Other writes to these collections (splits,
edits, counts) neither insert a document with `key` nor set `newest`.
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
# The fields of a change that `posted_ref` reads.
PATHS = ("operationType", "fullDocument._id", "fullDocument.discussion", _NEWEST)


def posted_ref(change: Mapping[str, Any]) -> CommentRef:
    """Returns the reference of the comment that a matching change has posted."""
    if change["operationType"] == "insert":
        comment = change["fullDocument"]
        return CommentRef(DOCUMENTS, comment["discussion"], comment["_id"])
    return parse_comment_ref(change["updateDescription"]["updatedFields"]["newest"])
