"""Transfers of money between accounts: a two-phase protocol without transactions.

A document:

    _id          ObjectId, derived from the operation and the number of the attempt
    source       the account that pays; None for a deposit, whose money comes from outside
    destination  the account that is paid
    owners       the subjects of both accounts' owners
    amount       minor units
    currency     ISO 4217, that of both accounts
    state        NEW, then COMMITTED and SETTLED, or ROLLBACK and CANCELLED
    refused      why it was refused: `funds` or `limit`; this is final
    reference    the reference of the charge that it pays; missing if it pays none
    created_at
    open_since   when it was inserted; removed once the transfer is SETTLED or CANCELLED
    looks        how often it was checked because an account's fence had changed

The steps:

1. Insert the transfer as NEW.
2. Subtract the amount from the source and note the transfer there, in one update.
3. Note the transfer in the destination.
4. Set it to COMMITTED.
5. Add the amount to the destination and remove its note there, in one update.
6. Remove the note from the source.
7. Set it to SETTLED.

      NEW --4--> COMMITTED --5, 6, 7--> SETTLED
       |
       +--roll back--> ROLLBACK --remove the notes, refund--> CANCELLED

If the source does not have enough money, nothing was noted, and the transfer goes from NEW directly to CANCELLED.
Money is added only for a COMMITTED transfer, so a credit is never taken back.

Every interleaving is correct, even if processes stop or are suspended between any two steps:

* Only the process that has inserted the transfer makes its notes, each of them once. A note can be removed once. So the
  credit and the refund, which depend on a note, happen at most once.
* A transfer leaves NEW by one guarded update, so either COMMITTED or the rollback wins for good. It becomes COMMITTED
  only after both notes. From then on any process can do the rest, and each step is idempotent.
* A rollback first sets ROLLBACK. Then it removes each note. If an account has no note, it increments the account's
  fence instead, in an update that requires that there is still no note. The update that makes a note requires the fence
  that was read before the transfer was seen as NEW. So a process that resumes late finds another fence, reads the
  transfer again, and sees that it was rolled back. No debit happens after the cancellation.
* The same operation can retry a transfer that was rolled back, as another transfer with the next number. It cannot
  retry a refused one: a repetition of the operation finds the refusal first.

Source: MongoDB Applied Design Patterns, ch. 3, "Optimistic Update with Compensation".
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import Conflict, DomainError, InsufficientFunds, InvalidInput, NotFound
from portico.resolvers.money import MAX_AMOUNT, require_amount, require_currency
from portico.resolvers.waiting import waiting
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.sweeps import STALE_AFTER
from portico.resolvers.writes.timer import Timer

from . import accounts
from .accounts import ACCOUNTS

TRANSFERS = CollectionSpec(
    "transfers",
    indexes=[
        IndexModel([("open_since", ASCENDING)], sparse=True),
        IndexModel([("source", ASCENDING)]),
        IndexModel([("destination", ASCENDING)]),
    ],
    shard_key={"_id": "hashed"},
)

NEW, COMMITTED, SETTLED, ROLLBACK, CANCELLED = "NEW", "COMMITTED", "SETTLED", "ROLLBACK", "CANCELLED"
_FUNDS, _LIMIT = "funds", "limit"
# A process gives up after this many of its transfers were rolled back as stale.
_ATTEMPTS = 5
# The seconds that a call waits for a concurrent one of the same operation. The transfer is stale by then.
_MAX_WAIT = 2 * STALE_AFTER.total_seconds()


class _RolledBack(Exception):
    """Another process has rolled the transfer back while it was being prepared."""


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    """Returns the transfers with these ids, without deposits."""
    query = {"_id": {"$in": list(ids)}, "source": {"$ne": None}}
    found = await db[TRANSFERS.name].find(query, projection, batch_size=len(ids) + 1).to_list()
    return {transfer["_id"]: transfer for transfer in found}


async def transfer(
    db: Database,
    *,
    owner: str,
    source_id: ObjectId,
    destination_id: ObjectId,
    amount: int,
    currency: str,
    now: datetime,
    operation_id: str,
) -> Document:
    """Moves money from an account of this owner to any other account of the same currency.

    Args:     amount: minor units, 1 to 2^53 - 1.
    Returns:  the transfer, settled.
    Raises:   InvalidInput, NotFound (either account), InsufficientFunds, Conflict (it was rolled back too often).
    Writes:   transfers, accounts; a two-phase transfer.
    """
    require_amount(amount, "amount", "amount")
    require_currency(currency, "amount", "currency")
    if source_id == destination_id:
        raise InvalidInput("The source and the destination must be different accounts.", "destination_id")
    found = await accounts.find_by_ids(db, [source_id, destination_id])
    source, destination = found.get(source_id), found.get(destination_id)
    if source is None or source["owner"] != owner:
        raise NotFound("Account", str(source_id))
    if destination is None:
        raise NotFound("Account", str(destination_id))
    _require_same(source, currency, "amount", "currency")
    _require_same(destination, currency, "destination_id")
    return await move(db, source, destination, amount=amount, now=now, operation_id=operation_id)


async def deposit(
    db: Database, *, account_id: ObjectId, amount: int, currency: str, now: datetime, operation_id: str
) -> Document:
    """Adds money from outside to any account. The deposit is recorded as a transfer without a source.

    Args:     amount: minor units, 1 to 2^53 - 1.
    Returns:  the account.
    Raises:   InvalidInput, NotFound, Conflict (it was rolled back too often).
    Writes:   transfers, accounts; a two-phase transfer.
    """
    require_amount(amount, "amount", "amount")
    require_currency(currency, "amount", "currency")
    account = (await accounts.find_by_ids(db, [account_id])).get(account_id)
    if account is None:
        raise NotFound("Account", str(account_id))
    _require_same(account, currency, "amount", "currency")
    await move(db, None, account, amount=amount, now=now, operation_id=operation_id)
    return (await accounts.find_by_ids(db, [account_id]))[account_id]


def _require_same(account: Document, currency: str, *path: str) -> None:
    if account["currency"] != currency:
        raise InvalidInput(f"The currency of the account is {account['currency']}.", *path)


async def move(
    db: Database,
    source: Document | None,
    destination: Document,
    *,
    amount: int,
    now: datetime,
    operation_id: str,
    reference: str | None = None,
) -> Document:
    """Moves money between two accounts as they were read, once for this operation id.

    Args:     reference: of the charge that the transfer pays, if any.
    Returns:  the transfer, settled; the same one for every call.
    Raises:   InsufficientFunds, InvalidInput (the destination would hold too much); both are final.
              Conflict (it was rolled back too often, or others kept changing a fence), NotFound (an account is
              missing): the outcome is open, and the next call returns it.
    Writes:   transfers, accounts; a two-phase transfer.
    """
    tried = 0
    timer = Timer(now)
    for number in itertools.count():
        # Use the current time: the call may have waited for an earlier transfer, and an old one would be rolled back.
        new = {**_new_transfer(source, destination, amount, now, operation_id, number), "open_since": timer.now()}
        if reference is not None:
            new["reference"] = reference
        try:
            await db[TRANSFERS.name].insert_one(new)
        except DuplicateKeyError:
            ended = await _end_another(db, new["_id"], timer)
        else:
            tried += 1
            ended = await _carry_out(db, new, source, destination)
        if ended["state"] == SETTLED:
            return ended
        if "refused" in ended:
            raise _refusal(ended["refused"])
        if tried == _ATTEMPTS:
            break
    raise Conflict("The transfer took too long and was rolled back. Try again.")


def _refusal(reason: str) -> DomainError:
    if reason == _FUNDS:
        return InsufficientFunds()
    return InvalidInput("The account would hold more than 2^53 - 1 minor units.", "amount", "amount")


def _new_transfer(
    source: Document | None, destination: Document, amount: int, now: datetime, operation_id: str, number: int
) -> Document:
    owners = [account["owner"] for account in (source, destination) if account is not None]
    return {
        "_id": idempotency.derived_id(operation_id, f"transfer {number}"),
        "source": None if source is None else source["_id"],
        "destination": destination["_id"],
        "owners": [owner for owner in dict.fromkeys(owners) if owner is not None],
        "amount": amount,
        "currency": destination["currency"],
        "state": NEW,
        "created_at": now,
        SCHEMA_VERSION: TRANSFERS.version,
    }


async def _carry_out(db: Database, new: Document, source: Document | None, destination: Document) -> Document:
    """Carries out a NEW transfer that this process has inserted. Returns it, settled or cancelled.

    Raises:   NotFound (an account is missing), Conflict (others kept changing a fence): it was rolled back, unless it
              was decided before.
    """
    try:
        if source is not None and not await _note(db, new, source, -new["amount"]):
            # Nothing was noted anywhere.
            return await finish(db, await _decide(db, new, CANCELLED, refused=_FUNDS))
        if not await _note(db, new, destination, new["amount"]):
            return await finish(db, await _decide(db, new, ROLLBACK, refused=_LIMIT))
    except _RolledBack:
        return await finish(db, await _require(db, new["_id"]))
    except (Conflict, NotFound):
        # Refund the source immediately. If that fails, a job does it.
        with contextlib.suppress(Conflict, NotFound):
            await resolve_open(db, new)
        raise
    return await finish(db, await _decide(db, new, COMMITTED))


async def _note(db: Database, new: Document, account: Document, amount: int) -> bool:
    """Notes the transfer in the account. Subtracts a negative amount from the balance.

    Returns:  False if the account has too little money, or would have too much.
    Raises:   _RolledBack, NotFound (the account is missing), Conflict (others kept changing the fence).
    """
    note: Document = {"$push": {"pending": {"id": new["_id"], "amount": amount}}}
    if amount < 0:
        note["$inc"] = {"balance": amount}
    allowed = {"balance": {"$gte": -amount}} if amount < 0 else _has_room(amount)
    async for _ in attempts(steps=2):
        guard = {"_id": account["_id"], "fence": account["fence"], **allowed}
        if (await db[ACCOUNTS.name].update_one(guard, note)).matched_count:
            return True
        fence = account["fence"]
        account = await _require_account(db, account["_id"])
        if account["fence"] == fence:
            return False
        if not await _is_still_new(db, new["_id"]):
            raise _RolledBack
    raise Conflict("Too many concurrent transfers change the account. Try again.")


async def _require_account(db: Database, account_id: ObjectId) -> Document:
    """Reads the account's fence. Raises NotFound if other software has removed the account."""
    account = (await accounts.find_by_ids(db, [account_id], {"fence": 1})).get(account_id)
    if account is None:
        raise NotFound("Account", str(account_id))
    return account


