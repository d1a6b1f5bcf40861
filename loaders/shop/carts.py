"""Reads of carts by id and by owner."""

from __future__ import annotations

from portico.loaders.declaring import batched, each
from portico.resolvers.shop import carts

by_id = batched(carts.find_by_ids)
of_owner = each(carts.find_of_owner)
