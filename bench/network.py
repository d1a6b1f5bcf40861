"""Stores a social network directly, in the state that joining, following, posting and delivering would leave.

Authors post once a month. A reader follows the first authors. Their posts are in `social.posts` and refer to nothing;
the entries of the readers' news feeds are in `social.news`. `book.news` and `book.wall` have the same feeds in the
layout of MongoDB Applied Design Patterns, chapter 8: a document for each member and month with copies of the posts.
"""

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any

from bson import BSON, ObjectId
from pymongo import MongoClient
from pymongo.errors import DocumentTooLarge

from portico.resolvers.documents import Document
from portico.resolvers.social.members import MEMBERS
from portico.resolvers.social.names import searched
from portico.resolvers.social.news import NEWS
from portico.resolvers.social.posts import POSTS
from portico.resolvers.social.relations import RELATIONS

DATABASE = "bench"
BEGIN = datetime(2025, 1, 1, 12)  # noqa: DTZ001 - UTC, as all times here
MONTHS = 10
SHOWN_COMMENTS = 3
BOOK_NEWS, BOOK_WALL, BOOK_POSTS = "book.news", "book.wall", "book.posts"
CIRCLE = "friends"
_COMMENTS = 3
_WORDS = ("the", "record", "a", "of", "film", "and", "night", "with", "first", "side", "that", "is", "slowly", "again")
_BATCH = 2_000


@dataclass(frozen=True)
class Reader:
    """A member who follows the first `followed` authors. The last `merged` of them are merged on read."""

    name: str
    followed: int
    blocks: int = 0
    merged: int = 0


def author(number: int) -> str:
    return f"author-{number:05}"


def follower(number: int) -> str:
    return f"follower-{number:06}"


class Network:
    """A database with a social network."""

    def __init__(self, client: MongoClient[Document]) -> None:
        self.db = client[DATABASE]
        self._rng = random.Random(1)
        self._joined: set[str] = set()

    def store(self, authors: int, readers: Sequence[Reader], busy_wall: int) -> None:
        """Stores the authors with their posts, the readers with their feeds, and a member with a wall of this size."""
        self._insert(MEMBERS.name, map(member, [*map(author, range(authors)), *(one.name for one in readers), "busy"]))
        self._insert(
            POSTS.name, (post for number in range(authors) for post in self._posts_of(author(number), MONTHS, number))
        )
        self._insert(POSTS.name, self._posts_of("busy", busy_wall, 0))
        for reader in readers:
            self._insert(RELATIONS.name, relations_of(reader))
            self._insert(NEWS.name, self._entries_of(reader))

    def _posts_of(self, name: str, count: int, number: int) -> Iterator[Document]:
        for nth in range(count):
            month = BEGIN + timedelta(days=31 * (nth % MONTHS))
            yield self._post(name, month + timedelta(seconds=number + 60 * nth))

    def _post(self, name: str, posted: datetime) -> Document:
        comments = [
            {
                "id": ObjectId(self._rng.randbytes(12)),
                "by": by(author(self._rng.randrange(100))),
                "posted": posted + timedelta(minutes=nth),
                "text": self._text(12),
            }
            for nth in range(_COMMENTS)
        ]
        return post_of(ObjectId(self._rng.randbytes(12)), name, posted, self._text(40), comments)

    def _text(self, words: int) -> str:
        return " ".join(self._rng.choices(_WORDS, k=words))

    def _entries_of(self, reader: Reader) -> Iterator[Document]:
        names = [author(number) for number in range(reader.followed - reader.merged)]
        for start in range(0, len(names), _BATCH):
            query = {"by.id": {"$in": names[start : start + _BATCH]}, "deleted": None}
            for post in self.db[POSTS.name].find(query, {"by": 1, "posted": 1}):
                yield {
                    "_id": {"post": post["_id"], "of": reader.name},
                    "of": reader.name,
                    "posted": post["posted"],
                    "post": post["_id"],
                    "by": post["by"]["id"],
                }

    def store_book_feed(self, reader: Reader) -> int | None:
        """Stores the month documents of a news feed. Returns the bytes of the largest; None if one is too large."""
        names = [author(number) for number in range(reader.followed)]
        return self._store_months(BOOK_NEWS, reader.name, {"by.id": {"$in": names}, "deleted": None})

    def store_book_wall(self, name: str) -> int | None:
        """Does the same for a wall."""
        return self._store_months(BOOK_WALL, name, {"walls": name, "deleted": None})

    def _store_months(self, collection: str, name: str, query: Document) -> int | None:
        months: dict[str, list[Document]] = {}
        for post in sorted(self.db[POSTS.name].find(query), key=lambda one: (one["posted"], one["_id"])):
            months.setdefault(f"{post['posted']:%Y%m}", []).append(copy_of(post))
        self.db[collection].create_index([("user_id", 1), ("month", -1)])
        try:
            documents = [{"user_id": name, "month": month, "posts": posts} for month, posts in months.items()]
            self.db[collection].insert_many(documents)
        except DocumentTooLarge:
            return None
        return max(len(BSON.encode(document)) for document in documents)

    def copy_book_feed(self, reader: str, copies: int, *, first: int) -> ObjectId:
        """Gives the latest month document of a news feed to other members, too. Returns the id of its latest post."""
        months = self.db[BOOK_NEWS]
        (month,) = months.find({"user_id": reader}, {"_id": 0}, sort=[("month", -1)], limit=1)
        months.create_index("posts.id")
        self._insert(
            BOOK_NEWS, ({**month, "user_id": f"copy-{first + number:05}"} for number in range(copies)), size=100
        )
        latest: ObjectId = month["posts"][-1]["id"]
        return latest

    def follow(self, star: str, followers: int) -> None:
        """Stores a member with this many followers."""
        names = [follower(number) for number in range(followers)]
        self._insert(MEMBERS.name, map(member, [star, *(name for name in names if name not in self._joined)]))
        self._joined.update(names)
        self._insert(RELATIONS.name, (side for name in names for side in following(name, star)))

    def post(self, star: str, count: int) -> list[ObjectId]:
        """Stores posts whose fan-out is pending. Returns their ids."""
        now = self.now()
        posts = [{**self._post(star, now), "fan_out": {"after": None, "due": now}} for _ in range(count)]
        self.db[POSTS.name].insert_many(posts)
        return [post["_id"] for post in posts]

    def now(self) -> datetime:
        """Returns the time of the server."""
        found: datetime = self.db.client.admin.command("hello")["localTime"]
        return found

    def _insert(self, name: str, documents: Iterable[Document], size: int = _BATCH) -> None:
        rest = iter(documents)
        while batch := list(islice(rest, size)):
            self.db[name].insert_many(batch, ordered=False)


