"""Settles or undoes interrupted transfers, and checks the balance of every account."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING

from portico.resolvers.declarations import Job
from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.problems import Problem, problems_with
from portico.resolvers.snapshots import read_at_one_time
from portico.resolvers.writes import settlements
from portico.resolvers.writes.sweeps import require, sweep

from . import former_transfers
from .accounts import ACCOUNTS, NOTED
from .transfer_records import CANCELLED, COMMITTED, SETTLED, TRANSFERS

_BATCH = 100
_FIELDS = ("owner", "name", "currency", "balance", "pending", "created_at")


async def finish_transfers(db: Database, *, now: datetime) -> int:
    """Removes the notes of transfers, and finishes those of former versions, if they are older than five seconds.

    Returns how many.
    """
    return await Job.in_sequence(partial(NOTED.finish_stale, db, now=now), partial(_finish_former, db, now))


async def _finish_former(db: Database, now: datetime) -> int:
    async def end(transfer: Document) -> int:
        await former_transfers.finish(db, transfer)
        return 1

    return await sweep(db, TRANSFERS, {"open_since": {"$lte": now - Job.STALE_AFTER}}, end)


async def find_wrong_accounts(db: Database) -> AsyncIterator[Problem]:
    """Yields accounts with a negative balance, with a balance other than its transfers, or with an outdated note.

    If every balance equals the sum of the account's deposits and transfers, no money is lost or created: an amount that
    has left one account and not reached the other is noted in the first. Each hundred accounts are read as of one point
    in time.
    """
    ids = db[ACCOUNTS.name].find({}, {"_id": 1}, sort=[("_id", ASCENDING)])
    async for batch in in_batches(ids, _BATCH):
        async for problem in _wrong_in(db, [account["_id"] for account in batch]):
            yield problem


async def _wrong_in(db: Database, ids: Sequence[ObjectId]) -> AsyncIterator[Problem]:
    stages: list[Document] = [
        {"$match": {"_id": {"$in": list(ids)}}},
        _sum_of("destination", "came"),
        _sum_of("source", "went"),
        _noted_by("record"),
        _noted_by("id"),
    ]
    for account in await read_at_one_time(db, ACCOUNTS, stages, batch_size=len(ids) + 1):
        for problem in problems_with(account, partial(_problems, db), _name_of):
            yield problem


def _name_of(account: Mapping[str, Any]) -> str:
    return f"account {account['_id']} ({account.get('name')})"


def _noted_by(name: str) -> Document:
    """Returns the stage that adds the transfers of the notes: `record` names them, and `id` in former versions."""
    found = {"from": TRANSFERS.name, "localField": f"pending.{name}", "foreignField": "_id", "as": f"by_{name}"}
    return {"$lookup": found}


def _sum_of(side: str, name: str) -> Document:
    """Returns the stage that sums the committed and settled transfers on this side of the account."""
    certain: list[Document] = [
        {"$match": {"state": {"$in": [COMMITTED, SETTLED]}}},
        {"$group": {"_id": None, "amount": {"$sum": "$amount"}}},
    ]
    lookup = {"from": TRANSFERS.name, "localField": "_id", "foreignField": side, "pipeline": certain, "as": name}
    return {"$lookup": lookup}


def _problems(db: Database, account: Document) -> Iterator[Problem]:
    require(account, _FIELDS)
    by_record, by_id = ({one["_id"]: one for one in account[name]} for name in ("by_record", "by_id"))
    expected = _total(account["came"]) - _total(account["went"])
    for note in account["pending"]:
        if "key" in note:
            is_certain = settlements.was_decided(NOTED, by_record.get(note["record"]), note)
        else:
            transfer = by_id.get(note["id"])
            is_certain = transfer is not None and transfer["state"] in {COMMITTED, SETTLED}
            yield from _problems_of_former(db, account, transfer)
        # Subtracted but not counted yet, or counted but not added yet.
        if (note["amount"] < 0) is not is_certain:
            expected -= abs(note["amount"])
    if account["balance"] < 0:
        yield Problem(_name_of(account), f"its balance is {account['balance']}")
    if account["balance"] != expected:
        text = f"its balance is {account['balance']}, but its transfers add up to {expected}"
        yield Problem(_name_of(account), text)


def _problems_of_former(db: Database, account: Document, transfer: Document | None) -> Iterator[Problem]:
    """Yields what is wrong if an account has a note of this transfer of a former version."""
    if transfer is None or transfer["state"] == SETTLED:
        yield Problem(_name_of(account), "it has a note of a transfer that is settled or missing")
    elif transfer["state"] == CANCELLED:
        forget = partial(former_transfers.remove_note, db, transfer, account["_id"])
        yield Problem(_name_of(account), "it has a note of a transfer that was rolled back", forget)


def _total(sums: list[Document]) -> Any:
    return sums[0]["amount"] if sums else 0
