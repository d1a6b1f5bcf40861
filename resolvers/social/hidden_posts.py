"""The posts on a member's wall that the member does not see because of a block.

Everybody else sees them there. The owner of the wall can delete them, and finds them in this list.
"""

from __future__ import annotations

from portico.resolvers.documents import Database, Document
from portico.resolvers.paging import Key, Listing, Page, Sort

from . import relations, walks
from .posts import POSTS

_NEWEST_FIRST = Sort((("posted", -1),))
_SHOWN: Document = {"by": 1, "posted": 1, "detail": 1}
# Among how many posts a page looks for each that it shows, and among how many at least.
_CONSIDERED, _FEWEST = 5, 50


class HiddenPostPage(Page):
    """A page of such posts. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


def hidden_posts_of(owner: str) -> Listing:
    """Returns the listing of the posts on a wall by members with whom its owner has a block."""
    return Listing({}, _NEWEST_FIRST, named={"hidden posts of": owner})


async def find_page(db: Database, owner: str, *, size: int, key: Key | None, is_backwards: bool = False) -> Page:
    """Returns a page of the posts, newest first. Each has its author, or None if they have blocked the owner.

    Looks for such posts among the next `size * _CONSIDERED` by others, and at least _FEWEST. A page ends early if it
    has found too few. Up to four commands. The names are decided last: see `visibility`.

    Args:     key: that of a cursor, from `hidden_posts_of`: of `after`, or of `before` if `is_backwards`.
    Returns:  the page; if `is_backwards`, of the opposite list.
    """
    considered = max(size * _CONSIDERED, _FEWEST)
    direction = walks.OLDEST_FIRST if is_backwards else walks.NEWEST_FIRST
    wanted = [_on_wall(owner, key, direction)]
    [rows] = await walks.find_first(db, [wanted], {"posted": 1, "by.id": 1}, considered + 1, direction)
    others = await relations.find_blocks_among(db, owner, [row["by"]["id"] for row in rows[:considered]])
    places = [walks.place_of(row) for row in rows[:considered] if row["by"]["id"] in others]
    end = walks.place_of(rows[considered - 1]) if len(rows) > considered else None
    if len(places) > size:
        # A post can be deleted after its place was read. So the places say where the page ends, and what follows.
        end = places[size - 1]
    found = await walks.find_by_ids(db, [post for _, post in places[:size]], _SHOWN)
    posts = [found[post] for _, post in places if post in found]
    blocking = await relations.find_blocking(db, owner, [post["by"]["id"] for post in posts]) if posts else set()
    shown = [{**post, "by": None if post["by"]["id"] in blocking else post["by"]} for post in posts]
    listing = hidden_posts_of(owner)
    kept = listing.reversed() if is_backwards else listing
    return HiddenPostPage(kept, db[POSTS.name], shown, end is not None, key, end)


def _on_wall(owner: str, key: Key | None, direction: int) -> Document:
    """Returns the filter for the posts of others on a wall, behind a cursor."""
    if key is None:
        return {"walls.1": owner}
    posted, last = key
    beyond = "$lt" if direction == walks.NEWEST_FIRST else "$gt"
    behind = [{"posted": {beyond: posted}}, {"_id": {beyond: last}}]
    return {"walls.1": owner, "posted": {f"{beyond}e": posted}, "$or": behind}
