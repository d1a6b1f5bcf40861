"""Accounts for tests, and assertions about their money."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from portico.gateway.clock import SystemClock
from portico.resolvers.accounts import accounts, transfers
from portico.resolvers.documents import Database
from portico.resolvers.writes.marks import random_operation_id
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.support.harness import GatewayClient, assert_invariants, new_key
from tests.support.ids import key_in

Given = dict[str, Any]
OWNER = "tester"
# The id of an account that does not exist.
NOWHERE = Kind.encode_id("Account", "0" * 24)


async def open_account(
    db: Database, amount: int = 0, *, owner: str = OWNER, currency: str = "USD", name: str = "Savings"
) -> str:
    """Opens an account with this amount of money. Returns its id."""
    now = SystemClock().now()
    opened = await accounts.open_account(
        db, owner=owner, name=name, currency=currency, now=now, operation_id=random_operation_id()
    )
    if amount:
        await transfers.deposit(
            db, account_id=opened["_id"], amount=amount, currency=currency, now=now, operation_id=random_operation_id()
        )
    return Kind.encode_id("Account", opened["_id"])


def deposit_input(account: str, amount: int = 100, **money: Any) -> Given:
    """A valid `DepositInput`."""
    return {"accountId": account, "amount": {"amount": amount, **money}, "idempotencyKey": new_key()}


def transfer_input(source: str, destination: str, amount: int = 10, **money: Any) -> Given:
    """A `TransferInput`, which is valid if the source has the amount."""
    return {
        "sourceId": source,
        "destinationId": destination,
        "amount": {"amount": amount, **money},
        "idempotencyKey": new_key(),
    }


async def move(db: Database, source: str, destination: str, amount: int, *, operation_id: str, now: datetime) -> Any:
    """Transfers money of the owner without an operation record. Returns the transfer."""
    return await transfers.transfer(
        db,
        owner=OWNER,
        source_id=key_in("Account", source),
        destination_id=key_in("Account", destination),
        amount=amount,
        currency="USD",
        now=now,
        operation_id=operation_id,
    )


async def deposit(gateway: GatewayClient, given: Given) -> Any:
    return await gateway.result("deposit", given, token=gateway.token(roles=[Role.SERVICE]))


async def balances(db: Database, *ids: str) -> list[int]:
    """Returns the balances of the accounts, without pending transfers."""
    keys = [key_in("Account", account) for account in ids]
    found = await accounts.find_by_ids(db, keys)
    return [found[key]["balance"] for key in keys]


async def assert_nothing_in_flight(db: Database) -> None:
    """Asserts that every transfer is settled or cancelled, and no account has a pending one."""
    assert await db["transfers"].find_one({"open_since": {"$exists": True}}) is None
    assert await db["transfers"].find_one({"state": {"$nin": ["SETTLED", "CANCELLED"]}}) is None
    assert await db["accounts"].find_one({"pending": {"$ne": []}}) is None


async def assert_money(gateway: GatewayClient, deposited: int) -> None:
    """Asserts that the sum of all balances is the deposited amount, none is negative, and all invariants hold."""
    found = [account["balance"] async for account in gateway.db["accounts"].find({})]
    assert sum(found) == deposited
    assert all(balance >= 0 for balance in found)
    await assert_nothing_in_flight(gateway.db)
    await assert_invariants(gateway)
