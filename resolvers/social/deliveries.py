"""The events of posts that reach news feeds.

An entry of a news feed is an event for its member. A post of a merged author has no entries: it is an event for all who
listen to any news feed, and each looks whether the post is for them. A post that was old when it was delivered is no
event: an import of thousands of them would flood the listeners.
"""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portico.resolvers.changes import Event, Source
from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.writes.sweeps import DAMAGED

from . import visibility
from .news import NEWS
from .posts import POSTS
from .relations import DECIDING, find_pairs

# The update that makes an event of the post of a merged author.
MERGED: Document = {"is_merged": True}
# What entries and posts get if the post is too old to be an event.
OLD: Document = {"is_old": True}
# The topic of all posts of merged authors.
MERGED_POSTS: Hashable = "merged posts"
# The latest posts that a listener remembers.
_REMEMBERED = 100


def news_of(member: str) -> Hashable:
    """Returns the topic of a member's news feed. The key of an event is the `_id` of the post."""
    return "news", member


def _entry(change: Document) -> Sequence[Event]:
    entry = change["fullDocument"]
    return (Event(news_of(entry["of"]), entry["post"]),)


def _merged(change: Document) -> Sequence[Event]:
    return (Event(MERGED_POSTS, change["documentKey"]["_id"]),)


SOURCES: Sequence[Source] = (
    Source(
        frozenset({NEWS.name}),
        {"operationType": "insert", "fullDocument.is_old": {"$ne": True}},
        ("fullDocument.of", "fullDocument.post"),
        _entry,
    ),
    Source(
        frozenset({POSTS.name}),
        {
            "operationType": "update",
            "updateDescription.updatedFields.is_merged": True,
            "updateDescription.updatedFields.is_old": {"$ne": True},
        },
        ("documentKey",),
        _merged,
    ),
)


# A post, and the member to whom it is delivered.
Delivery = tuple[str, DocumentId]


class DeliveryReads:
    """Reads posts for many listeners together, and keeps nothing.

    While one read is in flight, the next ones are collected. So a listener waits for at most the read before its own,
    and each read begins after the events that it is for.
    """

    def __init__(self) -> None:
        self._waiting: dict[Database, dict[Delivery, asyncio.Future[Document | None]]] = {}
        self._running: dict[Database, asyncio.Task[None]] = {}

    async def read(self, db: Database, member: str, post_id: DocumentId) -> Document | None:
        """Returns a whole post as the member sees it in the news feed; None if it is not, or no longer, in the feed."""
        waiting = self._waiting.setdefault(db, {})
        delivery = (member, post_id)
        if delivery not in waiting:
            waiting[delivery] = asyncio.get_running_loop().create_future()
        if db not in self._running:
            self._running[db] = asyncio.create_task(self._run(db))
        # One listener that stops must not cancel the read of another.
        return await asyncio.shield(waiting[delivery])

    async def _run(self, db: Database) -> None:
        try:
            # In this turn of the event loop, other listeners get their events.
            await asyncio.sleep(0)
            while self._waiting.get(db):
                await _answer(db, self._waiting.pop(db))
        finally:
            del self._running[db]
            for future in self._waiting.pop(db, {}).values():
                future.cancel()


async def _answer(db: Database, waiting: Mapping[Delivery, asyncio.Future[Document | None]]) -> None:
    """Reads what the listeners wait for. If the read fails, all of them get its error."""
    futures = waiting.values()
    try:
        found = await find_delivered(db, list(waiting))
    except asyncio.CancelledError:
        for future in futures:
            future.cancel()
        raise
    except Exception as error:  # noqa: BLE001 - an error belongs to the listeners
        for future in futures:
            future.set_exception(error)
            # Retrieved, because the listeners may have stopped.
            future.exception()
        return
    for delivery, future in waiting.items():
        view = found.get(delivery)
        if isinstance(view, Exception):
            future.set_exception(view)
            future.exception()
        else:
            future.set_result(view)


async def find_delivered(db: Database, deliveries: Sequence[Delivery]) -> dict[Delivery, Document | Exception]:
    """Returns the posts that are in the news feeds of these members, each as the member sees it.

    A damaged post has its error in its place.

    It reads the posts first, and then the relations that decide: two commands for all of them.
    """
    ids = list({post_id for _, post_id in deliveries})
    found_posts = await db[POSTS.name].find({"_id": {"$in": ids}}, batch_size=len(ids) + 1).to_list()
    posts = {post["_id"]: post for post in found_posts}
    wanted = [(member, posts[post_id]) for member, post_id in deliveries if post_id in posts]
    pairs = [(member, other) for member, post in wanted for other in _people_of(post) if other != member]
    relations: dict[str, dict[str, Document]] = {}
    for one in await find_pairs(db, pairs, DECIDING) if pairs else ():
        relations.setdefault(one["of"], {})[one["to"]] = one
    found: dict[Delivery, Document | Exception] = {}
    for member, post in wanted:
        try:
            view = await _view_of(db, member, post, relations.get(member, {}))
        except DAMAGED as error:
            found[member, post["_id"]] = error
        else:
            if view is not None:
                found[member, post["_id"]] = view
    return found


def _people_of(post: Document) -> set[str]:
    try:
        return visibility.people_of(post)
    except DAMAGED:
        return set()


async def _view_of(db: Database, member: str, post: Document, relations: visibility.Relations) -> Document | None:
    author = post["by"]["id"]
    if author == member or not visibility.follows(relations, author):
        return None
    hidden = await visibility.count_hidden_in_pages(db, member, [post])
    return visibility.shown_to(post, member, relations, hidden_in_pages=hidden.get(post["_id"], 0))


@dataclass(eq=False)
class Delivered:
    """What a listener has been shown. A post can be several events, if its author is merged while it is delivered."""

    _numbers: dict[Any, int] = field(default_factory=dict)

    def is_repeated(self, event: Event) -> bool:
        """Returns whether another event of the same post came before, and remembers this one."""
        if len(self._numbers) >= _REMEMBERED:
            del self._numbers[next(iter(self._numbers))]
        return self._numbers.setdefault(event.key, event.number) != event.number
