"""The order in which a worker delivers posts: round-robin over the authors, whatever the number of posts of each.

The next batch is of the next author, by subject, who has a post that is due; among the posts of an author, of the one
that is due longest. After the last author, the first one follows. An index has the pending posts in this order, so it
takes one read, whatever waits.

Posts that the process has just stored are taken alternately with these: see `fresh_posts`.

An author has one of the places of a worker at a time. So a member who posts while others have thousands of entries to
deliver waits for a place for at most one batch of each.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from portico.resolvers.documents import LENIENT, Database, Document, DocumentId
from portico.resolvers.hints import with_hint
from portico.resolvers.writes.sweeps import each
from portico.resolvers.writes.timer import Timer

from .fresh_posts import FreshPosts
from .posts import PENDING, POSTS

# A batch takes less than a second.
LEASE = timedelta(seconds=10)
# Batches that a worker writes concurrently: in all, and of one author. Two of an author are hardly faster together, and
# delay the others.
AT_ONCE, OF_AUTHOR = 4, 1
# The most batches of one run of the job.
_MOST = 10_000
_ORDER = [("by.id", 1), ("fan_out.due", 1)]
# Before all texts.
_FIRST = ""


class DueBatch(NamedTuple):
    """The post whose next batch is to be delivered. A damaged post may have no author.

    `claimed` is the post if it was stored as claimed.
    """

    post: DocumentId
    author: Any
    claimed: Document | None = None


class DueBatches:
    """The batches of one run. `woken` is set when a request of this process has added a post, also to `fresh`."""

    def __init__(self, db: Database, timer: Timer, woken: asyncio.Event, fresh: FreshPosts) -> None:
        # An undecodable name is the fault of its post only.
        self._posts = db[POSTS.name].with_options(codec_options=LENIENT)
        self._timer = timer
        self._changed = woken
        self._fresh = fresh
        self._was_fresh = False
        self._last: str | None = None
        self._taken: dict[DocumentId, Any] = {}
        self._failed: list[DocumentId] = []

    async def run(self, deliver: Callable[[DueBatch], Awaitable[int]]) -> int:
        """Delivers batches until no post is due. Returns how many.

        Raises:   SweepFailed, after trying every post.
        """

        async def take(batch: DueBatch) -> int:
            try:
                return await deliver(batch)
            except BaseException:
                # Another try could fail in the same way. The next run tries again.
                self._failed.append(batch.post)
                raise
            finally:
                del self._taken[batch.post]
                self._changed.set()

        return await each(self._follow(), take, at_once=AT_ONCE)

    async def _follow(self) -> AsyncIterator[DueBatch]:
        for _ in range(_MOST):
            while (batch := await self._next()) is None:
                # A batch that ended during the read can have put its post back.
                if not self._taken and not self._changed.is_set():
                    return
                # A place has become free, or there is another post.
                await self._changed.wait()
            if batch.claimed is None:
                self._last = batch.author if isinstance(batch.author, str) else _FIRST
            self._taken[batch.post] = batch.author
            yield batch

    async def _next(self) -> DueBatch | None:
        self._changed.clear()
        batch = None if self._was_fresh else self._next_fresh()
        batch = batch or await self._next_in_line() or self._next_fresh()
        self._was_fresh = batch is not None and batch.claimed is not None
        return batch

    def _next_fresh(self) -> DueBatch | None:
        post = self._fresh.take(self._busy())
        return None if post is None else DueBatch(post["_id"], post["by"]["id"], post)

    def _busy(self) -> Sequence[str]:
        """Returns the authors who have all their places."""
        places = Counter(author for author in self._taken.values() if isinstance(author, str))
        return [author for author, taken in places.items() if taken >= OF_AUTHOR]

    async def _next_in_line(self) -> DueBatch | None:
        busy = self._busy()
        waiting: Document = {
            "fan_out.due": {"$lte": self._timer.now()},
            "_id": {"$nin": [*self._taken, *self._failed]},
        }
        if self._last is not None:
            found = await self._find({**waiting, "by.id": {"$gt": self._last, "$nin": busy}})
            if found is not None:
                return found
        found = await self._find({**waiting, "by.id": {"$nin": busy}})
        if found is None:
            # No author waits, so the next one is the first.
            self._last = None
        return found

    async def _find(self, query: Document) -> DueBatch | None:
        async def read(**options: Any) -> list[Document]:
            return await self._posts.find(query, {"by.id": 1}, sort=_ORDER, limit=1, **options).to_list()

        found = await with_hint(PENDING, read)
        if not found:
            return None
        by = found[0].get("by")
        return DueBatch(found[0]["_id"], by.get("id") if isinstance(by, dict) else None)
