"""Discussions by id, and how many comments they have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.comments import discussions
from portico.resolvers.comments import storages as comment_storages
from portico.resolvers.documents import Database, Document, DocumentId, Projection


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await discussions.find_by_ids(db, ids, projection)

    return read


def counts(db: Database) -> BatchRead[DocumentId, int]:
    """How many comments there are in embedded discussions, by their ids."""

    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, int]:
        return await comment_storages.count_comments(db, dict.fromkeys(ids, discussions.EMBEDDED))

    return read
