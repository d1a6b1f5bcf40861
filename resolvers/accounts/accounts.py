"""Accounts, which hold money for their owners. The collection, its reads, and how an account is opened.

A document:

    _id         ObjectId
    owner       the subject of its owner; None for an account of the shop
    name
    currency    ISO 4217; never changes, like the owner
    balance     minor units, never below zero
    pending     [{key, record, at, amount}]: notes of the transfers in flight, see `transfers`. A negative amount is
                already subtracted from the balance, a positive one is not added yet. Notes of former versions are
                {id, amount}, see `former_transfers`
    fence       only former versions use it
    created_at

Accounts are never deleted. Only `transfers` change their balances. The reads of this module show a balance with the
transfers that were decided, also while their notes are still there. The projection must have `pending` for that.

Source: MongoDB Applied Design Patterns, ch. 3, "Optimistic Update with Compensation".
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import InvalidInput
from portico.resolvers.money import require_currency
from portico.resolvers.text import require_text
from portico.resolvers.writes import idempotency, settlements
from portico.resolvers.writes.settlements import Noted

from .transfer_records import TRANSFERS, call_off

ACCOUNTS = CollectionSpec(
    "accounts",
    indexes=[
        IndexModel([("owner", ASCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("pending.at", ASCENDING)], partialFilterExpression={"pending.at": {"$exists": True}}),
    ],
    # Transfers refer to accounts by id. Only the list of an owner's accounts queries all shards.
    shard_key={"_id": "hashed"},
)

NOTED = Noted(
    ACCOUNTS,
    "pending",
    TRANSFERS,
    given=lambda note: {"balance": note["amount"]} if note["amount"] > 0 else {},
    back=lambda note: {"balance": -note["amount"]} if note["amount"] < 0 else {},
    prevent=call_off,
)

MAX_NAME = 200
# The list of an owner's accounts has no pages. Concurrent calls can exceed the limit slightly.
MAX_ACCOUNTS = 100


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None, *, decided: str | None = None
) -> dict[ObjectId, Document]:
    """Returns the accounts with these ids. `decided` is the key of a transfer that is known to be decided."""
    found = await find_stored(db, ids, projection)
    await settlements.shown(db, NOTED, list(found.values()), decided=decided)
    return found


async def find_stored(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    """Returns the accounts with these ids as they are stored: a decided transfer may still be a note."""
    query = {"_id": {"$in": list(ids)}}
    found = await db[ACCOUNTS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {account["_id"]: account for account in found}


async def find_by_owner(db: Database, owner: str, projection: Projection | None = None) -> list[Document]:
    """Returns the owner's accounts, oldest first."""
    order = [("created_at", ASCENDING), ("_id", ASCENDING)]
    found = await db[ACCOUNTS.name].find({"owner": owner}, projection, sort=order).to_list()
    await settlements.shown(db, NOTED, found)
    return found


async def open_account(
    db: Database, *, owner: str, name: str, currency: str, now: datetime, operation_id: str
) -> Document:
    """Opens an empty account.

    Args:     currency: ISO 4217.
    Returns:  the account.
    Raises:   InvalidInput, also if the owner has 100 accounts.
    Writes:   accounts; one insert.
    """
    account = _empty(
        idempotency.derived_id(operation_id, "account"),
        owner=owner,
        name=require_text(name, "name", longest=MAX_NAME),
        currency=require_currency(currency, "currency"),
        now=now,
    )
    held = await db[ACCOUNTS.name].count_documents({"owner": owner}, limit=MAX_ACCOUNTS)
    if held == MAX_ACCOUNTS and not await find_by_ids(db, [account["_id"]], {"_id": 1}):
        raise InvalidInput(f"You already have {MAX_ACCOUNTS} accounts.")
    return await _insert(db, account)


def shop_account_id(currency: str) -> ObjectId:
    """Returns the id of the shop's account in this currency."""
    return ObjectId(hashlib.blake2b(f"shop/{currency}".encode(), digest_size=12).digest())


async def open_shop_account(db: Database, currency: str, *, now: datetime) -> Document:
    """Returns the shop's account in this currency, and opens it if there is none. It has no owner.

    Writes:   accounts; one insert.
    """
    account = _empty(shop_account_id(currency), owner=None, name="The shop", currency=currency, now=now)
    return await _insert(db, account)


def _empty(account_id: ObjectId, *, owner: str | None, name: str, currency: str, now: datetime) -> Document:
    return {
        "_id": account_id,
        "owner": owner,
        "name": name,
        "currency": currency,
        "balance": 0,
        "pending": [],
        "fence": 0,
        "created_at": now,
        SCHEMA_VERSION: ACCOUNTS.version,
    }


async def _insert(db: Database, account: Document) -> Document:
    """Inserts the account. If an earlier call with its id has, returns the current one."""
    try:
        await db[ACCOUNTS.name].insert_one(account)
    except DuplicateKeyError:
        return (await find_by_ids(db, [account["_id"]]))[account["_id"]]
    return account
