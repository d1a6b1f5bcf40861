"""Transfers by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resolvers import transfers
from resolvers.documents import Database, Document, DocumentId, Projection

from .batching import BatchRead


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await transfers.find_by_ids(db, ids, projection)

    return read
