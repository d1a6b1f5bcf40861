"""Batched reads of transfers by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.accounts import transfers
from portico.resolvers.documents import Database, Document, DocumentId, Projection


def by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await transfers.find_by_ids(db, ids, projection)

    return read
