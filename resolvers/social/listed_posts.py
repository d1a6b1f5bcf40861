"""The lists of posts, and the walks along indexes that find the posts of a list that a viewer can see.

A walk is a filter with an index in the order of the list. The first read of a list takes all of its posts. If that does
not fill the page, the next ones take the walks that lead past hidden posts:

    a wall                  the public posts
                            those of the owner for circles that the viewer is in
                            the viewer's own, those by members who have the viewer in a circle, and those that the
                            owner has directed to the viewer
    one's own wall          one's own posts, and those by members whom one follows
    all public posts        all of them
    a news feed             one's own posts, and the entries by members whom one follows

The walks only say where to look. Whether the viewer sees a post is decided afterwards, for each post: see `visibility`.
So the walks may be chosen by a relation that has changed since.

The walks of a list run in one command. For a wall without a token, the first read takes the public posts, too, so the
pages of anonymous readers never end early. Of merged authors, the walk of a news feed takes the public posts, unless
they have the viewer in a circle. With more than 10,000 members to walk along, the list is read as a whole. The indexes
of lists leave out deleted posts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.paging import Listing, Sort

from . import relations, visibility, walks
from .posts import AUDIENCES, CIRCLES, EVERYWHERE, PUBLIC, SELECTED
from .visibility import Relations

WALL, INCOMING, NEWS_FEED, TIMELINE = "wall", "incoming", "news feed", "timeline"
_NEWEST_FIRST = Sort((("posted", -1),))
# With more members whose posts a viewer can see, a list is read as a whole.
_MOST_AUTHORS = 10_000


@dataclass(frozen=True)
class PostList:
    """A list of posts: the wall of a member, the posts directed to them, their news feed, or all public posts.

    The timeline of all public posts is of no member. `before` limits the list to older posts.
    """

    name: str
    member: str
    before: datetime | None = None

    def listing(self) -> Listing:
        named = {"posts": self.name, "of": self.member, "before": self.before}
        return Listing({}, _NEWEST_FIRST, named=named)

    def is_of_followed(self, viewer: str | None) -> bool:
        """Returns whether the list has only posts of members whom the viewer follows, and perhaps of the viewer."""
        return self.name == NEWS_FEED or (self.name == WALL and self.member == viewer)

    def includes(self, post: Mapping[str, Any], viewer: str | None, known: Relations) -> bool:
        """Returns whether a post that the viewer may see is in the list.

        On their own wall and in their news feed, viewers see their own posts and those of authors whom they follow.
        """
        author = post["by"]["id"]
        if self.name == NEWS_FEED:
            return author == self.member or visibility.is_for_feed(post, self.member, known)
        return not self.is_of_followed(viewer) or author == viewer or visibility.follows(known, author)

    def walks(self, viewer: str | None, known: Known | None, behind: Document) -> list[Document]:
        """Returns the walks along the posts of the list. Not for a news feed, which has entries: see `feeds`.

        Args:     known: leads past posts that the viewer does not see.  behind: the condition for the rest of the list.
        """
        if self.name == INCOMING:
            return [{"walls.1": self.member, **behind}]
        if self.name == TIMELINE:
            return [{"audience": PUBLIC, **EVERYWHERE, **behind}]
        public: Document = {"walls": self.member, "audience": PUBLIC, **behind}
        if viewer is None:
            return [public]
        if known is not None and self.member == viewer and known.followed is not None:
            own = {"by.id": viewer, "audience": {"$in": list(AUDIENCES)}, **behind}
            return [own, *walks.by_authors(known.followed, {"to.id": viewer, **behind})]
        if known is not None and self.member != viewer and known.followers is not None:
            return self._walks_of_another(viewer, known, known.followers, public, behind)
        return [{"walls": self.member, "audience": {"$in": list(AUDIENCES)}, **behind}]

    def _walks_of_another(
        self, viewer: str, known: Known, authors: Sequence[str], public: Document, behind: Document
    ) -> list[Document]:
        owner = known.owners.get(self.member, {})
        directed: Document = {"to.id": self.member, **behind}
        if relations.has_block(owner):
            return walks.by_authors([viewer], directed)
        writers = [viewer, *(author for author in authors if author != self.member)]
        to_viewer: Document = {"to.id": viewer, **behind}
        found = [public, *walks.by_authors(writers, directed), *walks.by_authors([self.member], to_viewer)]
        circles = owner.get("in_circles")
        if circles:
            found.append({"by.id": self.member, "audience": CIRCLES, **behind})
            found.append({"by.id": self.member, "audience": SELECTED, "circles": {"$in": circles}, **behind})
        return found


@dataclass(frozen=True)
class Known:
    """What the viewer's walks depend on.

    `followed` are the members whom the viewer follows, and `followers` those who have the viewer in a circle. Both are
    without members with a block, and None if there are too many. `owners` are the relations with owners of walls.
    """

    followed: Sequence[str] | None = None
    followers: Sequence[str] | None = None
    owners: Relations = field(default_factory=dict)


async def find_known(db: Database, lists: Sequence[PostList], viewer: str | None) -> Known:
    """Reads what the walks of these lists depend on. Up to three commands, each on one index."""
    if viewer is None:
        return Known()
    walls = [one.member for one in lists if one.name == WALL and one.member != viewer]
    followed = followers = None
    owners: Relations = {}
    if any(one.is_of_followed(viewer) for one in lists):
        followed = await relations.find_followed(db, viewer, _MOST_AUTHORS)
    if walls:
        owners = await relations.find(db, viewer, walls)
        followers = await relations.find_followers(db, viewer, _MOST_AUTHORS)
    return Known(followed, followers, owners)
