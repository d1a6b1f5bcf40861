"""Pages of posts, newest first: walls, incoming posts and news feeds.

A page takes a fixed number of commands, whatever the length of the list and the number of members in it. The first ones
walk along an index and read the posts. The last one reads the relations of the viewer with all members in these posts.
In this order nothing is shown by an outdated relation: see `visibility`. For several lists, e.g. the walls of all
followers, one command walks along the index of each.

Hidden posts are left out. If the page is not full, the next round reads four times as many posts, and so on. On one's
own wall and in a news feed, all posts are by members whom one follows, or by oneself. If two rounds have not filled the
page, the next one asks for the posts of these members only. So posts by others cost no further rounds.

If three rounds have not filled the page, the next ones search: they read of each post only what decides who sees it,
of up to 10,000 posts by a command, and then read the posts of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import count
from typing import Any

from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import Key, Listing, Page, Sort

from . import feeds, relations, visibility, walks
from .posts import POSTS
from .visibility import Relations
from .walks import Place

WALL, INCOMING, NEWS_FEED = "wall", "incoming", "news feed"
# The most posts that one command reads of a list: without, and with texts and comments. A post has up to 0.4 MB of
# text, and as much in comments.
_MOST, _MOST_WITH_TEXTS = 500, 100
# The same in a search, which reads about 200 bytes of a post.
_MOST_SEARCHED = 10_000
_SEARCHED: Document = dict.fromkeys((*visibility.DECIDING, "posted"), 1)
_GROWTH = 4
# After this many rounds, lists of posts by followed members leave out the posts of others.
_ROUNDS_OF_ALL = 2
# After this many rounds, the next ones search.
_ROUNDS_OF_POSTS = 3
_NEWEST_FIRST = Sort((("posted", -1),))


@dataclass(frozen=True)
class PostList:
    """A list of posts: the wall of a member, the posts directed to them, or their news feed.

    `before` limits the list to older posts.
    """

    name: str
    member: str
    before: datetime | None = None

    def listing(self) -> Listing:
        named = {"posts": self.name, "of": self.member, "before": self.before}
        return Listing({}, _NEWEST_FIRST, named=named)

    def filter(self) -> Document:
        if self.name == WALL:
            return {"walls": self.member}
        return {"to.id": self.member, "by.id": {"$ne": self.member}}

    def is_of_followed(self, viewer: str | None) -> bool:
        """Returns whether the list has only posts of members whom the viewer follows, and perhaps of the viewer."""
        return self.name == NEWS_FEED or (self.name == WALL and self.member == viewer)

    def includes(self, post: Mapping[str, Any], viewer: str | None, known: Relations) -> bool:
        """Returns whether a post that the viewer may see is in the list.

        On their own wall, viewers see their own posts and those of authors whom they follow.
        """
        author = post["by"]["id"]
        if not self.is_of_followed(viewer):
            return True
        if author == viewer:
            return self.name == WALL
        return visibility.follows(known, author)


class PostPage(Page):
    """A page of posts. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


class _Reader:
    """What has been read of a list: the posts to show, and the place behind which to continue."""

    def __init__(self, wanted: PostList, after: Key | None) -> None:
        self.wanted = wanted
        self.after = after
        self.shown: list[Document] = []
        self.is_finished = False

    def behind(self, key: str) -> Document:
        """Returns the condition for what is behind the position, and before the end of the month.

        The bound of `posted` is a range of the index. Only posts of the same millisecond are compared by their keys.
        """
        before = {} if self.wanted.before is None else {"$lt": self.wanted.before}
        if self.after is None:
            return {"posted": before} if before else {}
        posted, last = self.after
        return {"posted": {**before, "$lte": posted}, "$or": [{"posted": {"$lt": posted}}, {key: {"$lt": last}}]}

    def take(
        self,
        places: Sequence[Place],
        posts: Mapping[DocumentId, Document],
        window: int,
        viewer: str | None,
        known: Relations,
    ) -> None:
        """Takes the next places of the list, at most `window`. The post of a place may be gone."""
        self.shown += self.views([key for _, key in places], posts, viewer, known)
        self.is_finished = len(places) < window
        if places:
            self.after = places[-1]

    def views(
        self, keys: Sequence[DocumentId], posts: Mapping[DocumentId, Document], viewer: str | None, known: Relations
    ) -> list[Document]:
        """Returns those of the posts that the list shows, as the viewer sees them."""
        views = [visibility.shown_to(posts[key], viewer, known) for key in keys if key in posts]
        return [view for view in views if view is not None and self.wanted.includes(view, viewer, known)]

    def keep(self, most: int) -> None:
        """Keeps the first posts to show, at most this many. The next read continues behind the last of them."""
        if len(self.shown) > most:
            del self.shown[most:]
            self.after, self.is_finished = walks.place_of(self.shown[-1]), False


