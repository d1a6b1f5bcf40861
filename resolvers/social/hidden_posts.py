"""The posts on a member's wall that the member does not see because of a block.

Everybody else sees them there. The owner of the wall can delete them, and finds them in this list.
"""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.documents import Database, Document
from portico.resolvers.paging import Key, Listing, Page, Sort

from . import relations, walks
from .posts import POSTS

_NEWEST_FIRST = Sort((("posted", -1),))
_SHOWN: Document = {"by": 1, "posted": 1, "detail": 1}


class HiddenPostPage(Page):
    """A page of such posts. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


def hidden_posts_of(owner: str) -> Listing:
    """Returns the listing of the posts on a wall by members with whom its owner has a block."""
    return Listing({}, _NEWEST_FIRST, named={"hidden posts of": owner})


async def find_page(db: Database, owner: str, *, others: Sequence[str], first: int, after: Key | None) -> Page:
    """Returns a page of the posts, newest first. Each has its author, or None if they have blocked the owner.

    Three commands, or none if the owner has no block. The names are decided last: see `visibility`.

    Args:     others: the members with a block.  after: the key of a cursor, from `hidden_posts_of`.
    """
    condition: Document = {"to.id": owner}
    if after is not None:
        posted, last = after
        condition |= {"posted": {"$lte": posted}, "$or": [{"posted": {"$lt": posted}}, {"_id": {"$lt": last}}]}
    places = await walks.find_places(db, walks.by_authors(others, condition), first + 1)
    # A post can be deleted after its place was read. So the places say where the page ends, and what follows.
    end = places[first - 1] if len(places) > first else None
    found = await walks.find_by_ids(db, [key for _, key in places[:first]], _SHOWN)
    posts = [found[key] for _, key in places if key in found]
    blocking = await relations.find_blocking(db, owner, [post["by"]["id"] for post in posts]) if posts else set()
    shown = [{**post, "by": None if post["by"]["id"] in blocking else post["by"]} for post in posts]
    return HiddenPostPage(hidden_posts_of(owner), db[POSTS.name], shown, end is not None, after, end)
