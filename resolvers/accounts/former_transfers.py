"""Finishes what the former protocol of transfers has left in the database: a job, and repeated calls.

Former versions inserted a transfer as NEW, noted {id, amount} in both accounts, and set it to COMMITTED. Then they
credited the destination, removed the notes, and set it to SETTLED. A NEW transfer could be rolled back: to ROLLBACK,
and to CANCELLED once the notes were removed and the source had its money back.

      NEW ----> COMMITTED --credit, remove the notes--> SETTLED
       |
       +------> ROLLBACK --remove the notes, refund---> CANCELLED

A gateway of a former version may still run, beside this one or suspended. So each step is guarded as it was there: a
transfer leaves NEW once, a note is removed once, and a rollback that finds no note in an account increases the `fence`
of the account, which the update that makes a note requires.

If somebody else has deleted an account, its open transfers stay open, and the job logs them. The source still gets its
money back from a transfer that was rolled back. For a committed one, the source keeps the note.
"""

from __future__ import annotations

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.writes.retries import attempts

from .accounts import ACCOUNTS
from .transfer_records import CANCELLED, COMMITTED, NEW, ROLLBACK, SETTLED, TRANSFERS


async def finish(db: Database, found: Document) -> Document:
    """Rolls back a NEW transfer, or finishes a decided one. Returns it. Idempotent, also when run concurrently.

    Raises:   NotFound (an account is missing; the transfer stays open), Conflict (others kept changing a fence).
    """
    transfers = db[TRANSFERS.name]
    if found["state"] == NEW:
        await transfers.update_one({"_id": found["_id"], "state": NEW}, {"$set": {"state": ROLLBACK}})
        found = await transfers.find_one({"_id": found["_id"]}) or found
    state = found["state"]
    if state == COMMITTED:
        await _settle(db, found)
    elif state == ROLLBACK:
        await _undo(db, found)
    else:
        return found
    end = {COMMITTED: SETTLED, ROLLBACK: CANCELLED}[state]
    ended = {"$set": {"state": end}, "$unset": {"open_since": ""}}
    await transfers.update_one({"_id": found["_id"], "state": state}, ended)
    return {**found, "state": end}


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


async def _require_account(db: Database, account_id: ObjectId) -> None:
    if await db[ACCOUNTS.name].find_one({"_id": account_id}, {"_id": 1}) is None:
        raise NotFound("Account", str(account_id))