@dataclass(frozen=True)
class _Round:
    """One read of the next posts of several lists, at most `window` of each.

    With `followed`, the members whom the viewer follows, it reads no posts of others in the lists that show none.
    """

    db: Database
    viewer: str | None
    shown: Document | None
    window: int
    followed: Sequence[str] | None

    async def read_on(self, readers: Sequence[_Reader], together: int) -> None:
        """Reads first the posts, and then what decides who sees them."""
        found = {one: await self._find_places(one) for one in readers if self._refers(one)}
        posts = await walks.find_by_ids(self.db, list({key for row in found.values() for _, key in row}), self.shown)
        others = [one for one in readers if one not in found]
        for start in range(0, len(others), together):
            some = others[start : start + together]
            filters = [{**one.wanted.filter(), **one.behind("_id")} for one in some]
            rows = await walks.find_newest_of_each(self.db, filters, self.shown, self.window)
            for one, row in zip(some, rows, strict=True):
                found[one] = [walks.place_of(post) for post in row]
                posts |= {post["_id"]: post for post in row}
        known = await visibility.find_relations(self.db, self.viewer, visibility.people_in(posts.values()))
        for one, places in found.items():
            one.take(places, posts, self.window, self.viewer, known)

    async def search(self, readers: Sequence[_Reader], together: int, most: int) -> None:
        """Does the same, but reads first what decides about the posts, and then at most the missing ones of `most`.

        Who sees them is decided again, because it may have changed between the two reads of a post.
        """
        had = {one: len(one.shown) for one in readers}
        await replace(self, shown=_SEARCHED).read_on(readers, together)
        for one in readers:
            one.keep(most)
        found = {one: [post["_id"] for post in one.shown[had[one] :]] for one in readers}
        posts = await walks.find_by_ids(self.db, [key for keys in found.values() for key in keys], self.shown)
        known = await visibility.find_relations(self.db, self.viewer, visibility.people_in(posts.values()))
        for one, keys in found.items():
            one.shown[had[one] :] = one.views(keys, posts, self.viewer, known)

    def _refers(self, reader: _Reader) -> bool:
        """Returns whether to read the places of a list first, and then the posts."""
        return reader.wanted.name == NEWS_FEED or (
            self.followed is not None and reader.wanted.is_of_followed(self.viewer)
        )

    async def _find_places(self, reader: _Reader) -> list[Place]:
        member, behind = reader.wanted.member, reader.behind("_id")
        if reader.wanted.name == NEWS_FEED:
            behind_all = feeds.Behind(reader.behind("post"), behind)
            return await feeds.find_places(self.db, member, behind_all, self.window, followed=self.followed)
        own_wall = [{"by.id": member, **behind}, *walks.by_authors(self.followed or (), {"to.id": member, **behind})]
        return await walks.find_places(self.db, own_wall, self.window)


async def find_pages(
    db: Database,
    lists: Sequence[PostList],
    *,
    viewer: str | None,
    first: int,
    after: Key | None,
    projection: Projection | None,
) -> dict[PostList, Page]:
    """Returns a page of each list, with the posts as the viewer sees them. `after` is the key of a cursor.

    Two commands for all walls and incoming lists, or several if their texts are read. Four for a news feed, or five if
    the viewer follows merged authors. If comments are counted, and the posts have more than fit into them, up to two
    more.
    """
    readers = [_Reader(one, after) for one in lists]
    await _fill(db, readers, viewer, first + 1, projection)
    for one in readers:
        one.shown = one.shown[: first + 1]
    await _count_comments(db, readers, viewer)
    return {
        one.wanted: PostPage(one.wanted.listing(), db[POSTS.name], one.shown[:first], len(one.shown) > first, after)
        for one in readers
    }


async def _fill(
    db: Database, readers: Sequence[_Reader], viewer: str | None, wanted: int, projection: Projection | None
) -> None:
    """Reads on, in rounds, until each list has this many posts to show, or is finished."""
    shown = walks.projected(projection)
    most = _MOST_WITH_TEXTS if _has_texts(projection) else _MOST
    followed: list[str] | None = None
    for number in count():
        unfinished = [one for one in readers if len(one.shown) < wanted and not one.is_finished]
        if not unfinished:
            return
        if number == _ROUNDS_OF_ALL and viewer and any(one.wanted.is_of_followed(viewer) for one in unfinished):
            followed = await relations.find_followed(db, viewer)
        grown = wanted * _GROWTH**number
        if number < _ROUNDS_OF_POSTS:
            window = max(wanted, min(grown, most))
            together = max(1, most // window) if _has_texts(projection) else len(unfinished)
            await _Round(db, viewer, shown, window, followed).read_on(unfinished, together)
        else:
            window = min(grown, _MOST_SEARCHED)
            searching = _Round(db, viewer, shown, window, followed)
            await searching.search(unfinished, _MOST_SEARCHED // window, wanted)


def _has_texts(projection: Projection | None) -> bool:
    """Returns whether the posts are read with their texts or comments, which can be long."""
    return projection is None or not {"detail", "detail.text", "comments"}.isdisjoint(projection)


async def _count_comments(db: Database, readers: Sequence[_Reader], viewer: str | None) -> None:
    """Leaves hidden comments in pages out of the counts."""
    posts = [post for one in readers for post in one.shown]
    hidden = await visibility.count_hidden_in_pages(db, viewer, posts)
    for post in posts:
        if post["_id"] in hidden:
            post["comment_count"] -= hidden[post["_id"]]