async def _is_still_new(db: Database, transfer_id: ObjectId) -> bool:
    """Returns whether the transfer is NEW. It writes, because a server that lost its primary role can answer reads."""
    looked = await db[TRANSFERS.name].update_one({"_id": transfer_id, "state": NEW}, {"$inc": {"looks": 1}})
    return bool(looked.matched_count)


def _has_room(amount: int) -> Document:
    """Returns a guard: the balance has room for the amount and for everything in flight, credits and refunds."""
    under_way = {"$sum": {"$map": {"input": "$pending", "in": {"$abs": "$$this.amount"}}}}
    return {"$expr": {"$lte": [{"$add": ["$balance", under_way, amount]}, MAX_AMOUNT]}}


async def _decide(db: Database, new: Document, state: str, **facts: str) -> Document:
    """Sets a NEW transfer to this state. Returns the current one; another process may have decided differently."""
    update: Document = {"$set": {"state": state, **facts}}
    if state == CANCELLED:
        update["$unset"] = {"open_since": ""}
    decided = await db[TRANSFERS.name].update_one({"_id": new["_id"], "state": NEW}, update)
    return {**new, "state": state, **facts} if decided.matched_count else await _require(db, new["_id"])


async def _require(db: Database, transfer_id: ObjectId) -> Document:
    found = await db[TRANSFERS.name].find_one({"_id": transfer_id})
    assert found is not None, "transfers are never deleted"
    return found