def by(name: str) -> Document:
    return {"id": name, "name": name.capitalize()}


def member(name: str) -> Document:
    shown = name.capitalize()
    return {
        "_id": name,
        "name": shown,
        **searched(shown),
        "profile": {},
        "circles": [CIRCLE],
        "joined": BEGIN,
        "schema_version": MEMBERS.version,
    }


def post_of(key: ObjectId, name: str, posted: datetime, text: str, comments: list[Document]) -> Document:
    return {
        "_id": key,
        "by": by(name),
        "to": by(name),
        "walls": [name],
        "audience": "PUBLIC",
        "circles": [],
        "type": "status",
        "detail": {"text": text},
        "posted": posted,
        "created": posted,
        "comments": comments,
        "comment_count": len(comments),
        "spilled": 0,
        "version": 0,
    }


def copy_of(post: Document) -> Document:
    """Returns the copy of a post in a month document."""
    return {
        "id": post["_id"],
        "ts": post["posted"],
        "by": post["by"],
        "circles": ["*public*"],
        "type": post["type"],
        "detail": post["detail"],
        "comments_shown": SHOWN_COMMENTS,
        "comments": post["comments"][-SHOWN_COMMENTS:],
    }


def relation(of: str, to: str, **fields: Any) -> Document:
    return {"_id": {"of": of, "to": to}, "of": of, "to": to, "version": 1, "copied": 1, **fields}


def following(name: str, followed: str, **fields: Any) -> list[Document]:
    """Returns both documents of a pair of which one member follows the other."""
    return [
        relation(name, followed, circles=[CIRCLE], since=BEGIN, **fields),
        relation(followed, name, in_circles=[CIRCLE], follower=BEGIN),
    ]


def relations_of(reader: Reader) -> Iterator[Document]:
    for number in range(reader.followed):
        is_merged = number >= reader.followed - reader.merged
        yield from following(reader.name, author(number), **({"is_merged": True} if is_merged else {}))
    for number in range(reader.blocks):
        blocked = f"blocked-{number:05}"
        yield relation(reader.name, blocked, blocks=True)
        yield relation(blocked, reader.name, blocked=True)
