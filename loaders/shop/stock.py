"""Batched reads of stock by SKU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Document
from portico.resolvers.shop import stock


def by_sku(db: Database) -> BatchRead[str, Document]:
    async def read(skus: Sequence[str]) -> Mapping[str, Document]:
        return await stock.find_stocks(db, skus)

    return read
