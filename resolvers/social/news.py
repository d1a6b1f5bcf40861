"""News feeds: which posts are in whose feed. The collection and its reads.

A document, an entry:

    _id     {post, of}: so a post is never in a feed twice
    of      the subject of the member whose feed it is
    posted  as in the post
    post    the `_id` of the post
    by      the subject of its author
    is_old  True if the post was too old to be news when it was delivered; missing otherwise

An entry holds no text. It says that the post was sent to the member. Whether the member may see it is decided when the
feed is read. One index covers the page of a feed, whose length does not matter.

Unlike in the source, a month has no document, so no month is too busy for one. The month of a post is that of `posted`.
"""

from __future__ import annotations

from pymongo import ASCENDING, DESCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec

NEWS = CollectionSpec(
    "social.news",
    indexes=[
        IndexModel([("of", ASCENDING), ("posted", DESCENDING), ("post", DESCENDING), ("by", ASCENDING)]),
        # The entries by some authors.
        IndexModel([("of", ASCENDING), ("by", ASCENDING), ("posted", DESCENDING), ("post", DESCENDING)]),
        IndexModel([("post", ASCENDING), ("of", ASCENDING)]),
    ],
    shard_key={"of": 1},
)
