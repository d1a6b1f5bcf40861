"""Pages of posts, newest first: walls, incoming posts and news feeds.

A page before a cursor, or at the end of a list, is read as a page of the opposite list.

A page takes a fixed number of commands, whatever the length of the list and the number of members in it. The first ones
walk along an index and read the posts. The last one reads the relations of the viewer with all members in these posts.
In this order nothing is shown by an outdated relation: see `visibility`. For several lists, e.g. the walls of all
followers, one command walks along the index of each.

Hidden posts are left out. If the page is not full, the next round reads four times as many posts, along the walks that
lead past hidden posts: see `listed_posts`. It reads of each post only what decides who sees it, and then the posts of
the page. The last round considers up to 1,000 posts. If the page is still not full, it ends there: it has fewer posts
than requested, and the next page continues behind the last post that was considered.

So a page considers a bounded number of posts, however many are hidden. Where it ends depends on posts that the walks do
not lead past: public posts by members with a block, posts in a news feed for circles that the viewer has left, and the
like. The cursor of the end does not show which post it was.

A page takes at most 16 commands. All but the posts of merged authors are small finds by key or along an index, which
take the direct path. One aggregation with a `$lookup` for each step takes a third more of MongoDB's CPU and slightly
less of the gateway's.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.paging import Key, Page

from . import feeds, listed_posts, visibility, walks
from .listed_posts import NEWS_FEED, Known, PostList
from .posts import POSTS
from .visibility import Relations
from .walks import Place

# The rounds of a page. The first one takes all posts of the list, the next ones search.
_ROUNDS = 3
_ROUNDS_OF_ALL = 1
_GROWTH = 4
# The most posts that the last round considers, of all lists together. It reads about 200 bytes of each.
_MOST_SEARCHED = 1_000
# The most posts that one command reads with texts and comments. A post has up to 0.4 MB of text, and as much in
# comments.
_MOST_WITH_TEXTS = 100
_SEARCHED: Document = dict.fromkeys((*visibility.DECIDING, "posted"), 1)


class PostPage(Page):
    """A page of posts. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


class _Reader:
    """What has been read of a list: the posts to show, and the place behind which to continue."""

    def __init__(self, wanted: PostList, after: Key | None, direction: int) -> None:
        self.wanted = wanted
        self.after = after
        self.direction = direction
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
        beyond = "$lt" if self.direction == walks.NEWEST_FIRST else "$gt"
        # In a list up to the end of a month, a cursor of the list is before that end.
        bounds = {**before, f"{beyond}e": posted}
        return {"posted": bounds, "$or": [{"posted": {beyond: posted}}, {key: {beyond: last}}]}

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
        found = [posts[key] for key in dict.fromkeys(keys) if key in posts]
        views = [
            visibility.shown_to(post, viewer, known) for post in found if self.wanted.includes(post, viewer, known)
        ]
        return [view for view in views if view is not None]

    def keep(self, most: int) -> None:
        """Keeps the first posts to show, at most this many. The next read continues behind the last of them."""
        if len(self.shown) > most:
            del self.shown[most:]
            self.after, self.is_finished = walks.place_of(self.shown[-1]), False

    def page(self, db: Database, first: int, after: Key | None) -> Page:
        """Returns the page. If too few posts to show were found before the last round ended, it ends early."""
        rows, has_more = self.shown[:first], len(self.shown) > first
        end = None if has_more or self.is_finished else self.after
        listing = self.wanted.listing()
        kept = listing if self.direction == walks.NEWEST_FIRST else listing.reversed()
        return PostPage(kept, db[POSTS.name], rows, has_more or end is not None, after, end)


