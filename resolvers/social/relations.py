"""The social graph: what one member knows of another. The collection and its reads.

A document describes an ordered pair of members. It has what `of` has decided about `to`, and a copy of what `to` has
decided about `of`. So each member's side of the graph, circles and followers, is on one shard, and one read by key
returns everything that decides what `of` may see of `to`.

    _id         {of, to}
    of, to      the subjects of the two members
    circles     [name]: the circles of `of` that contain `to`. `of` follows `to` if there is any
    blocks      whether `of` has blocked `to`
    version     incremented by every change of `circles` or `blocks`
    since       when `of` began to follow `to`; missing while it does not
    in_circles  [name]: the circles of `to` that contain `of`
    follower    when `to` began to follow `of`; missing while it does not
    blocked     whether `to` has blocked `of`
    copied      the version of the other document that `in_circles`, `follower` and `blocked` were copied from
    is_merged   True if `of` follows `to`, and `to` has too many followers for fan-out
    uncopied    {op, at} while the other document may lack the current version
    applied     the repeatable operations that changed it

A change is acknowledged when both documents have it. A document is never deleted, so that versions only grow.
"""

from __future__ import annotations

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec

RELATIONS = CollectionSpec(
    "social.relations",
    indexes=[
        IndexModel([("of", ASCENDING), ("to", ASCENDING)], unique=True),
        # The members of a circle, and the members whom `of` follows.
        IndexModel([("of", ASCENDING), ("circles", ASCENDING), ("to", ASCENDING)]),
        # The followers of `of`, who are the recipients of its posts.
        IndexModel(
            [("of", ASCENDING), ("to", ASCENDING), ("follower", ASCENDING)],
            partialFilterExpression={"follower": {"$exists": True}},
        ),
        IndexModel(
            [("of", ASCENDING), ("blocks", ASCENDING), ("to", ASCENDING)], partialFilterExpression={"blocks": True}
        ),
        IndexModel(
            [("of", ASCENDING), ("is_merged", ASCENDING), ("to", ASCENDING)],
            partialFilterExpression={"is_merged": True},
        ),
        IndexModel([("uncopied.at", ASCENDING)], partialFilterExpression={"uncopied": {"$exists": True}}),
    ],
    shard_key={"of": 1, "to": 1},
)
