"""What other domains do with accounts: they open their own, and their writes pay by a transfer.

A domain that uses it needs `accounts`.
"""

from __future__ import annotations

from portico.resolvers.accounts.for_domains import find_transfer, open_account, pay_out, transfer
from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.schema.accounts.accounts import ACCOUNT, Transfer

__all__ = ["ACCOUNT", "InsufficientFunds", "Transfer", "find_transfer", "open_account", "pay_out", "transfer"]
