"""Keeps answers to queries while no change affects them.

1. The second run of a query with its variables records what it reads of the database (`reads/read_sets.py`) and of its
   caller (`schema/watching.py`). Recording costs a part of a run. So the first one is not recorded, and a query whose
   answers are affected before anybody asks again is recorded more and more rarely.
2. The answer is kept if it has no errors, what the run read is known, no change has affected it, and the change stream
   is the same as at the beginning (`fence.py`).
3. Callers who agree in what the run read of its caller share the answer.
4. A change that affects the answer drops it. So does a loss of the stream. From an instant at which the clock alone can
   change it, it is not used any more. Its interests stay for a while: the next run mostly reads the same.
5. An answer is used after the fence has passed: it shows everything that was acknowledged before its request began.

A request whose answer is being computed waits for that run. It then looks at the fence like every request, so it does
not matter when the run began.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from portico.gateway.mongo.direct import Reader
from portico.gateway.reads.index import Index
from portico.gateway.reads.interests import Rows
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.texts import TextIndex
from portico.resolvers.lru import Lru
from portico.schema.context import Caller
from portico.schema.watching import Asked, Fact, WatchedCaller, fact_of

from .fence import Fence, FenceCounts
from .repeats import Repeat

# What an answer takes in memory besides its bytes: itself, an interest, a document that an interest names.
_ANSWER, _INTEREST, _KEY = 1_500, 2_500, 150
# Queries that are remembered to notice that they are asked again.
_QUERY_BYTES, _MOST_QUERIES = 1_000, 50_000
# A single answer may take this part of the memory.
_LARGEST = 8
# How many queries have the interests of their last run, and which part of the memory these take together.
_MOST_FORMER, _FORMER = 64, 16
# Requests that are remembered by their bytes may take this part more.
_REPEATS = 16
_MOST_BACKOFF = 8
_DIGEST = 16
# How long a request waits for the run of an equal one.
JOIN_SECONDS = 0.25


@dataclass
class CacheCounts(FenceCounts):
    """What `/metrics` shows. `vain` counts the answers that were affected before they were used."""

    hits: int = 0
    misses: int = 0
    stored: int = 0
    affected: int = 0
    vain: int = 0
    kept: Lru[KeptAnswer, KeptAnswer] | None = None

    @property
    def answers(self) -> int:
        return 0 if self.kept is None else len(self.kept)

    @property
    def bytes(self) -> int:
        return 0 if self.kept is None else self.kept.size


class Query:
    """A query with its variables, for all its callers."""

    __slots__ = ("answers", "backoff", "facts", "former", "running", "skipped")

    def __init__(self) -> None:
        # What runs have read of their callers.
        self.facts: tuple[Fact, ...] = ()
        self.answers: dict[Hashable, KeptAnswer] = {}
        # What the run of an affected answer has read. The next run takes its interests over.
        self.former: ReadSet | None = None
        self.running: dict[Hashable, asyncio.Future[None]] = {}
        # How many runs are not recorded before the next one that is.
        self.skipped = 1
        self.backoff = 0

    def view(self, caller: Caller | None) -> Hashable:
        """Returns what decides the answer for this caller."""
        return None if caller is None else tuple([fact_of(caller, fact) for fact in self.facts])

    def in_vain(self, step: int = 1) -> None:
        """Records less often."""
        self.backoff = min(self.backoff + step, _MOST_BACKOFF)
        self.skipped = 2**self.backoff - 1


class KeptAnswer:
    """An answer without errors, encoded. If it `is_shared`, nobody has asked who the caller is."""

    __slots__ = ("__weakref__", "body", "cost", "hits", "is_shared", "query", "reads", "size", "tags", "until", "view")

    def __init__(self, query: Query, body: bytes, cost: float, reads: ReadSet, size: int, *, is_shared: bool) -> None:
        self.query = query
        self.view: Hashable = None
        self.body = body
        self.cost = cost
        self.reads = reads
        self.until: datetime | None = reads.changes_at
        self.is_shared = is_shared
        self.hits = 0
        self.size = size
        # Its entity tags, by what they depend on besides the body.
        self.tags: dict[Hashable, str] = {}


class CachedAnswers:
    """The kept answers of one process, within `most_bytes`."""

    def __init__(
        self,
        reader: Reader,
        collections: Collection[str],
        most_bytes: int,
        counts: CacheCounts | None = None,
        text: Mapping[str, TextIndex] | None = None,
    ) -> None:
        """`text` has the text indexes, by collection, if they are known."""
        self.counts = counts or CacheCounts()
        self.index = Index(text)
        self.fence = Fence(reader, collections, self.index, self.counts, self._forget_all)
        self._largest = most_bytes // _LARGEST
        self._most_former_bytes = most_bytes // _FORMER
        self._kept: Lru[KeptAnswer, KeptAnswer] = Lru(
            most_size=most_bytes - self._most_former_bytes,
            size_of=lambda _key, answer: answer.size,
            on_drop=self._dropped,
        )
        self.counts.kept = self._kept
        # Queries with interests for the next run, and the bytes of these. The first one has them for the longest time.
        self._former: dict[Query, int] = {}
        self._former_bytes = 0
        most_queries = min(most_bytes // (4 * _QUERY_BYTES) + 1, _MOST_QUERIES)
        self._queries: Lru[bytes, Query] = Lru(most_queries, on_drop=self._forget_query)
        self.repeats: Lru[bytes, Repeat[KeptAnswer]] = Lru(
            most_size=most_bytes // _REPEATS, size_of=lambda packet, repeat: repeat.size(packet)
        )

    def query(self, text: str, name: str | None, on_error: str, variables: Mapping[str, Any]) -> Query | None:
        """Returns the query of these. None if its variables cannot be compared."""
        digest = hashlib.blake2b(digest_size=_DIGEST)
        try:
            digest.update(orjson.dumps((text, name, on_error, variables)))
        except TypeError:
            # An integer of more than 64 bits, or half of a character.
            return None
        key = digest.digest()
        query = self._queries.get(key)
        if query is None:
            query = Query()
            self._queries.put(key, query)
        return query

    async def lookup(self, query: Query, caller: Caller | None, now: Callable[[], datetime]) -> KeptAnswer | None:
        """Returns the answer for this caller, if it shows every write that was acknowledged before the call."""
        answer = await self._fresh(query, caller)
        if answer is None and (running := query.running.get(query.view(caller))) is not None:
            await asyncio.wait([running], timeout=JOIN_SECONDS)
            answer = await self._fresh(query, caller)
        if answer is None or not self.use(answer, now):
            self.counts.misses += 1
            return None
        return answer

    def use(self, answer: KeptAnswer, now: Callable[[], datetime]) -> bool:
        """Counts a use of an answer, after the fence has passed. Returns False if it is not kept any more."""
        if answer.until is not None and now() >= answer.until:
            self._drop(answer)
        if self._kept.get(answer) is None:
            return False
        answer.hits += 1
        self.counts.hits += 1
        return True

    async def _fresh(self, query: Query, caller: Caller | None) -> KeptAnswer | None:
        """Returns the answer for this caller, if there is one that no change until now has affected."""
        if query.view(caller) in query.answers and await self.fence.passed():
            return query.answers.get(query.view(caller))
        return None

    def recording(self, query: Query, caller: Caller | None) -> Recording | None:
        """Returns what records the run that follows a miss; None if it is not to be recorded."""
        if query.skipped:
            query.skipped -= 1
            return None
        return Recording(self, query, caller) if self.fence.is_open else None

    def keep(self, answer: KeptAnswer, facts: Collection[Fact], caller: Caller | None) -> None:
        """Keeps an answer that no change has affected. `facts` are what its run has read of its caller."""
        query = answer.query
        new = tuple(fact for fact in facts if fact not in query.facts)
        if new:
            # Answers for fewer facts are not found any more.
            self._forget(query)
            query.facts = (*query.facts, *new)
        answer.view = query.view(caller)
        former = query.answers.get(answer.view)
        if former is not None:
            self._drop(former)
        query.answers[answer.view] = answer
        self._kept.put(answer, answer)
        self.counts.stored += 1

    def size_of(self, body: bytes, reads: ReadSet) -> int | None:
        """Returns about how many bytes an answer takes. None if it is too large to be kept.

        Also returns None if changes of the followed collections and the clock are not all that can change it.
        """
        if reads.reads_clock or not (reads.is_whole and reads.is_repeatable):
            return None
        size, followed = len(body) + _ANSWER, self.fence.collections
        for interest in reads.interests:
            if interest.collection not in followed:
                return None
            size += _INTEREST
            if isinstance(interest, Rows):
                size += len(interest.keys) * _KEY
        return size if size <= self._largest else None

    def affected(self, answer: KeptAnswer) -> None:
        """Drops an answer that a change has affected."""
        self.counts.affected += 1
        if answer.hits:
            answer.query.backoff = 0
        else:
            self.counts.vain += 1
            answer.query.in_vain()
        self._drop(answer)

    def take_former(self, query: Query) -> ReadSet | None:
        """Returns what the last run has read, which the caller must release; None if it is gone."""
        reads, query.former = query.former, None
        if reads is not None:
            self._former_bytes -= self._former.pop(query)
        return reads

    def _leave(self, query: Query, reads: ReadSet, size: int) -> None:
        """Leaves the interests of an affected answer to the next run of the query."""
        self._release_former(query)
        query.former = reads
        self._former[query] = size
        self._former_bytes += size
        while len(self._former) > _MOST_FORMER or self._former_bytes > self._most_former_bytes:
            self._release_former(next(iter(self._former)))

    def _release_former(self, query: Query) -> None:
        reads = self.take_former(query)
        if reads is not None:
            reads.release()

    async def aclose(self) -> None:
        await self.fence.aclose()
        self._forget_all()

    def _drop(self, answer: KeptAnswer) -> None:
        self._kept.pop(answer)
        self._dropped(answer, answer)

    def _dropped(self, answer: KeptAnswer, _value: KeptAnswer) -> None:
        query, reads = answer.query, answer.reads
        if query.answers.get(answer.view) is answer:
            del query.answers[answer.view]
        if reads.is_affected:
            self._leave(query, reads, answer.size - len(answer.body))
        else:
            reads.release()

    def _forget(self, query: Query) -> None:
        for answer in tuple(query.answers.values()):
            self._drop(answer)
        self._release_former(query)

    def _forget_query(self, _key: bytes, query: Query) -> None:
        self._forget(query)

    def _forget_all(self) -> None:
        for answer in tuple(self._kept):
            self._drop(answer)
        for query in tuple(self._former):
            self._release_former(query)


class Recording:
    """One run of a query. Call `keep` with its answer, and `end` in any case."""

    def __init__(self, answers: CachedAnswers, query: Query, caller: Caller | None) -> None:
        self.query = query
        self.cost = 0.0
        self.asked = Asked()
        self.watched = None if caller is None else WatchedCaller.of(caller)
        self._answers = answers
        self._caller = caller
        self._answer: KeptAnswer | None = None
        self._epoch = answers.fence.epoch
        self._former = answers.take_former(query)
        self.reads = ReadSet(answers.index, self._affected, former=self._former, is_repeated=True)
        self._view = query.view(caller)
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        query.running.setdefault(self._view, self._ended)

    def keep(self, body: bytes) -> KeptAnswer | None:
        """Keeps the answer, if it is known what can change it. Returns it if it is kept."""
        answers, reads = self._answers, self.reads
        reads.finish()
        if reads.is_affected or answers.fence.epoch != self._epoch or not answers.fence.is_open:
            return None
        size = answers.size_of(body, reads)
        if size is None:
            self.query.in_vain(2)
            return None
        answer = KeptAnswer(self.query, body, self.cost, reads, size, is_shared=not self.asked.is_asked)
        facts = () if self.watched is None else tuple(self.watched.facts)
        self._answer = answer
        answers.keep(answer, facts, self._caller)
        return answer

    def end(self) -> None:
        """Ends the run."""
        if self._answer is None:
            self.reads.release()
        if self._former is not None:
            self._former.release()
            self._former = None
        if self.query.running.get(self._view) is self._ended:
            del self.query.running[self._view]
        self._ended.set_result(None)

    def _affected(self) -> None:
        if self._answer is not None:
            self._answers.affected(self._answer)
