"""Batched reads of categories by id and by slug, and of their descendants."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence

from portico.loaders import declaring
from portico.loaders.batching import BatchRead
from portico.resolvers.catalog import categories
from portico.resolvers.documents import Database, DocumentId
from portico.resolvers.errors import InvalidInput

# Returns the ids of a category and its descendants. Each call counts them. Raises InvalidInput if there are too many.
Claim = Callable[[], Sequence[DocumentId]]

by_id = declaring.batched(categories.find_by_ids)
by_slug = declaring.batched(categories.find_by_slugs)


def subtrees(db: Database, *, most: int) -> BatchRead[DocumentId, Claim]:
    """Reads categories with their descendants. All claims of an operation together get at most `most` ids."""
    left = most
    refusal = (
        f"The lists of products in this operation cover more than {most:,} categories. Set `includeDescendants` to "
        "false, or ask for the products of fewer or smaller categories."
    )

    def claim(ids: Sequence[DocumentId]) -> Sequence[DocumentId]:
        nonlocal left
        left -= len(ids)
        if left < 0:
            raise InvalidInput(refusal, "include_descendants")
        return ids

    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Claim]:
        # With one more than is left, no list silently lacks categories.
        most_read = max(left, 0) + 1
        found = await categories.find_descendant_ids(db, ids, most=most_read)
        if sum(map(len, found.values())) >= most_read:
            raise InvalidInput(refusal, "include_descendants")
        return {key: functools.partial(claim, [key, *below]) for key, below in found.items()}

    return read
