"""Batched reads of orders by id, and of pages of orders."""

from __future__ import annotations

from portico.loaders.declaring import batched, in_order
from portico.resolvers.shop import orders

by_id = batched(orders.find_by_ids)
pages = in_order(orders.find_order_pages)
