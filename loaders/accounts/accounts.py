"""Reads of accounts by id and by owner."""

from __future__ import annotations

from portico.loaders.declaring import batched, each
from portico.resolvers.accounts import accounts

by_id = batched(accounts.find_by_ids)
by_owner = each(accounts.find_by_owner)