async def _end_another(db: Database, transfer_id: ObjectId, timer: Timer) -> Document:
    """Ends a transfer that another process has inserted. Waits while it is NEW, and rolls it back if it is stale.

    Raises:   Conflict (it stays NEW).
    """
    waited = 0.0
    while waited < _MAX_WAIT:
        found = await _require(db, transfer_id)
        if found["state"] != NEW:
            return await finish(db, found)
        if found["open_since"] <= timer.now() - STALE_AFTER:
            return await resolve_open(db, found)
        pause = random.uniform(0.02, 0.1)  # noqa: S311 - spreads callers, guards nothing
        async with waiting():
            await asyncio.sleep(pause)
        waited += pause
    raise Conflict("Another call makes the same transfer and has not finished. Try again.")


async def resolve_open(db: Database, found: Document) -> Document:
    """Rolls back a NEW transfer, or finishes a decided one. Returns it. Idempotent."""
    return await finish(db, await _decide(db, found, ROLLBACK) if found["state"] == NEW else found)


async def finish(db: Database, decided: Document) -> Document:
    """Finishes a decided transfer, and returns it. Idempotent, also when run concurrently.

    Raises:   NotFound (an account is missing; the transfer stays open), Conflict (others kept changing a fence).
    """
    if decided["state"] == COMMITTED:
        await _settle(db, decided)
    elif decided["state"] == ROLLBACK:
        await _undo(db, decided)
    else:
        return decided
    ends = {COMMITTED: SETTLED, ROLLBACK: CANCELLED}
    state = decided["state"]
    update = {"$set": {"state": ends[state]}, "$unset": {"open_since": ""}}
    await db[TRANSFERS.name].update_one({"_id": decided["_id"], "state": state}, update)
    return {**decided, "state": ends[state]}


