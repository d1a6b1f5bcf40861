"""Counts of which the documents are known.

The number of the documents that match says nothing about which they are, so any deletion could change it. A run that is
recorded reads the keys of a few documents instead, and counts these. It is then affected like a list of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from portico.resolvers.documents import COMPARED

from .comparing import row_keys
from .interests import Entering, Interest, Matches, Reader, Rows, Size
from .paths import NO_PATHS
from .plans import Plan, Row, Timed
from .queries import Query

# How many keys are read of a count at most. With more documents, they are counted.
MOST_KEYS = 100
NUMBER = "number"


@dataclass(slots=True)
class Count:
    """One count: how many documents match, at most `limit`. The row has the number under `name`, and `also`."""

    query: Mapping[str, Any]
    limit: int | None
    name: str
    also: Mapping[str, Any]


class Counts(Plan):
    """Several counts of a collection by one command, of which the keys of the documents are not known."""

    is_count = True

    def __init__(self, collection: str, counts: Sequence[Count]) -> None:
        self.collection = collection
        self.collections = frozenset({collection})
        self.counts = counts
        self.queries = [Query(count.query) for count in counts]

    @cached_property
    def keys(self) -> Keys:
        """The read of the keys of these documents."""
        return Keys(self)

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        del rows
        for query in self.queries:
            yield Matches(reader, self.collection, query.filter, NO_PATHS)

    def compares(self, value: datetime) -> bool:
        return any(query.names(value) for query in self.queries)

    def timed(self, now: datetime) -> Sequence[Timed | None]:
        return [Timed.of(self.collection, query, now) for query in self.queries if query.names(now)]


class Estimate(Counts):
    """The count of a whole collection. Its only row has it as `NUMBER`.

    The comment of the command can say that the count is only compared: whether it is greater than these numbers.
    """

    def __init__(self, collection: str, comment: Any) -> None:
        super().__init__(collection, [Count({}, None, NUMBER, {})])
        self._compared: Sequence[int] | None = comment.get(COMPARED) if isinstance(comment, Mapping) else None

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        if rows is None or self._compared is None:
            yield from super().interests(reader, rows)
            return
        number = rows[0][NUMBER]
        inserted = (limit - number + 1 for limit in self._compared if limit >= number)
        deleted = (number - limit for limit in self._compared if limit < number)
        yield Size(reader, self.collection, min(inserted, default=None), min(deleted, default=None))


class Keys(Counts):
    """The read of the keys of the documents that some counts are about. Each row has those of one count."""

    def __init__(self, counts: Counts) -> None:
        self.collection, self.collections = counts.collection, counts.collections
        self.counts, self.queries = counts.counts, counts.queries

    def pipeline(self) -> list[dict[str, Any]]:
        """Returns the stages of the read."""
        first, *others = (self._part(number, count) for number, count in enumerate(self.counts))
        return [*first, *({"$unionWith": {"coll": self.collection, "pipeline": part}} for part in others)]

    def _part(self, number: int, count: Count) -> list[dict[str, Any]]:
        most = MOST_KEYS + 1 if count.limit is None else min(count.limit, MOST_KEYS + 1)
        keys = {"$group": {"_id": {"$literal": number}, "keys": {"$push": "$_id"}}}
        return [{"$match": dict(count.query)}, {"$limit": most}, keys]

    def answer(self, rows: Sequence[Row]) -> list[dict[str, Any]] | None:
        """Returns the rows of the counts; None if one has too many documents."""
        if any(len(row["keys"]) > MOST_KEYS for row in rows):
            return None
        counts = ((self.counts[row["_id"]], row["keys"]) for row in rows)
        return [{count.name: len(keys), **count.also} for count, keys in counts]

    def interests(self, reader: Reader, rows: Sequence[Row] | None) -> Iterator[Interest]:
        if rows is None:
            yield from super().interests(reader, rows)
            return
        found = {row["_id"]: row["keys"] for row in rows}
        for number, (count, query) in enumerate(zip(self.counts, self.queries, strict=True)):
            wanted = query.filter
            keys = row_keys(found.get(number, ()))
            if keys:
                yield Rows(reader, self.collection, keys, wanted.paths)
            if count.limit is None or len(keys) < count.limit:
                yield Entering(reader, self.collection, wanted, wanted.paths, None, keys)
