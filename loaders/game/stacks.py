"""Batched reads of stacks and trades by id, and of pages of them."""

from __future__ import annotations

from portico.loaders import declaring
from portico.resolvers.game import trade_records
from portico.resolvers.game.stacks import STACKS
from portico.resolvers.game.trade_records import TRADES

by_id = declaring.by_key(STACKS)
pages = declaring.pages(STACKS)
trade_by_id = declaring.batched(trade_records.find_by_ids)
trade_pages = declaring.pages(TRADES)
