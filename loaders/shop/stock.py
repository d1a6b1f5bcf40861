"""Batched reads of stock by SKU."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.shop import stock

by_sku = batched(stock.find_stocks)
