"""News feeds: which posts are in whose feed. The collection and its reads.

An entry holds no text. It says that the post was sent to the member. Whether the member may see it is decided when the
feed is read. One index covers the page of a feed, whose length does not matter.

Unlike in the source, a month has no document, so no month is too busy for one. The month of a post is that of `posted`.
"""

from __future__ import annotations

from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Versioned
from portico.resolvers.typed import TypedDict


class EntryKey(TypedDict):
    """The post and the member: so a post is never in a feed twice."""

    post: ObjectId
    of: str


class NewsDocument(Versioned):
    """An entry of a feed."""

    _id: EntryKey
    # The subject of the member whose feed it is.
    of: str
    # As in the post.
    posted: datetime
    post: ObjectId
    # The subject of its author.
    by: str
    # True if the post was too old to be news when it was delivered; missing otherwise.
    is_old: NotRequired[bool]


NEWS = CollectionSpec(
    "social.news",
    document=NewsDocument,
    indexes=[
        IndexModel([("of", ASCENDING), ("posted", DESCENDING), ("post", DESCENDING), ("by", ASCENDING)]),
        # The entries by some authors.
        IndexModel([("of", ASCENDING), ("by", ASCENDING), ("posted", DESCENDING), ("post", DESCENDING)]),
        IndexModel([("post", ASCENDING), ("of", ASCENDING)]),
    ],
    shard_key={"of": 1},
)
