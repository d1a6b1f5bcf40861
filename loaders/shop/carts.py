"""Batched reads of carts by id."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.shop import carts

by_id = batched(carts.find_by_ids)
