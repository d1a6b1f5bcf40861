"""Settlements that the insert of their record decides: offers of trades, and moves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bson import ObjectId
from pymongo.errors import DuplicateKeyError
from pymongo.read_concern import ReadConcern

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.deciding import look_at
from portico.resolvers.writes.marks import derived_id
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settlements import Attempt, conclude, confirm, prepare, undo
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.timer import Timer

from .exchanges import Line, attempt_of, explain_miss, settle
from .trade_records import ABANDONED, TRADES

_ATTEMPTS = 20


async def insert_settled(
    db: Database,
    record: Document,
    lines: Sequence[Line],
    *,
    new: Sequence[Document] = (),
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Settles the lines, and decides that by inserting the record; once for this operation id.

    An attempt that crashed can leave an ABANDONED record in place of its own. The next attempt then has another `_id`,
    derived from the next number. All attempts try the numbers in order, so that they find the one that was inserted.

    Args:     new: the empty stacks to create for credits.  answering: how the call is answered.
    Returns:  the record; of a repeated call, the one that the first call inserted, as it is now.
    Raises:   NotEnough, InvalidInput (a stack would hold too much), Conflict (goods in flight did not come back).
    Writes:   game.stacks, game.trades; a settlement.
    """
    timer, number = Timer(now), 0
    if answering.is_repeated and (made := await find_inserted(db, operation_id)):
        await settle(db, attempt_of(made["_id"], lines, now, key=made["key"]))
        return made
    async for _ in attempts(_ATTEMPTS, steps=2):
        attempt = attempt_of(_record_id(operation_id, number), lines, timer.now(), new=new)
        if await prepare(db, attempt) and (decided := await _decide(db, attempt, record, lines, answering)):
            return decided
        earlier = await look_at(db, TRADES, attempt.record)
        if earlier is None:
            await explain_miss(db, lines, now=timer.now())
        elif earlier["state"] == ABANDONED:
            number += 1
        else:
            await settle(db, attempt_of(attempt.record, lines, now, key=earlier["key"]))
            return earlier
    raise Conflict("Other callers are using the same stacks. Try again.")


async def _decide(
    db: Database, attempt: Attempt, record: Document, lines: Sequence[Line], answering: Answering
) -> Document | None:
    """Inserts the record of a prepared attempt. If there is another one, undoes the attempt, and returns None."""
    await confirm(db, answering, attempt)
    decided = {**record, "_id": attempt.record, "key": attempt.key, "schema_version": TRADES.version}
    if not await _insert(db, decided):
        await undo(db, attempt)
        return None
    # A debit has subtracted by its note, so readers need not know whether the note is there.
    has_credits = any(line.delta > 0 for line in lines)
    await conclude(db, AT_ONCE if has_credits else answering, attempt)
    return decided


async def find_inserted(db: Database, operation_id: str) -> Document | None:
    """Returns the record that the operation has inserted, as it is now. No later election takes it back."""
    ids = [_record_id(operation_id, number) for number in range(_ATTEMPTS)]
    at_majority = db[TRADES.name].with_options(read_concern=ReadConcern("majority"))
    return await at_majority.find_one({"_id": {"$in": ids}, "state": {"$ne": ABANDONED}})


async def is_inserted(db: Database, operation_id: str) -> bool:
    """Returns whether the operation has inserted its record."""
    return await find_inserted(db, operation_id) is not None


def _record_id(operation_id: str, number: int) -> ObjectId:
    return derived_id(operation_id, f"settlement {number}")


async def _insert(db: Database, decided: Document) -> bool:
    try:
        await db[TRADES.name].insert_one(decided)
    except DuplicateKeyError:
        return False
    return True
