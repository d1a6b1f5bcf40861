"""Transfers: money on its way from one account to another. A two-phase transfer, without a transaction.

A document:

    _id          ObjectId, derived from the operation and the number of the attempt
    source       the account that pays; None for a deposit, which comes from outside
    destination  the account that is paid
    owners       the subjects of both accounts' owners
    amount       minor units
    currency     ISO 4217, that of both accounts
    state        NEW, then COMMITTED and SETTLED, or ROLLBACK and CANCELLED
    refused      why it was called off for good: `funds` or `limit`
    reference    that of the charge that it pays; missing where it pays none
    created_at
    open_since   the same; gone once the transfer is SETTLED or CANCELLED
    looks        how often it was looked at because an account's fence had moved

The steps: insert the transfer as NEW; take the amount out of the source and note the transfer there, in one update;
note it in the destination; make it COMMITTED; add the amount to the destination and take its note off, in one update;
take the note off the source; make it SETTLED. Money is added only for a COMMITTED transfer, so nothing that was added
is ever taken back.

Why every interleaving is right, with processes that stop or sleep between any two steps:

* A note is made by the process that has inserted the transfer, once, and by nobody else. A note can be taken off once.
  So what depends on a note, the credit and the giving back, happens at most once.
* From NEW a transfer goes to COMMITTED or to ROLLBACK, by one guarded update; one of the two wins for good. It goes to
  COMMITTED only after both notes. From there on everybody may do the rest, and each step is idempotent.
* Who calls a transfer off makes it ROLLBACK first. Then it takes each note off, or, where there is none, moves the
  account's fence, in an update whose guard is that there still is none. The update that makes a note names the fence
  that was read before the transfer was seen to be NEW. So a process that wakes late finds the fence moved, reads it
  anew, looks at the transfer again, and sees that it has been called off. No debit lands after the cancellation.
* A transfer that was called off may be tried again by the same operation, as another transfer with the next number.
  One that was refused may not: whoever repeats the operation meets the refusal first.

Source: MongoDB Applied Design Patterns, ch. 3, "Optimistic Update with Compensation".
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
from collections.abc import Sequence
from datetime import datetime, timedelta

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import SCHEMA_VERSION, CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import Conflict, DomainError, InsufficientFunds, InvalidInput, NotFound
from portico.resolvers.money import MAX_AMOUNT, require_amount, require_currency
from portico.resolvers.writes import idempotency
from portico.resolvers.writes.retries import attempts
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
# A transfer is decided within milliseconds. One that is still NEW after that was left by a crash, or by a process that
# sleeps, and may be called off.
STALE_AFTER = timedelta(seconds=5)
_FUNDS, _LIMIT = "funds", "limit"
# A process whose transfers are called off again and again is too slow to go on.
_ATTEMPTS = 5
# A call waits for another one of the same operation at most so many seconds; by then the transfer is stale.
_PATIENCE = 2 * STALE_AFTER.total_seconds()


class _CalledOff(Exception):
    """Somebody has called the transfer off while it was being prepared."""


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, Document]:
    """The transfers between accounts; a deposit is none."""
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
    """Moves money out of an account of this owner into any other of the same currency.

    Args:     amount: minor units, 1 to 2^53 - 1.
    Returns:  the transfer, settled.
    Raises:   InvalidInput, NotFound (either account), InsufficientFunds; Conflict (it was called off again and again).
    Writes:   transfers, accounts; a two-phase transfer.
    """
    require_amount(amount, "amount", "amount")
    require_currency(currency, "amount", "currency")
    if source_id == destination_id:
        raise InvalidInput("An account cannot pay itself.", "destination_id")
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
    """Puts money from outside into an account, whosever it is. It is recorded as a transfer without a source.

    Args:     amount: minor units, 1 to 2^53 - 1.
    Returns:  the account.
    Raises:   InvalidInput, NotFound; Conflict (it was called off again and again).
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
        raise InvalidInput(f"The account is in {account['currency']}.", *path)


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
    """Moves the money between two accounts as they were read, once for this operation id.

    Args:     reference: of the charge that it is to pay, if there is one.
    Returns:  the transfer, settled; the same one however often it is called.
    Raises:   InsufficientFunds, InvalidInput (the destination would hold too much); these stand for ever, too.
              Conflict (it was called off again and again, or others kept moving a fence), NotFound (an account has
              gone): the next call tells what has become of it.
    Writes:   transfers, accounts; a two-phase transfer.
    """
    tried = 0
    timer = Timer(now)
    for number in itertools.count():
        new = _new_transfer(source, destination, amount, now, operation_id, number)
        # It may have waited for an earlier one, and a transfer that seems to be old is called off.
        new["open_since"] = timer.now()
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
    raise Conflict("The transfer took too long, and was called off.")


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
    """Takes a transfer that this process has inserted from NEW to its end.

    Raises:   NotFound (an account has gone), Conflict (others kept moving a fence): it was called off, unless it was
              decided on before.
    """
    try:
        if source is not None and not await _note(db, new, source, -new["amount"]):
            # Nothing was noted anywhere.
            return await finish(db, await _decide(db, new, CANCELLED, refused=_FUNDS))
        if not await _note(db, new, destination, new["amount"]):
            return await finish(db, await _decide(db, new, ROLLBACK, refused=_LIMIT))
    except _CalledOff:
        return await finish(db, await _require(db, new["_id"]))
    except (Conflict, NotFound):
        # The source gets back at once what was taken out of it. A job does what cannot be done now.
        with contextlib.suppress(Conflict, NotFound):
            await call_off(db, new)
        raise
    return await finish(db, await _decide(db, new, COMMITTED))


