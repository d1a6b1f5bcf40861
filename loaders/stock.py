"""Stock by SKU."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from resolvers import stock
from resolvers.documents import Database, Document

from .batching import BatchRead


def by_sku(db: Database) -> BatchRead[str, Document]:
    async def read(skus: Sequence[str]) -> Mapping[str, Document]:
        return await stock.find_stocks(db, skus)

    return read
