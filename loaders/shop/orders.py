"""Batched reads of orders by id, and of pages of orders."""

from __future__ import annotations

from portico.loaders import declaring
from portico.resolvers.shop import orders

by_id = declaring.batched(orders.find_by_ids)
pages = declaring.pages(orders.ORDERS)
