"""The events of posts that reach news feeds.

An entry of a news feed is an event for its member. A post of a merged author has no entries: it is an event for all who
listen to any news feed, and each looks whether the post is for them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from portico.resolvers.changes import Event, Source, inserts
from portico.resolvers.documents import Database, Document, DocumentId

from . import visibility
from .news import NEWS
from .posts import POSTS

# The update that makes an event of the post of a merged author.
MERGED: Document = {"is_merged": True}
# The topic of all posts of merged authors.
MERGED_POSTS: Hashable = "merged posts"
# The latest posts that a listener remembers.
_REMEMBERED = 100


def news_of(member: str) -> Hashable:
    """Returns the topic of a member's news feed. The key of an event is the `_id` of the post."""
    return "news", member


def _entry(document: Document) -> Event:
    return Event(news_of(document["of"]), document["post"])


def _merged(change: Document) -> Sequence[Event]:
    return (Event(MERGED_POSTS, change["documentKey"]["_id"]),)


SOURCES: Sequence[Source] = (
    inserts(NEWS, ("of", "post"), _entry),
    Source(
        frozenset({POSTS.name}),
        {"operationType": "update", "updateDescription.updatedFields.is_merged": True},
        ("documentKey",),
        _merged,
    ),
)


async def find_delivered(db: Database, member: str, post_id: DocumentId) -> Document | None:
    """Returns a whole post as the member sees it in the news feed; None if it is not, or no longer, in the feed.

    It reads the post first, and then the relations that decide: two commands.
    """
    post = await db[POSTS.name].find_one({"_id": post_id})
    if post is None or post["by"]["id"] == member:
        return None
    relations = await visibility.find_relations(db, member, visibility.people_of(post))
    if not visibility.follows(relations, post["by"]["id"]):
        return None
    hidden = await visibility.count_hidden_in_pages(db, member, [post])
    return visibility.shown_to(post, member, relations, hidden_in_pages=hidden.get(post_id, 0))


@dataclass(eq=False)
class Delivered:
    """What a listener has been shown. A post can be several events, if its author is merged while it is delivered."""

    _numbers: dict[Any, int] = field(default_factory=dict)

    def is_repeated(self, event: Event) -> bool:
        """Returns whether another event of the same post came before, and remembers this one."""
        if len(self._numbers) >= _REMEMBERED:
            del self._numbers[next(iter(self._numbers))]
        return self._numbers.setdefault(event.key, event.number) != event.number
