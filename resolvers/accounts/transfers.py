"""Transfers of money between accounts, and deposits: settlements, see `resolvers.writes.settlements`.

1. Both accounts note the transfer. The note of the source subtracts the amount.
2. The record of the transfer is inserted, with the key of the attempt. That decides.
3. The notes are removed. The update that removes the note of the destination adds the amount.

A refusal is a record, too, with the `_id` that a transfer of this attempt would have. So an operation has one outcome.
If an attempt was called off, because it took longer than five seconds, the operation goes on with the next number.

If the source has too little, or the destination would hold too much, notes of others may be the reason. Those that are
decided or old are settled first. Notes in flight could still give the money back, so the call tries again for about
half a second. Then it is refused.

A transfer reads its accounts before it notes anything. So one that is refused at once leaves no note on the account of
another owner. One that waits for money in flight can leave notes there for a moment.

Source: MongoDB Applied Design Patterns, ch. 3, "Optimistic Update with Compensation".
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

from bson import ObjectId

from portico.resolvers.accounts.refusals import InsufficientFunds
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, InvalidInput, NotFound
from portico.resolvers.money import MAX_AMOUNT, require_amount, require_currency
from portico.resolvers.writes import settlements
from portico.resolvers.writes.deciding import insert
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settlements import Attempt, Part
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.timer import Timer
from portico.resolvers.writes.waiting_once import Notes

from . import accounts, former_transfers, transfer_records
from .accounts import NOTED, AccountDocument
from .transfer_records import CANCELLED, FUNDS, LIMIT, SETTLED, TRANSFERS, record_id

# The attempts of a call: those that others called off, and those that found too little money, but more in flight.
_ATTEMPTS = 30
_MOST_WAITS = 10


async def transfer(
    db: Database,
    *,
    owner: str | None,
    source_id: ObjectId,
    destination_id: ObjectId,
    amount: int,
    currency: str,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Moves money from an account of this owner to any other account of the same currency.

    Args:     owner: None for an account of a domain.  amount: minor units, 1 to 2^53 - 1.
              answering: how the call is answered.
    Returns:  the transfer.
    Raises:   InvalidInput, NotFound (either account), InsufficientFunds, Conflict (it was called off too often).
    Writes:   transfers, accounts; a settlement.
    """
    _require_money(amount, currency)
    if source_id == destination_id:
        text = "The source and the destination must be different accounts."
        raise InvalidInput(text, "destination_id", code=InvalidInput.NOT_ALLOWED)
    if answering.is_repeated and (made := await _made_before(db, operation_id)):
        return made
    # Nobody leaves notes on accounts of others by transfers that are refused at once. So the read comes first.
    found = await accounts.find_stored_for(db, [source_id, destination_id], answering)
    source = _require_account(found, source_id)
    if source["owner"] != owner:
        raise NotFound("Account", str(source_id))
    destination = _require_account(found, destination_id)
    _require_same(source, currency, "amount", "currency")
    _require_same(destination, currency, "destination_id")
    return await move(db, source, destination, amount=amount, now=now, operation_id=operation_id, answering=answering)


def _require_account(found: Mapping[ObjectId, AccountDocument], key: ObjectId) -> AccountDocument:
    """Returns the account with this key. Raises NotFound if there is none."""
    account = found.get(key)
    if account is None:
        raise NotFound("Account", str(key))
    return account


