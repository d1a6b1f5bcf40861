"""Batched reads of stacks and trades by id, and of pages of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from portico.loaders import declaring
from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Document, DocumentId, Projection
from portico.resolvers.game import trade_records
from portico.resolvers.game.stacks import STACKS
from portico.resolvers.game.trade_records import TRADES

by_id = declaring.by_key(STACKS)
pages = declaring.pages(STACKS)
trade_pages = declaring.pages(TRADES)


def trade_by_id(db: Database, projection: Projection | None) -> BatchRead[DocumentId, Document]:
    async def read(ids: Sequence[DocumentId]) -> Mapping[DocumentId, Document]:
        return await trade_records.find_by_ids(db, ids, projection)

    return read
