"""Batched reads of transfers by id."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.accounts import transfer_records

by_id = batched(transfer_records.find_by_ids)
