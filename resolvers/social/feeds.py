"""News feeds: which posts are in the feed of a member.

A post is in a feed if it was sent to the member and is an entry of `social.news`, or if its author is merged on read,
and if the member follows the author now. So a feed takes the newest entries, and the newest posts of merged authors,
each along an index, whatever the length of the feed. Whether the member may see the posts is decided afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from portico.resolvers.documents import Database, Document

from . import relations, walks
from .news import NEWS
from .walks import Place

_NEWEST = [("posted", -1), ("post", -1)]
_SHOWN = {"_id": 0, "post": 1, "posted": 1}


class Behind(NamedTuple):
    """The conditions for being behind the previous page: for entries, and for posts."""

    entries: Document
    posts: Document


async def find_places(
    db: Database, member: str, behind: Behind, limit: int, *, followed: Sequence[str] | None = None
) -> list[Place]:
    """Returns the newest `limit` places of a feed. The post of a place may have been deleted.

    Two commands, and a third if the member follows merged authors.

    Args:     followed: leaves out the places of other authors.
    """
    query: Document = {"of": member, **behind.entries}
    if followed is not None:
        query["by"] = {"$in": list(followed)}
    sent = await db[NEWS.name].find(query, _SHOWN, sort=_NEWEST, limit=limit, batch_size=limit + 1).to_list()
    places: list[Place] = [(entry["posted"], entry["post"]) for entry in sent]
    authors = await relations.find_merged(db, member)
    if followed is not None:
        authors = list(set(authors).intersection(followed))
    if not authors:
        return places
    merged = await walks.find_places(db, walks.by_authors(authors, behind.posts), limit)
    # A post that was sent before its author was merged is in both.
    return sorted({*places, *merged}, reverse=True)[:limit]
