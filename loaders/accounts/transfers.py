"""Batched reads of transfers by id."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.accounts import transfers

by_id = batched(transfers.find_by_ids)
