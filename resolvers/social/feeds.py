"""News feeds: which posts are in the feed of a member.

A post by another is in a feed if it was sent to the member and is an entry of `social.news`, or if its author is merged
on read, and if the member follows the author now. A post by the member has no entry, so that it is in their feed at
once. So a feed takes the newest entries, and the newest posts of the member and of merged authors, each along an index,
whatever the length of the feed. Whether the member may see the posts is decided afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from portico.resolvers.documents import Database, Document
from portico.resolvers.paging import MAX_WALKS

from . import relations, walks
from .news import NEWS
from .posts import AUDIENCES, PUBLIC
from .walks import Place

_SHOWN = {"_id": 0, "post": 1, "posted": 1}


class Behind(NamedTuple):
    """The conditions for being behind the previous page: for entries, and for posts."""

    entries: Document
    posts: Document


async def find_places(
    db: Database,
    member: str,
    behind: Behind,
    limit: int,
    *,
    followed: Sequence[str] | None = None,
    direction: int = walks.NEWEST_FIRST,
) -> list[Place]:
    """Returns the first `limit` places of a feed in this direction. The post of a place may have been deleted.

    Three commands.

    Args:     followed: leads past the places of other authors.
    """
    places = await _find_sent(db, {"of": member, **behind.entries}, limit, followed, direction)
    merged = await relations.find_merged(db, member)
    if followed is not None:
        merged = {author: merged[author] for author in merged.keys() & set(followed)}
    found = await walks.find_places(db, _walks_of_merged(member, merged, behind.posts), limit, direction)
    # A post that was sent before its author was merged is in both.
    return _in_order({*places, *found}, direction)[:limit]


async def _find_sent(
    db: Database, query: Document, limit: int, followed: Sequence[str] | None, direction: int
) -> list[Place]:
    """Returns the first places of the entries that match the query. With `followed`, one walk for each author."""
    by_place = {"posted": direction, "post": direction}
    filters = [query] if followed is None else walks.by_authors(followed, query, path="by")
    sent: list[Document] = []
    for start in range(0, len(filters), walks.WALKS_A_COMMAND):
        some = filters[start : start + walks.WALKS_A_COMMAND]
        if len(some) == 1:
            sort = list(by_place.items())
            found = db[NEWS.name].find(some[0], _SHOWN, sort=sort, limit=limit, batch_size=limit + 1)
            sent += await found.to_list()
        else:
            order: list[Document] = [{"$sort": by_place}, {"$limit": limit}]
            parts: list[list[Document]] = [[{"$match": one}, *order, {"$project": _SHOWN}] for one in some]
            stages = [*walks.together(NEWS.name, parts), *order]
            sent += await (await db[NEWS.name].aggregate(stages, batchSize=limit + 1)).to_list()
    places = [(entry["posted"], entry["post"]) for entry in sent]
    return places if len(filters) <= walks.WALKS_A_COMMAND else _in_order(places, direction)[:limit]


def _in_order(places: Iterable[Place], direction: int) -> list[Place]:
    return walks.in_order(places, direction, lambda place: place)


def _walks_of_merged(member: str, merged: Mapping[str, Sequence[str]], behind: Document) -> list[Document]:
    """Returns the walks along the posts of the member and of merged authors.

    Args:     merged: the circles of each author that contain the member.
    """
    strangers = [author for author, circles in merged.items() if not circles]
    friends = [member, *(author for author, circles in merged.items() if circles)]
    public: Document = {"audience": PUBLIC, **behind}
    any_audience: Document = {"audience": {"$in": list(AUDIENCES)}, **behind}
    # An author with several audiences is several walks.
    most = MAX_WALKS // len(AUDIENCES)
    return [*walks.by_authors(strangers, public), *walks.by_authors(friends, any_audience, most=most)]
