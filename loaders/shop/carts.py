"""Batched reads of carts by id."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.shop import carts


def by_id(db: Database, projection: Projection | None) -> BatchRead[str, Document]:
    async def read(ids: Sequence[str]) -> Mapping[str, Document]:
        return await carts.find_by_ids(db, ids, projection)

    return read
