"""News feeds: which posts are in the feed of a member.

A post is in a feed if it was sent to the member and is an entry of `social.news`, or if its author is merged on read,
and if the member follows the author now. So a feed takes the newest entries, and the newest posts of merged authors,
each along an index, whatever the length of the feed. Whether the member may see the posts is decided afterwards.
"""

from __future__ import annotations

from portico.resolvers.documents import Document

from .news import NEWS
from .posts import POSTS
from .relations import RELATIONS

# The collection whose aggregation `candidates` begins.
COLLECTION = NEWS.name
_KEYS = {"_id": 0, "post": 1, "posted": 1}


def candidates(member: str, behind: Document, posts_behind: Document, limit: int) -> list[Document]:
    """Returns the stages that make one document, {candidates: [{post, posted}]}: the newest `limit` posts.

    They make no document if there are none. A post that was sent before its author was merged can be there twice.

    Args:     behind: the condition for entries, and `posts_behind` for posts, to be behind the previous page.
    """
    merged: list[Document] = [{"$match": {"of": member, "is_merged": True}}, {"$project": {"_id": 0, "author": "$to"}}]
    is_entry = {"$cond": [{"$eq": [{"$type": "$post"}, "missing"]}, "$$REMOVE", "$$ROOT"]}
    both = {"$concatArrays": ["$sent", "$merged"]}
    newest = {"$sortArray": {"input": both, "sortBy": {"posted": -1, "post": -1}}}
    return [
        {"$match": {"of": member, **behind}},
        {"$sort": {"posted": -1, "post": -1}},
        {"$limit": limit},
        {"$project": _KEYS},
        {"$unionWith": {"coll": RELATIONS.name, "pipeline": merged}},
        {"$group": {"_id": None, "sent": {"$push": is_entry}, "authors": {"$push": "$author"}}},
        {
            "$lookup": {
                "from": POSTS.name,
                "localField": "authors",
                "foreignField": "by.id",
                "pipeline": [
                    {"$match": {"deleted": None, **posts_behind}},
                    {"$sort": {"posted": -1, "_id": -1}},
                    {"$limit": limit},
                    {"$project": {"_id": 0, "post": "$_id", "posted": 1}},
                ],
                "as": "merged",
            }
        },
        {"$project": {"candidates": {"$slice": [newest, limit]}}},
    ]
