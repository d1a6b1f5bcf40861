"""Lists of products, whose pages can be bounded by how many products they consider."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import bson

from portico.resolvers.documents import Collection, Document, Projection
from portico.resolvers.paging import Key, Listing, Page

_DIGEST = 12
# Of the rows that several sources find, each once.
_ONCE: list[Document] = [{"$group": {"_id": "$_id", "row": {"$first": "$$ROOT"}}}, {"$replaceWith": "$row"}]


@dataclass(frozen=True, eq=False)
class ProductListing(Listing):
    """A list of products. `by_score` sorts by `score`, by default the full-text score, which the server computes for
    every match.

    A list that could take long is bounded by `window`, in one of two ways:

    * `rest`: a page considers only the next `window` rows that match `filter`, and shows those that also match `rest`.
      It can have fewer rows than requested. The following page continues behind the last row considered.
    * `sources`, which are filters: the whole list consists of the first `window` rows of these, an equal share of each,
      in the order of their index. Of these, it has the rows that match `rest`.

    With `is_short`, an index finds all rows fast, but in another order.
    """

    by_score: bool = False
    score: Any = field(default_factory=lambda: {"$meta": "textScore"})
    window: int = 0
    rest: Mapping[str, Any] = field(default_factory=dict)
    sources: Sequence[Mapping[str, Any]] = ()
    is_short: bool = False

    @property
    def is_partial(self) -> bool:
        """Whether counts consider only some of the rows."""
        return bool(self.rest or self.sources)

    @property
    def is_walked(self) -> bool:
        return bool(self.rest) and not self.sources

    @property
    def is_found_by_filter(self) -> bool:
        return not (self.by_score or self.is_partial)

    def digest(self) -> bytes:
        """Returns a digest of everything that the rows depend on, unlike a binding also of a filter that changes."""
        bounds = {"r": dict(self.rest), "o": [dict(source) for source in self.sources], "w": self.window}
        described = {"f": dict(self.filter), "s": [list(key) for key in self.sort.keys], **bounds}
        return hashlib.blake2b(bson.encode(described), digest_size=_DIGEST).digest()

    def counted(self, collection: Collection, most: int) -> list[Document]:
        return self.considered(collection, {}, most) if self.is_partial else super().counted(collection, most)

    def considered(self, collection: Collection, projection: Projection, most: int) -> list[Document]:
        """Returns the stages that find the rows to count, at most `most`: the first in the order of the list."""
        kept: Document = {"$project": {**projection, "_id": 1}}
        if self.sources:
            return [*self._sourced(collection), kept, *_ONCE]
        if self.rest:
            walk: list[Document] = [{"$match": self.filter}, {"$sort": dict(self.sort.keys)}, {"$limit": self.window}]
            return [*walk, {"$match": self.rest}, kept]
        if self.is_short:
            return [{"$match": self.filter}, kept]
        return [{"$match": self.filter}, {"$sort": dict(self.sort.keys)}, {"$limit": most}, kept]

    def stages(
        self,
        collection: Collection,
        *,
        limit: int,
        after: Key | None,
        projection: Projection | None,
        backwards: bool = False,
    ) -> list[Document]:
        if self.is_found_by_filter:
            return super().stages(collection, limit=limit, after=after, projection=projection, backwards=backwards)
        if self.is_walked:
            walk = self._all_considered.stages(
                collection, limit=self.window, after=after, projection=None, backwards=backwards
            )
            shown: list[Document] = [*walk, {"$limit": self.window}, {"$match": self.rest}, {"$limit": limit}]
            return shown if projection is None else [*shown, {"$project": projection}]
        sort = self.sort.reversed() if backwards else self.sort
        later, order = self.from_key(after, backwards=backwards), dict(sort.keys)
        scored: list[Document] = [{"$set": {sort.paths[0][0]: self.score}}] if self.by_score else []
        if not self.sources:
            return [{"$match": self.filter}, *scored, *self.walk(later, order, limit, projection)]
        # A row comes at most once from each source, so these are enough for the page.
        copies = self.walk(later, order, limit * len(self.sources), None)
        return [*self._sourced(collection), *scored, *copies, *_ONCE, *self.walk({}, order, limit, projection)]

    async def page_of(
        self,
        collection: Collection,
        found: list[Any],
        *,
        first: int,
        after: Key | None,
        projection: Projection | None,
    ) -> Page[Any]:
        if len(found) > first or not self.is_walked:
            return await super().page_of(collection, found, first=first, after=after, projection=projection)
        # Considers the rows again, so that the page and its end are of the same moment.
        walk = self._all_considered.stages(collection, limit=self.window, after=after, projection=None)
        wanted = self.projected(projection)
        shown: list[Document] = [{"$match": self.rest}, {"$limit": first + 1}]
        parts = {
            "shown": shown if wanted is None else [*shown, {"$project": wanted}],
            "last": [{"$skip": self.window - 1}, {"$project": {path: 1 for path, _ in self.sort.keys}}],
        }
        cursor = await collection.aggregate([*walk, {"$limit": self.window}, {"$facet": parts}])
        again: Any = (await cursor.to_list())[0]
        end = self.sort.key_of(again["last"][0]) if again["last"] else None
        if len(again["shown"]) > first:
            return Page(self, collection, again["shown"][:first], has_next=True, after=after)
        return Page(self, collection, again["shown"], end is not None, after, end)

    @property
    def _all_considered(self) -> ProductListing:
        """The list of all rows that are considered."""
        return replace(self, rest={})

    def _sourced(self, collection: Collection) -> list[Document]:
        """Returns the stages that find the rows of the sources. Rows of several sources come several times."""
        share = max(self.window // len(self.sources), 1)
        parts: list[list[Document]] = [[{"$match": source}, {"$limit": share}] for source in self.sources]
        first, *others = parts
        unions: list[Document] = [{"$unionWith": {"coll": collection.name, "pipeline": part}} for part in others]
        return [*first, *unions, {"$match": self.rest}]
