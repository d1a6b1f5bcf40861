"""Members of the social network. The collection and its reads.

A document:

    _id         the subject of the member's token
    name
    profile     {about, location, website, birth_year, interests}
    circles     [name]: the circles of the member. A superset: a circle exists if it has a member
    is_merged   True if the author has too many followers for fan-out. Set before the first follower is marked
    renamed     {op, at} while copies of the name may be outdated
    applied     the repeatable operations that changed it
    joined

Who follows whom, and who has blocked whom, is in `relations`.

Source: MongoDB Applied Design Patterns, ch. 8. There, a member's document embeds circles and followers, and would grow
without bound.
"""

from __future__ import annotations

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec

MEMBERS = CollectionSpec(
    "social.members",
    indexes=[IndexModel([("renamed.at", ASCENDING)], partialFilterExpression={"renamed": {"$exists": True}})],
    shard_key={"_id": "hashed"},
)