@dataclass(frozen=True)
class _Round:
    """One read of the next posts of several lists, at most `window` of each.

    With `known`, it takes the walks that lead past hidden posts.
    """

    db: Database
    viewer: str | None
    shown: Document | None
    window: int
    known: Known | None
    direction: int

    async def read_on(self, readers: Sequence[_Reader], together: int) -> None:
        """Reads first the posts, and then what decides who sees them."""
        found = {one: await self._find_places(one) for one in readers if one.wanted.name == NEWS_FEED}
        posts = await walks.find_by_ids(self.db, list({key for row in found.values() for _, key in row}), self.shown)
        others = [one for one in readers if one not in found]
        for start in range(0, len(others), together):
            some = others[start : start + together]
            lists = [one.wanted.walks(self.viewer, self.known, one.behind("_id")) for one in some]
            rows = await walks.find_first(self.db, lists, self.shown, self.window, self.direction)
            for one, row in zip(some, rows, strict=True):
                found[one] = [walks.place_of(post) for post in row]
                posts |= {post["_id"]: post for post in row}
        relations = await self._find_relations(posts.values())
        for one, places in found.items():
            one.take(places, posts, self.window, self.viewer, relations)

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
        relations = await self._find_relations(posts.values())
        for one, keys in found.items():
            one.shown[had[one] :] = one.views(keys, posts, self.viewer, relations)

    async def _find_relations(self, posts: Collection[Document]) -> visibility.Relations:
        people, circles = visibility.people_in(posts), visibility.circles_in(posts)
        return await visibility.find_relations(self.db, self.viewer, people, circles, with_follows=True)

    async def _find_places(self, reader: _Reader) -> list[Place]:
        behind = feeds.Behind(reader.behind("post"), reader.behind("_id"))
        followed = None if self.known is None else self.known.followed
        return await feeds.find_places(
            self.db, reader.wanted.member, behind, self.window, followed=followed, direction=self.direction
        )


async def find_pages(
    db: Database,
    lists: Sequence[PostList],
    *,
    viewer: str | None,
    size: int,
    key: Key | None,
    projection: Projection | None,
    is_backwards: bool = False,
) -> dict[PostList, Page]:
    """Returns a page of each list, with the posts as the viewer sees them.

    Two commands for all walls and incoming lists, or several if their texts are read. Five for a news
    feed. Up to eleven more for all lists if posts are hidden. If comments are counted, and
    the posts have more than fit into them, up to two more.

    Args:     key: that of a cursor: of `after`, or of `before` if `is_backwards`.
    Returns:  a page of each list; if `is_backwards`, of the opposite list.
    """
    direction = walks.OLDEST_FIRST if is_backwards else walks.NEWEST_FIRST
    readers = [_Reader(one, key, direction) for one in lists]
    await _fill(db, readers, viewer, size + 1, projection, direction)
    for one in readers:
        one.shown = one.shown[: size + 1]
    await _count_comments(db, readers, viewer)
    return {one.wanted: one.page(db, size, key) for one in readers}


async def _fill(
    db: Database,
    readers: Sequence[_Reader],
    viewer: str | None,
    wanted: int,
    projection: Projection | None,
    direction: int,
) -> None:
    """Reads on, in rounds, until each list has this many posts to show, or is finished, or the rounds are over."""
    shown = walks.projected(projection)
    known: Known | None = None
    for number in range(_ROUNDS):
        unfinished = [one for one in readers if len(one.shown) < wanted and not one.is_finished]
        if not unfinished:
            return
        if number < _ROUNDS_OF_ALL:
            together = max(1, _MOST_WITH_TEXTS // wanted) if _has_texts(projection) else len(unfinished)
            await _Round(db, viewer, shown, wanted, None, direction).read_on(unfinished, together)
            continue
        if known is None:
            known = await listed_posts.find_known(db, [one.wanted for one in unfinished], viewer)
        grown = _GROWTH * wanted if number < _ROUNDS - 1 else _MOST_SEARCHED
        window = max(wanted, min(grown, _MOST_SEARCHED // len(unfinished)))
        await _Round(db, viewer, shown, window, known, direction).search(unfinished, len(unfinished), wanted)


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
