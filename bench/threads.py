"""Stores large discussions directly, in the state that posting their comments one by one would leave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from portico.resolvers.comments.buckets import BUCKETS
from portico.resolvers.comments.comments import END, new_comment, with_slug
from portico.resolvers.comments.discussions import DISCUSSIONS, DOCUMENTS, EMBEDDED, open_discussion
from portico.resolvers.comments.document_storage import COMMENTS, LISTED
from portico.resolvers.comments.embedded_storage import EMBEDDED_DISCUSSIONS
from portico.resolvers.comments.page_storage import KEYS
from portico.resolvers.documents import Database, Document

BEGIN = datetime(2012, 2, 8, 12, 21, 8)  # noqa: DTZ001 - UTC, as all times here
_WORDS = [
    "the",
    "of",
    "and",
    "to",
    "in",
    "that",
    "was",
    "his",
    "he",
    "it",
    "with",
    "is",
    "for",
    "as",
    "had",
    "you",
    "not",
    "be",
    "her",
    "on",
    "at",
    "by",
    "which",
    "have",
    "or",
    "from",
    "this",
]
# The approximate number of comments on a page after splits.
_ON_A_PAGE = 70
# One comment in this many starts a thread. The others reply to one of the latest.
_ROOTS = 4
_LATEST = 200
_DEEPEST = 10


def comments_of(discussion: ObjectId, number: int, *, seed: int = 1, words: int = 40) -> list[Document]:
    """Returns this many comments in the order of their posts, in threads of up to ten levels."""
    rng = random.Random(seed)
    made: list[Document] = []
    replies: Counter[ObjectId] = Counter()
    for count in range(number):
        recent = made[-_LATEST:]
        parent = rng.choice(recent) if recent and rng.randrange(_ROOTS) else None
        if parent is not None and parent["depth"] >= _DEEPEST:
            parent = None
        author = rng.randrange(500)
        fresh = new_comment(
            ObjectId(rng.randbytes(12)),
            discussion=discussion,
            parent=parent,
            author={"id": f"user-{author}", "name": f"User {author}"},
            text=" ".join(rng.choices(_WORDS, k=rng.randrange(1, 2 * words))),
            now=BEGIN + timedelta(seconds=count),
        )
        made.append({**with_slug(fresh, parent, 0), "attempt": "0" * 32})
        if parent is not None:
            replies[parent["_id"]] += 1
    return [{**comment, "replies": replies[comment["_id"]]} for comment in made]


async def put_discussion(
    db: Database, *, kind: str, key: str, storage: str, made: Sequence[Document] | int
) -> tuple[Document, list[Document]]:
    """Stores a discussion with these comments, or with this many. Returns it with its comments."""
    discussion = await open_discussion(db, kind=kind, key=key, storage=storage, subject="bench", now=BEGIN)
    comments = comments_of(discussion["_id"], made, seed=made) if isinstance(made, int) else list(made)
    if storage == DOCUMENTS:
        await db[COMMENTS.name].insert_many(comments)
    elif storage == EMBEDDED:
        await db[EMBEDDED_DISCUSSIONS.name].insert_one(_embedded(discussion["_id"], comments))
    else:
        await db[KEYS.name].insert_many(
            [{name: one[name] for name in ("_id", "discussion", "slug", *LISTED)} for one in comments]
        )
        await db[BUCKETS.name].insert_many(_buckets(discussion["_id"], comments))
    count = 0 if storage == EMBEDDED else len(comments)
    await db[DISCUSSIONS.name].update_one({"_id": discussion["_id"]}, {"$set": {"count": count}})
    return dict(discussion), comments


def _cell(comment: Document, *left_out: str) -> Document:
    return {name: value for name, value in comment.items() if name not in {"discussion", *left_out}}


def _embedded(discussion: ObjectId, comments: Sequence[Document]) -> dict[str, Any]:
    return {
        "_id": discussion,
        "comments": [_cell(comment, "replies", "attempt") for comment in comments],
        "replies": {str(comment["_id"]): comment["replies"] for comment in comments if comment["replies"]},
        "count": len(comments),
        "size": 0,
    }


def _buckets(discussion: ObjectId, comments: Sequence[Document]) -> list[Document]:
    ordered = sorted(comments, key=lambda comment: str(comment["key"]))
    parts = [ordered[start : start + _ON_A_PAGE] for start in range(0, len(ordered), _ON_A_PAGE)]
    lows = ["", *(part[0]["key"] for part in parts[1:])]
    return [
        {
            "discussion": discussion,
            "low": low,
            "high": high,
            "comments": [_cell(comment) for comment in part],
            "count": len(part),
            "fenced": [],
        }
        for part, low, high in zip(parts, lows, [*lows[1:], END], strict=True)
    ]
