"""Accounts, which hold money for their owners. The collection, its reads, and how an account is opened.

Accounts are never deleted. Only `transfers` change their balances. The reads of this module show a balance with
exactly the transfers that are decided, also while their notes are there. The projection must have `pending` for that.

Source: MongoDB Applied Design Patterns, ch. 3, "Optimistic Update with Compensation".
"""

from __future__ import annotations

import hashlib
from collections.abc import Container, Sequence
from datetime import datetime
from typing import NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Projection, Versioned
from portico.resolvers.errors import InvalidInput
from portico.resolvers.money import require_currency
from portico.resolvers.parts import as_part
from portico.resolvers.texts import require_line
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.settlements import Noted
from portico.resolvers.writes.settler import Answering

from .transfer_records import TRANSFERS, call_off


class Note(TypedDict):
    """The note of a transfer in flight, see `transfers`. Notes of former versions have `id` and `amount` only, see
    `former_transfers`.
    """

    key: NotRequired[str]
    record: NotRequired[ObjectId]
    at: NotRequired[datetime]
    id: NotRequired[ObjectId]
    # A negative amount is already subtracted from the balance, a positive one is not added yet.
    amount: int


class AccountDocument(Versioned):
    """An account."""

    _id: ObjectId
    # The subject of its owner; None for an account of a domain, such as the shop.
    owner: str | None
    name: str
    # ISO 4217; never changes, like the owner.
    currency: str
    # Minor units, never below zero.
    balance: int
    pending: list[Note]
    # Only former versions use it.
    fence: NotRequired[int]
    created_at: datetime


ACCOUNTS = CollectionSpec(
    "accounts",
    document=AccountDocument,
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
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None, *, decided: Container[str] = ()
) -> dict[ObjectId, AccountDocument]:
    """Returns the accounts with these ids. `decided` has the keys of transfers that are known to be decided."""
    return await as_part(db, lambda db: _find_shown(db, ids, projection, decided))


async def _find_shown(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None, decided: Container[str]
) -> dict[ObjectId, AccountDocument]:
    found = await find_stored(db, ids, projection)
    await NOTED.shown(db, list(found.values()), decided=decided)
    return found


async def find_stored(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, AccountDocument]:
    """Returns the accounts with these ids as they are stored: a decided transfer may still be a note."""
    query = {"_id": {"$in": list(ids)}}
    found = await ACCOUNTS.of(db).find(query, projection, batch_size=len(ids) + 1).to_list()
    return {account["_id"]: account for account in found}


async def find_stored_for(
    db: Database, ids: Sequence[ObjectId], answering: Answering
) -> dict[ObjectId, AccountDocument]:
    """Does the same for a call that is about to decide, in the command that looks for its key."""
    if answering.keyed is None:
        return await find_stored(db, ids)
    found = await answering.keyed.read_with(ACCOUNTS, db, {"_id": {"$in": list(ids)}})
    return {account["_id"]: account for account in found}


async def find_by_owner(db: Database, owner: str, projection: Projection | None = None) -> list[AccountDocument]:
    """Returns the owner's accounts, oldest first."""
    return await as_part(db, lambda db: _find_shown_of(db, owner, projection))


async def _find_shown_of(db: Database, owner: str, projection: Projection | None) -> list[AccountDocument]:
    order = [("created_at", ASCENDING), ("_id", ASCENDING)]
    found = await ACCOUNTS.of(db).find({"owner": owner}, projection, sort=order).to_list()
    await NOTED.shown(db, found)
    return found


async def open_account(
    db: Database, *, owner: str, name: str, currency: str, now: datetime, operation_id: str
) -> AccountDocument:
    """Opens an empty account.

    Args:     currency: ISO 4217.
    Returns:  the account.
    Raises:   InvalidInput, also if the owner has 100 accounts.
    Writes:   accounts; one insert.
    """
    account_id = derived_id(operation_id, "account")
    with InvalidInput.collect() as check:
        name = check(require_line, name, "name", longest=MAX_NAME)
        check(require_currency, currency, "currency")
    account = _empty(account_id, owner=owner, name=name, currency=currency, now=now)
    held = await db[ACCOUNTS.name].count_documents({"owner": owner}, limit=MAX_ACCOUNTS)
    if held == MAX_ACCOUNTS and not await find_by_ids(db, [account["_id"]], {"_id": 1}):
        raise InvalidInput(f"You already have {MAX_ACCOUNTS} accounts.", code=InvalidInput.TOO_MANY, most=MAX_ACCOUNTS)
    return await _insert(db, account)


def domain_account_id(reference: str, currency: str) -> ObjectId:
    """Returns the id of the account of a domain with this reference, in this currency."""
    return ObjectId(hashlib.blake2b(f"{reference}/{currency}".encode(), digest_size=12).digest())


async def open_domain_account(
    db: Database, reference: str, *, name: str, currency: str, now: datetime
) -> AccountDocument:
    """Returns the account of a domain, and opens it if there is none. It has no owner.

    Args:     reference: tells the accounts of domains apart: the name of the domain, or a text that begins with it.
              name: of a new account.  currency: ISO 4217. A reference has one account in each currency.
    Raises:   InvalidInput.
    Writes:   accounts; one insert.
    """
    with InvalidInput.collect() as check:
        name = check(require_line, name, "name", longest=MAX_NAME)
        check(require_currency, currency, "currency")
    account = _empty(domain_account_id(reference, currency), owner=None, name=name, currency=currency, now=now)
    return await _insert(db, account)


def _empty(account_id: ObjectId, *, owner: str | None, name: str, currency: str, now: datetime) -> AccountDocument:
    return {
        "_id": account_id,
        "owner": owner,
        "name": name,
        "currency": currency,
        "balance": 0,
        "pending": [],
        "fence": 0,
        "created_at": now,
        "schema_version": ACCOUNTS.version,
    }


async def _insert(db: Database, account: AccountDocument) -> AccountDocument:
    """Inserts the account. If an earlier call with its id has, returns the current one."""
    try:
        await ACCOUNTS.of(db).insert_one(account)
    except DuplicateKeyError:
        return (await find_by_ids(db, [account["_id"]]))[account["_id"]]
    return account
