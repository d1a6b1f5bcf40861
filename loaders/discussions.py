"""Discussions by id, and how many comments they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resolvers import comment_storages, discussions
from resolvers.documents import Database, Document, DocumentId, Projection

from .batching import BatchRead


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await discussions.find_by_ids(db, ids, projection)

    return read


def counts(db: Database) -> BatchRead[DocumentId, int]:
    """How many comments there are in embedded discussions, by their ids."""

    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, int]:
        return await comment_storages.count_comments(db, dict.fromkeys(ids, discussions.EMBEDDED))

    return read
