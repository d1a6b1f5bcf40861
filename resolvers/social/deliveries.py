"""The events of posts that reach news feeds.

An entry of a news feed is an event for its member. A post of a merged author has no entries: it is an event for all who
listen to any news feed, and each looks whether the post is for them. A post that was old when it was delivered is no
event: an import of thousands of them would flood the listeners.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from portico.resolvers.changes import ChangeSource, Event
from portico.resolvers.documents import Database, Document, DocumentId
from portico.resolvers.lru import Lru
from portico.resolvers.writes.combining import Combiner, Waiting
from portico.resolvers.writes.sweeps import DAMAGED

from . import visibility
from .news import NEWS
from .posts import POSTS
from .relations import DECIDING, find_pairs

# The update that makes an event of the post of a merged author.
MERGED: Document = {"is_merged": True}
# What entries and posts get if the post is too old to be an event.
OLD: Document = {"is_old": True}
_IS_MERGED = "updateDescription.updatedFields.is_merged"
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
    changed = (change.get("updateDescription") or {}).get("updatedFields") or {}
    is_news = changed.get("is_merged") is True and not changed.get("is_old")
    return (Event(MERGED_POSTS, change["documentKey"]["_id"]),) if is_news else ()


SOURCES: Sequence[ChangeSource] = (
    ChangeSource(
        frozenset({NEWS.name}),
        {"operationType": "insert", "fullDocument.is_old": {"$ne": True}},
        ("fullDocument.of", "fullDocument.post"),
        _entry,
    ),
    ChangeSource(
        frozenset({POSTS.name}),
        {
            "operationType": "update",
            _IS_MERGED: True,
            "updateDescription.updatedFields.is_old": {"$ne": True},
        },
        ("documentKey", _IS_MERGED, "updateDescription.updatedFields.is_old"),
        _merged,
    ),
)


# A post, and the member to whom it is delivered.
Delivery = tuple[str, DocumentId]


@dataclass(eq=False, kw_only=True)
class _Listener(Waiting[Document | None]):
    """A listener that waits for a delivery."""

    delivery: Delivery


class DeliveryReads:
    """Reads posts for many listeners together, and keeps nothing.

    A listener waits for at most the read before its own, and each read begins after the events that it is for.
    """

    def __init__(self) -> None:
        self._listeners: Combiner[Database, _Listener] = Combiner(_read_all)

    async def read(self, db: Database, member: str, post_id: DocumentId) -> Document | None:
        """Returns a whole post as the member sees it in the news feed; None if it is not, or no longer, in the feed."""
        listener = _Listener(db=db, delivery=(member, post_id))
        self._listeners.add(db, listener)
        return await listener.done


async def _read_all(db: Database, listeners: list[_Listener]) -> None:
    found = await find_delivered(db, list(dict.fromkeys(listener.delivery for listener in listeners)))
    for listener in listeners:
        view = found.get(listener.delivery)
        if isinstance(view, Exception):
            listener.fail(view)
        else:
            listener.answer(view)


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
    if not visibility.is_for_feed(post, member, relations):
        return None
    hidden = await visibility.count_hidden_in_pages(db, member, [post])
    return visibility.shown_to(post, member, relations, hidden_in_pages=hidden.get(post["_id"], 0))


@dataclass(eq=False)
class Delivered:
    """What a listener has been shown. A post can be several events, if its author is merged while it is delivered."""

    _numbers: Lru[Any, int] = field(default_factory=lambda: Lru(_REMEMBERED))

    def is_repeated(self, event: Event) -> bool:
        """Returns whether another event of the same post came before, and remembers this one."""
        first = self._numbers.get(event.key)
        if first is None:
            self._numbers.put(event.key, event.number)
        return first not in (None, event.number)
