"""Accounts: money held for somebody. The collection, its reads, and how one is opened.

A document:

    _id         ObjectId
    owner       the subject of whoever holds it; None for the shop's own
    name
    currency    ISO 4217; like the owner it never changes
    balance     minor units, never below zero
    pending     [{id, amount}], the transfers that are under way here: what is below zero has been taken out of the
                balance, what is above is still to be added
    fence       a number that grows when a transfer is called off: see `transfers`
    created_at

Accounts are never deleted. Money moves by `transfers` alone.

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
from portico.resolvers.writes import idempotency

ACCOUNTS = CollectionSpec(
    "accounts",
    indexes=[IndexModel([("owner", ASCENDING), ("created_at", ASCENDING), ("_id", ASCENDING)])],
    # A transfer names its accounts by id; only the list of an owner's accounts goes to all shards.
    shard_key={"_id": "hashed"},
)

MAX_NAME = 200
# The list of an owner's accounts is answered whole. Calls at once may go a little beyond.
MAX_ACCOUNTS = 100


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    query = {"_id": {"$in": list(ids)}}
    found = await db[ACCOUNTS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {account["_id"]: account for account in found}


async def find_by_owner(db: Database, owner: str, projection: Projection | None = None) -> list[Document]:
    """The owner's accounts, oldest first."""
    order = [("created_at", ASCENDING), ("_id", ASCENDING)]
    return await db[ACCOUNTS.name].find({"owner": owner}, projection, sort=order).to_list()


async def open_account(
    db: Database, *, owner: str, name: str, currency: str, now: datetime, operation_id: str
) -> Document:
    """Opens an empty account.

    Args:     currency: ISO 4217.
    Returns:  the account.
    Raises:   InvalidInput, also for an owner of 100 accounts.
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
        raise InvalidInput(f"There are {MAX_ACCOUNTS} accounts already.")
    return await _insert(db, account)


def shop_account_id(currency: str) -> ObjectId:
    """The id of the shop's own account in this currency."""
    return ObjectId(hashlib.blake2b(f"shop/{currency}".encode(), digest_size=12).digest())


async def open_shop_account(db: Database, currency: str, *, now: datetime) -> Document:
    """The shop's own account in this currency, opened where there is none yet. It is nobody's to look at.

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
    """The account, which an earlier call with its id may have opened, and others used since."""
    try:
        await db[ACCOUNTS.name].insert_one(account)
    except DuplicateKeyError:
        return (await find_by_ids(db, [account["_id"]]))[account["_id"]]
    return account
