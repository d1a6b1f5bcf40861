"""Pages of posts, newest first: walls, incoming posts and news feeds. One command for a page.

A command walks along an index, reads the posts that it finds, and then, in the same command, the relations of the
viewer with the members in these posts. In this order nothing is shown by an outdated relation: see `visibility`. For
several lists, e.g. the walls of all followers, one command walks along the index of each.

Hidden posts are left out. If the page is not full, the next command reads four times as many posts, and so on. So the
number of commands grows with the logarithm of the number of hidden posts, up to the most that one command reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Key, Listing, Page, Sort

from . import feeds, visibility
from .posts import POSTS
from .relations import DECIDING, RELATIONS
from .visibility import Relations

WALL, INCOMING, NEWS_FEED = "wall", "incoming", "news feed"
# The comments of a post that a page of posts reads. More take another command.
COMMENTS_READ = 10
# The most posts that one command reads of a list: without, and with texts and comments. One stage of the command
# collects the posts, and MongoDB allows it 100 MB. A post has up to 0.4 MB of text, and as much in comments.
_MOST, _MOST_WITH_TEXTS = 500, 100
_GROWTH = 4
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

    def includes(self, post: Mapping[str, Any], viewer: str | None, relations: Relations) -> bool:
        """Returns whether a post that the viewer may see is in the list.

        On their own wall, viewers see their own posts and those of authors whom they follow.
        """
        author = post["by"]["id"]
        if self.name == INCOMING or (self.name == WALL and self.member != viewer):
            return True
        if author == viewer:
            return self.name == WALL
        return visibility.follows(relations, author)


class PostPage(Page):
    """A page of posts. A page after a cursor has a previous page."""

    __slots__ = ()

    async def has_previous(self) -> bool:
        return self.after is not None


class _Reader:
    """What has been read of a list: the posts to show, and the key behind which to continue."""

    def __init__(self, wanted: PostList, after: Key | None) -> None:
        self.wanted = wanted
        self.after = after
        self.shown: list[Document] = []
        self.is_finished = False

    def take(self, rows: Sequence[Document], window: int, viewer: str | None, relations: Relations) -> None:
        """Takes what a command has read: {at, key} for each place in the order of the list, and {post} for each post.

        Both can be in one row. A place can have no post, and a post two places.
        """
        places = [(row["at"], row["key"]) for row in rows if "at" in row]
        posts = {row["post"]["_id"]: row["post"] for row in rows if "post" in row}
        for _, key in dict.fromkeys(places):
            view = visibility.shown_to(posts[key], viewer, relations) if key in posts else None
            if view is not None and self.wanted.includes(view, viewer, relations):
                self.shown.append(view)
        self.is_finished = len(places) < window
        if places:
            self.after = places[-1]


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

    One command for all walls and incoming lists, or several if their texts are read, and one for each news feed. If
    comments are counted, and the posts have more than fit into them, one or two more.
    """
    readers = [_Reader(one, after) for one in lists]
    window = first + 1
    most = _MOST_WITH_TEXTS if _has_texts(projection) else _MOST
    while unfinished := [one for one in readers if len(one.shown) <= first and not one.is_finished]:
        together = max(1, most // window) if _has_texts(projection) else len(unfinished)
        for group in _commands(unfinished, together):
            await _read_on(db, group, viewer, window, projection)
        window = min(_GROWTH * window, most)
    for one in readers:
        one.shown = one.shown[: first + 1]
    await _count_comments(db, readers, viewer)
    return {
        one.wanted: PostPage(one.wanted.listing(), db[POSTS.name], one.shown[:first], len(one.shown) > first, after)
        for one in readers
    }


def _has_texts(projection: Projection | None) -> bool:
    """Returns whether the posts are read with their texts or comments, which can be long."""
    return projection is None or not {"detail", "detail.text", "comments"}.isdisjoint(projection)


def _commands(readers: Sequence[_Reader], together: int) -> list[list[_Reader]]:
    """Returns the readers of each command: one news feed, or up to `together` other lists."""
    walks = [one for one in readers if one.wanted.name != NEWS_FEED]
    parts = [walks[start : start + together] for start in range(0, len(walks), together)]
    return [*parts, *([one] for one in readers if one.wanted.name == NEWS_FEED)]


async def _read_on(
    db: Database, readers: Sequence[_Reader], viewer: str | None, window: int, projection: Projection | None
) -> None:
    """Reads the next posts of each list by one command: of several walls, or of one news feed."""
    rows: list[Document] = []
    relations: Relations = {}
    is_feed = readers[0].wanted.name == NEWS_FEED
    stages = _feed_stages(readers[0], window, projection) if is_feed else _wall_stages(readers, window, projection)
    collection = feeds.COLLECTION if is_feed else POSTS.name
    for row in await (await db[collection].aggregate([*stages, *_with_relations(viewer)])).to_list():
        if "relations" in row:
            relations = {relation["to"]: relation for relation in row["relations"]}
        else:
            rows.append(row)
    for number, one in enumerate(readers):
        found = [row for row in rows if row["list"] == number]
        one.take(found, window, viewer, relations)


def _wall_stages(readers: Sequence[_Reader], window: int, projection: Projection | None) -> list[Document]:
    parts: list[list[Document]] = [
        [
            {"$match": {**one.wanted.filter(), "deleted": None, **_behind(one, "_id")}},
            {"$sort": {"posted": -1, "_id": -1}},
            {"$limit": window},
            *_projected(projection),
            {"$replaceWith": {"list": {"$literal": number}, "at": "$posted", "key": "$_id", "post": "$$ROOT"}},
        ]
        for number, one in enumerate(readers)
    ]
    unions = [{"$unionWith": {"coll": POSTS.name, "pipeline": part}} for part in parts[1:]]
    return [*parts[0], *unions, {"$group": {"_id": None, "rows": {"$push": "$$ROOT"}}}]


def _feed_stages(reader: _Reader, window: int, projection: Projection | None) -> list[Document]:
    posts = {
        "from": POSTS.name,
        "localField": "candidates.post",
        "foreignField": "_id",
        "pipeline": [{"$match": {"deleted": None}}, *_projected(projection)],
        "as": "posts",
    }
    # A candidate without a post is there, too: it says how far the command has read.
    places = {"$map": {"input": "$candidates", "in": {"list": 0, "at": "$$this.posted", "key": "$$this.post"}}}
    whole = {"$map": {"input": "$posts", "in": {"list": 0, "post": "$$this"}}}
    return [
        *feeds.candidates(reader.wanted.member, _behind(reader, "post"), _behind(reader, "_id"), window),
        {"$lookup": posts},
        {"$project": {"rows": {"$concatArrays": [places, whole]}}},
    ]


def _projected(projection: Projection | None) -> list[Document]:
    """Returns the stage that keeps of a post what the selection needs, and `people`, as `visibility.people_of`.

    Of the comments, it keeps the latest, and the authors of all.
    """
    has_comments = projection is None or any(path.split(".")[0] == "comments" for path in projection)
    comments: Document = {"$cond": [{"$isArray": "$comments"}, "$comments", []]}
    people: list[Any] = [["$by.id", "$to.id"]]
    added: Document = {}
    if has_comments:
        commenters = {"$map": {"input": comments, "in": "$$this.by.id"}}
        people.append(commenters)
        added["commenters"] = commenters
    if projection is None or "comments" in projection:
        added["comments"] = {"$slice": [comments, -COMMENTS_READ]}
        added["is_cut"] = {"$gt": [{"$size": comments}, COMMENTS_READ]}
    added["people"] = {"$setUnion": people}
    if projection is None:
        return [{"$set": added}]
    kept = {path: 1 for path in projection if path.split(".")[0] != "comments"}
    return [{"$project": {**kept, "posted": 1, "spilled": 1, **added}}]


def _with_relations(viewer: str | None) -> list[Document]:
    """Returns the stages that turn one document {rows} into its rows, and a row {relations} of the viewer."""
    some = {"$map": {"input": "$rows", "in": {"$ifNull": ["$$this.post.people", []]}}}
    people = {"$reduce": {"input": some, "initialValue": [], "in": {"$setUnion": ["$$value", "$$this"]}}}
    relations = {
        "from": RELATIONS.name,
        "localField": "people",
        "foreignField": "to",
        "pipeline": [{"$match": {"of": viewer}}, {"$project": DECIDING}],
        "as": "relations",
    }
    looked_up: list[Document] = [] if viewer is None else [{"$set": {"people": people}}, {"$lookup": relations}]
    last = {"relations": {"$ifNull": ["$relations", []]}}
    return [
        *looked_up,
        {"$project": {"rows": {"$concatArrays": ["$rows", [last]]}}},
        {"$unwind": "$rows"},
        {"$replaceWith": "$rows"},
    ]


async def _count_comments(db: Database, readers: Sequence[_Reader], viewer: str | None) -> None:
    """Leaves hidden comments in pages out of the counts."""
    posts = [post for one in readers for post in one.shown]
    hidden = await visibility.count_hidden_in_pages(db, viewer, posts)
    for post in posts:
        if post["_id"] in hidden:
            post["comment_count"] -= hidden[post["_id"]]


def _behind(reader: _Reader, key: str) -> Document:
    """Returns the condition for what is behind the reader's position, and before the end of its month.

    The bound of `posted` is a range of the index. Only posts of the same millisecond are compared by their keys.
    """
    before = {} if reader.wanted.before is None else {"$lt": reader.wanted.before}
    if reader.after is None:
        return {"posted": before} if before else {}
    posted, last = reader.after
    return {"posted": {**before, "$lte": posted}, "$or": [{"posted": {"$lt": posted}}, {key: {"$lt": last}}]}
