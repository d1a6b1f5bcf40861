"""What other domains do with accounts: their writes pay by a transfer. A domain that uses it needs `accounts`."""

from __future__ import annotations

from portico.resolvers.accounts.for_domains import transfer
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.schema.accounts.accounts import ACCOUNT, Transfer

__all__ = ["ACCOUNT", "InsufficientFunds", "Transfer", "transfer"]
