"""Reads of a page by hand: with PyMongo and orjson, without GraphQL. Each returns the ids of the posts of the page.

Each read checks the visibility of what it shows, fetches what the page shows, and writes it as JSON.
"""

from collections.abc import Callable, Iterable
from typing import Any

import orjson
from bson import ObjectId
from pymongo.database import Database

from bench.network import BOOK_NEWS, BOOK_WALL
from portico.resolvers.documents import Document
from portico.resolvers.social.news import NEWS
from portico.resolvers.social.posts import AUDIENCES, POSTS
from portico.resolvers.social.relations import RELATIONS

FIRST = 20
Read = Callable[[Database[Document], str], list[ObjectId]]
_SHOWN = {
    "by": 1,
    "to": 1,
    "posted": 1,
    "audience": 1,
    "circles": 1,
    "deleted": 1,
    "type": 1,
    "detail.text": 1,
    "comment_count": 1,
    "comments": {"$slice": -3},
}
_NEWEST = [("posted", -1), ("_id", -1)]


def feed(db: Database[Document], reader: str) -> list[ObjectId]:
    """Reads a news feed of references: the entries, then their posts, then the relations to all who appear in them."""
    newest = [("posted", -1), ("post", -1)]
    shown = {"_id": 0, "post": 1}
    entries = list(db[NEWS.name].find({"of": reader}, shown, sort=newest, limit=FIRST + 1))
    ids = [entry["post"] for entry in entries]
    found = {post["_id"]: post for post in db[POSTS.name].find({"_id": {"$in": ids}}, _SHOWN)}
    posts = [found[key] for key in ids if key in found]
    relations = _relations(db, reader, posts)
    followed = [post for post in posts if relations.get(post["by"]["id"], {}).get("circles")]
    return _answer(_visible(followed, relations, reader), relations)


def feed_by_authors(db: Database[Document], reader: str) -> list[ObjectId]:
    """Reads a news feed without fan-out: whom the reader follows, then the latest posts of all these authors."""
    shown = {"_id": 0, "to": 1}
    followed = [one["to"] for one in db[RELATIONS.name].find({"of": reader, "circles.0": {"$exists": True}}, shown)]
    posts = list(
        db[POSTS.name].find({"by.id": {"$in": followed}, "deleted": None}, _SHOWN, sort=_NEWEST, limit=FIRST + 1)
    )
    relations = _relations(db, reader, posts)
    return _answer(_visible(posts, relations, reader), relations)


def wall(db: Database[Document], owner: str, viewer: str = "reader-100") -> list[ObjectId]:
    """Reads a wall: its posts, then the relations to all who appear in them."""
    posts = list(
        db[POSTS.name].find(
            {"walls": owner, "audience": {"$in": list(AUDIENCES)}, "deleted": None},
            _SHOWN,
            sort=_NEWEST,
            limit=FIRST + 1,
        )
    )
    relations = _relations(db, viewer, posts)
    return _answer(_visible(posts, relations, viewer), relations)


def book_feed(db: Database[Document], reader: str) -> list[ObjectId]:
    """Reads the latest month documents of a news feed whole, as in the book."""
    return _book(db, BOOK_NEWS, reader, {})


def book_feed_slice(db: Database[Document], reader: str) -> list[ObjectId]:
    """Reads only the last posts of the latest month documents. The server still reads the whole documents."""
    return _book(db, BOOK_NEWS, reader, {"posts": {"$slice": -FIRST - 1}})


def book_wall(db: Database[Document], owner: str) -> list[ObjectId]:
    return _book(db, BOOK_WALL, owner, {})


def book_wall_slice(db: Database[Document], owner: str) -> list[ObjectId]:
    return _book(db, BOOK_WALL, owner, {"posts": {"$slice": -FIRST - 1}})


def _book(db: Database[Document], name: str, owner: str, fields: Document) -> list[ObjectId]:
    rows: list[Document] = []
    # One document at a time, because a month may be large.
    for month in db[name].find({"user_id": owner}, fields, sort=[("month", -1)], batch_size=1):
        rows += reversed(month["posts"])
        if len(rows) > FIRST:
            break
    return [row["id"] for row in _encoded(rows[:FIRST], len(rows) > FIRST)]


def _relations(db: Database[Document], viewer: str, posts: Iterable[Document]) -> dict[str, Document]:
    others = {who for post in posts for who in _people(post)} - {viewer}
    found = db[RELATIONS.name].find({"of": viewer, "to": {"$in": sorted(others)}})
    return {one["to"]: one for one in found}


def _people(post: Document) -> Iterable[str]:
    yield post["by"]["id"]
    yield post["to"]["id"]
    for comment in post["comments"]:
        yield comment["by"]["id"]


def _has_block(relation: Document) -> bool:
    return bool(relation.get("blocks") or relation.get("blocked"))


def _visible(posts: Iterable[Document], relations: dict[str, Document], viewer: str) -> list[Document]:
    return [post for post in posts if _is_visible(post, relations, viewer)]


def _is_visible(post: Document, relations: dict[str, Document], viewer: str) -> bool:
    if "deleted" in post:
        return False
    if post["by"]["id"] == viewer:
        return True
    to_author = relations.get(post["by"]["id"], {})
    if _has_block(to_author) or _has_block(relations.get(post["to"]["id"], {})):
        return False
    circles = to_author.get("in_circles", ())
    match post["audience"]:
        case "PUBLIC":
            return True
        case "CIRCLES":
            return bool(circles)
    return post["to"]["id"] == viewer or not set(circles).isdisjoint(post["circles"])


def _answer(posts: list[Document], relations: dict[str, Document]) -> list[ObjectId]:
    rows = [
        {
            **post,
            "comments": [one for one in post["comments"] if not _has_block(relations.get(one["by"]["id"], {}))],
        }
        for post in posts[:FIRST]
    ]
    return [row["_id"] for row in _encoded(rows, len(posts) > FIRST)]


def _encoded(rows: list[Document], has_more: bool) -> list[Any]:
    orjson.dumps({"rows": rows, "has_more": has_more}, default=str)
    return rows