async def _note(db: Database, new: Document, account: Document, amount: int) -> bool:
    """Notes the transfer in the account, and takes the amount out of the balance where it is below zero.

    Returns:  False where the account does not allow it: too little, or too much.
    Raises:   _CalledOff, NotFound (the account has gone), Conflict (others kept moving the fence).
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
            raise _CalledOff
    raise Conflict("Other transfers of the account are in the way.")


async def _require_account(db: Database, account_id: ObjectId) -> Document:
    """The account's fence. Raises NotFound: somebody else than Portico has removed the account."""
    account = (await accounts.find_by_ids(db, [account_id], {"fence": 1})).get(account_id)
    if account is None:
        raise NotFound("Account", str(account_id))
    return account


async def _is_still_new(db: Database, transfer_id: ObjectId) -> bool:
    """Asked by a write: a server that is not the primary any more may still answer reads."""
    looked = await db[TRANSFERS.name].update_one({"_id": transfer_id, "state": NEW}, {"$inc": {"looks": 1}})
    return bool(looked.matched_count)


def _has_room(amount: int) -> Document:
    """A guard: the balance can take the amount, with all that is under way and may be added or come back."""
    under_way = {"$sum": {"$map": {"input": "$pending", "in": {"$abs": "$$this.amount"}}}}
    return {"$expr": {"$lte": [{"$add": ["$balance", under_way, amount]}, MAX_AMOUNT]}}


async def _decide(db: Database, new: Document, state: str, **facts: str) -> Document:
    """Takes the transfer from NEW to this state. Returns it as it is then; somebody else may have decided otherwise."""
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
    """Takes a transfer that another process has inserted to its end. While it is NEW it is waited for, unless that
    process seems to be gone. Raises Conflict where it stays NEW.
    """
    waited = 0.0
    while waited < _PATIENCE:
        found = await _require(db, transfer_id)
        if found["state"] != NEW:
            return await finish(db, found)
        if found["open_since"] <= timer.now() - STALE_AFTER:
            return await call_off(db, found)
        pause = random.uniform(0.02, 0.1)  # noqa: S311 - spreads callers, guards nothing
        await asyncio.sleep(pause)
        waited += pause
    raise Conflict("Another call makes the same transfer, and has not come to its end.")


async def call_off(db: Database, found: Document) -> Document:
    """Undoes a transfer that is NEW, or finishes one that has been decided on. May be repeated. Returns it."""
    return await finish(db, await _decide(db, found, ROLLBACK) if found["state"] == NEW else found)


async def finish(db: Database, decided: Document) -> Document:
    """Takes a transfer that has been decided on to its end, and returns it. May be repeated, and by several at once.

    Raises:   NotFound (an account has gone; the transfer stays open), Conflict (others kept moving a fence).
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
        # It was credited before; unless nobody can be credited, and then the source must go on to show it.
        await _require_account(db, committed["destination"])
    if committed["source"] is not None:
        await db[ACCOUNTS.name].update_one({"_id": committed["source"], **noted}, taken_off)


async def _undo(db: Database, called_off: Document) -> None:
    try:
        await let_go(db, called_off, called_off["destination"])
    finally:
        # Whatever has become of the destination, the source gets its money back.
        if called_off["source"] is not None:
            await let_go(db, called_off, called_off["source"])


async def let_go(db: Database, called_off: Document, account_id: ObjectId) -> None:
    """Takes the note of a transfer that was called off from the account, gives back what was taken out, and keeps a
    process that wakes late from noting it. May be repeated.

    Raises:   NotFound (the account has gone), Conflict (others kept changing it).
    """
    noted = {"_id": account_id, "pending.id": called_off["_id"]}
    update: Document = {"$pull": {"pending": {"id": called_off["_id"]}}}
    if account_id == called_off["source"]:
        update["$inc"] = {"balance": called_off["amount"]}
    absent = {"_id": account_id, "pending.id": {"$ne": called_off["_id"]}}
    async for _ in attempts(steps=2):
        if (await db[ACCOUNTS.name].update_one(noted, update)).matched_count:
            return
        if (await db[ACCOUNTS.name].update_one(absent, {"$inc": {"fence": 1}})).matched_count:
            return
        await _require_account(db, account_id)
    raise Conflict("The account is being changed by others.")
