"""The stock as readers see it."""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.documents import Database, Document
from portico.resolvers.parts import as_part

from . import moves
from .stock import STOCK, StockDocument

_SHOWN = {"available": 1, "reserved": 1, "sold": 1, "under_way": 1}


async def find_stocks(db: Database, skus: Sequence[str]) -> dict[str, StockDocument]:
    """Returns the counters of each SKU that has a stock, with every sale that is decided. The moves leave the list."""
    return await as_part(db, lambda db: _find_stocks(db, skus))


async def _find_stocks(db: Database, skus: Sequence[str]) -> dict[str, StockDocument]:
    query: Document = {"_id": skus[0]} if len(skus) == 1 else {"_id": {"$in": list(skus)}}
    found = await STOCK.of(db).find(query, _SHOWN, batch_size=len(skus) + 1).to_list()
    stocks = {stock["_id"]: stock for stock in found}
    for move in await moves.find_sold(db, [move for stock in found for move in stock["under_way"]]):
        stock = stocks[move["sku"]]
        stock["reserved"] -= move["quantity"]
        stock["sold"] += move["quantity"]
    for stock in found:
        stock["under_way"] = []
    return stocks
