"""Batched reads of accounts by id."""

from __future__ import annotations

from portico.loaders.declaring import batched
from portico.resolvers.accounts import accounts

by_id = batched(accounts.find_by_ids)