async def deposit(
    db: Database,
    *,
    account_id: ObjectId,
    amount: int,
    currency: str,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> AccountDocument:
    """Adds money from outside to any account. The deposit is recorded as a transfer without a source.

    Args:     amount: minor units, 1 to 2^53 - 1.  answering: as for `transfer`.
    Returns:  the account.
    Raises:   InvalidInput, NotFound, Conflict (it was called off too often).
    Writes:   transfers, accounts; a settlement.
    """
    _require_money(amount, currency)
    if answering.is_repeated and (made := await _made_before(db, operation_id)):
        return await _account_after(db, account_id, made, answering)
    answering.look()
    [part] = _parts(None, account_id, amount, {"currency": currency})
    attempt = Attempt(record_id(operation_id, 0), [part], now, notes=Notes())
    noted: AccountDocument | None = await settlements.prepare_one(db, attempt)
    account = noted or _require_account(await accounts.find_stored(db, [account_id]), account_id)
    _require_same(account, currency, "amount", "currency")
    made = await move(
        db,
        None,
        account,
        amount=amount,
        now=now,
        operation_id=operation_id,
        answering=answering,
        begun=(attempt, noted is not None),
    )
    if noted is None or made.get("key") != attempt.key:
        return await _account_after(db, account_id, made, answering)
    await NOTED.shown(db, [noted], decided=answering.decided(attempt.key))
    return noted


async def _account_after(db: Database, account_id: ObjectId, made: Document, answering: Answering) -> AccountDocument:
    """Returns the account, after the transfer or deposit that was made."""
    decided = answering.decided(made["key"]) if "key" in made else ()
    return (await accounts.find_by_ids(db, [account_id], decided=decided))[account_id]


def _require_money(amount: int, currency: str) -> None:
    with InvalidInput.collect() as check:
        check(require_amount, amount, "amount", "amount")
        check(require_currency, currency, "amount", "currency")


def _require_same(account: AccountDocument, currency: str, *path: str) -> None:
    if account["currency"] != currency:
        raise InvalidInput(
            f"The currency of the account is {account['currency']}.", *path, code=InvalidInput.NOT_ALLOWED
        )


async def move(
    db: Database,
    source: AccountDocument | None,
    destination: AccountDocument,
    *,
    amount: int,
    now: datetime,
    operation_id: str,
    reference: str | None = None,
    answering: Answering = AT_ONCE,
    begun: tuple[Attempt, bool] | None = None,
) -> Document:
    """Moves money between two accounts as they were read, once for this operation id.

    Args:     reference: of the charge that the transfer pays, if any.  answering: as for `transfer`.
              begun: the first attempt, with whether everything is noted, if the caller has prepared it.
    Returns:  the transfer; the same one for every call.
    Raises:   InsufficientFunds, InvalidInput (the destination would hold too much); both are final.
              Conflict (it was called off too often), NotFound (an account is missing): the next call may succeed.
    Writes:   transfers, accounts; a settlement.
    """
    timer, number, record = Timer(now), 0, _record(source, destination, amount, now, reference)
    # An attempt that will fail leaves a note on the destination for a moment.
    is_likely = source is None or source["balance"] >= amount
    async for tried in attempts(_ATTEMPTS, steps=2):
        record["_id"] = record_id(operation_id, number)
        # Use the current time: the call may have waited, and an old attempt would be called off.
        attempt, is_noted = begun or await _begin(db, record, timer.now(), is_likely=is_likely or tried > 0)
        begun = None
        if is_noted:
            made = await settlements.decide(db, TRANSFERS, attempt, {**record, "state": SETTLED}, answering)
        elif reason := await _reason(db, record, timer.now(), may_wait=tried < _MOST_WAITS):
            await answering.confirmed()
            made = await insert(db, TRANSFERS, {**record, "state": CANCELLED, "refused": reason}, answering.keyed)
        else:
            continue
        if ended := await _ended(db, made):
            return ended
        number += 1
    raise Conflict("The transfer took too long and was called off. Try again.")


def first_attempt(
    source: AccountDocument, destination: AccountDocument, *, amount: int, now: datetime, operation_id: str
) -> Attempt:
    """Returns the first attempt at a transfer. A caller that prepares it itself passes it to `move`, or undoes it."""
    return Attempt(record_id(operation_id, 0), _parts(source["_id"], destination["_id"], amount), now)


async def is_made(db: Database, operation_id: str) -> bool:
    """Returns whether the operation has moved money."""
    made = await find_decided(db, operation_id)
    return made is not None and made["state"] == SETTLED


async def find_decided(db: Database, operation_id: str) -> Document | None:
    """Returns the record of the transfer that the operation has made, or of its refusal. None if nothing is decided."""
    ids = [record_id(operation_id, number) for number in range(_ATTEMPTS)]
    return await transfer_records.find_decided(db, ids)


async def _made_before(db: Database, operation_id: str) -> Document | None:
    """Returns the transfer of an earlier call, if one has decided. Raises why it was refused."""
    made = await find_decided(db, operation_id)
    return None if made is None else await _ended(db, made)


async def _begin(db: Database, record: Document, now: datetime, *, is_likely: bool) -> tuple[Attempt, bool]:
    """Prepares an attempt if it is likely to succeed. Returns it, with whether everything is noted."""
    parts = _parts(record["source"], record["destination"], record["amount"])
    attempt = Attempt(record["_id"], parts, now, notes=Notes())
    return attempt, is_likely and await settlements.prepare(db, attempt)


async def _ended(db: Database, made: Document) -> Document | None:
    """Returns the transfer of a record. None if it was called off. Raises why it was refused."""
    if "open_since" in made:
        made = await former_transfers.finish(db, made)
    if "refused" in made:
        raise _refusal(made["refused"])
    return made if made["state"] == SETTLED else None


def _refusal(reason: str) -> DomainError:
    if reason == FUNDS:
        return InsufficientFunds()
    text = "The account would hold more than 2^53 - 1 minor units."
    return InvalidInput(text, "amount", "amount", code=InvalidInput.OUT_OF_RANGE)


def _record(
    source: AccountDocument | None, destination: AccountDocument, amount: int, now: datetime, reference: str | None
) -> Document:
    owners = [account["owner"] for account in (source, destination) if account is not None]
    record = {
        "source": None if source is None else source["_id"],
        "destination": destination["_id"],
        "owners": [owner for owner in dict.fromkeys(owners) if owner is not None],
        "amount": amount,
        "currency": destination["currency"],
        "created_at": now,
        "schema_version": TRANSFERS.version,
    }
    return record if reference is None else {**record, "reference": reference}


def _parts(
    source: ObjectId | None,
    destination: ObjectId,
    amount: int,
    paid: Mapping[str, Any] = MappingProxyType({}),
) -> list[Part]:
    """Returns what the accounts note. `paid` is a further guard of the destination."""
    theirs = Part(NOTED, destination, {"amount": amount}, {**paid, **_has_room(amount)})
    if source is None:
        return [theirs]
    return [Part(NOTED, source, {"amount": -amount}, {"balance": {"$gte": amount}}, {"balance": -amount}), theirs]


def _has_room(amount: int) -> Document:
    """Returns a guard: the balance has room for the amount and for everything in flight, credits and refunds."""
    under_way = {"$sum": {"$map": {"input": "$pending", "in": {"$abs": "$$this.amount"}}}}
    return {"$expr": {"$lte": [{"$add": ["$balance", under_way, amount]}, MAX_AMOUNT]}}


async def _reason(db: Database, record: Document, now: datetime, *, may_wait: bool) -> str | None:
    """Returns why the accounts cannot note the transfer. None if another attempt can succeed.

    Raises:   NotFound (an account is missing).
    """
    ids, amount = [one for one in (record["source"], record["destination"]) if one is not None], record["amount"]
    found = await accounts.find_stored(db, ids)
    for one in ids:
        if one not in found:
            raise NotFound("Account", str(one))
    settled = [await settlements.settle_decided(db, NOTED, account, now=now) for account in found.values()]
    if any(settled):
        return None
    if record["source"] is not None:
        payer = found[record["source"]]
        if payer["balance"] < amount:
            may_come_back = may_wait and payer["balance"] + _in_flight(payer) >= amount
            return None if may_come_back or _is_noted(payer, record) else FUNDS
    payee = found[record["destination"]]
    if payee["balance"] + amount > MAX_AMOUNT:
        return LIMIT
    is_full = payee["balance"] + amount + sum(abs(note["amount"]) for note in payee["pending"]) > MAX_AMOUNT
    # If neither account is the reason any more, they have changed since.
    return LIMIT if is_full and not may_wait and not _is_noted(payee, record) else None


def _is_noted(account: AccountDocument, record: Document) -> bool:
    """Returns whether another process carries out the same transfer: it decides, or its notes grow old."""
    return any(note.get("record") == record["_id"] for note in account["pending"])


def _in_flight(account: AccountDocument) -> Any:
    """Returns what the account gets back if everything in flight is undone."""
    return sum(-note["amount"] for note in account["pending"] if note["amount"] < 0)
