"""Batched reads of trades by id."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.game.inventories import trade_records

by_id = batched(trade_records.find_by_ids)