async def _settle(db: Database, committed: Document) -> None:
    noted = {"pending.id": committed["_id"]}
    taken_off = {"$pull": {"pending": {"id": committed["_id"]}}}
    credit = {**taken_off, "$inc": {"balance": committed["amount"]}}
    credited = await db[ACCOUNTS.name].update_one({"_id": committed["destination"], **noted}, credit)
    if not credited.matched_count:
        # It was credited before. If the account is missing, raise, so that the note in the source stays.
        await _require_account(db, committed["destination"])
    if committed["source"] is not None:
        await db[ACCOUNTS.name].update_one({"_id": committed["source"], **noted}, taken_off)


async def _undo(db: Database, rolled_back: Document) -> None:
    try:
        await remove_note(db, rolled_back, rolled_back["destination"])
    finally:
        # Refund the source even if the destination fails.
        if rolled_back["source"] is not None:
            await remove_note(db, rolled_back, rolled_back["source"])


async def remove_note(db: Database, rolled_back: Document, account_id: ObjectId) -> None:
    """Removes the note of a transfer that was rolled back, and refunds the source. Idempotent.

    If there is no note, it moves the fence, so that a process that resumes late cannot make one.

    Raises:   NotFound (the account is missing), Conflict (others kept changing it).
    """
    noted = {"_id": account_id, "pending.id": rolled_back["_id"]}
    update: Document = {"$pull": {"pending": {"id": rolled_back["_id"]}}}
    if account_id == rolled_back["source"]:
        update["$inc"] = {"balance": rolled_back["amount"]}
    absent = {"_id": account_id, "pending.id": {"$ne": rolled_back["_id"]}}
    async for _ in attempts(steps=2):
        if (await db[ACCOUNTS.name].update_one(noted, update)).matched_count:
            return
        if (await db[ACCOUNTS.name].update_one(absent, {"$inc": {"fence": 1}})).matched_count:
            return
        await _require_account(db, account_id)
    raise Conflict("Other callers are changing the account. Try again.")
