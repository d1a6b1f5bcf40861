"""Batched reads of stock by SKU."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.shop import stock_reads

by_sku = batched(stock_reads.find_stocks)
