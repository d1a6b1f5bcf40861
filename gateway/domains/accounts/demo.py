"""The demo's accounts."""

from __future__ import annotations

from datetime import datetime

from portico.gateway.demo import demo_token
from portico.gateway.demo.loading import OPERATION, Demo
from portico.resolvers.accounts import accounts, transfers
from portico.resolvers.documents import Database

# The accounts of the demo's viewer, with their balances in minor units of US dollars.
ACCOUNTS = {"Everyday": 50_000, "Savings": 250_000}
# What the other members of the storefront have, in one account each.
_MEMBERS_HAVE = 40_000


async def load(demo: Demo) -> None:
    demo.say(f"accounts: {await open_accounts(demo.db, now=demo.now):,} with money in them")


async def open_accounts(db: Database, *, now: datetime) -> int:
    """Opens accounts for the members of the storefront and deposits money. Returns how many. Idempotent."""
    wanted = [(demo_token.SUBJECT, name, amount, f"{OPERATION}{name}") for name, amount in ACCOUNTS.items()]
    others = [member for member in demo_token.MEMBERS if member != demo_token.SUBJECT]
    wanted += [(member, "Everyday", _MEMBERS_HAVE, f"{OPERATION}{member}.Everyday") for member in others]
    for owner, name, amount, operation_id in wanted:
        opened = await accounts.open_account(
            db, owner=owner, name=name, currency="USD", now=now, operation_id=operation_id
        )
        await transfers.deposit(
            db, account_id=opened["_id"], amount=amount, currency="USD", now=now, operation_id=operation_id
        )
    return len(wanted)
