"""A settlement that the insert of a record decides, from its first attempt to its outcome. See `settlements`.

A refusal is a record, too, with the `_id` that the record of the attempt would have. So an operation has one outcome,
also if several processes carry it out. If an attempt was called off, because it took longer than five seconds, the
operation goes on with the next number.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.writes.marks import derived_id

from .retries import attempts
from .settlements import AT_ONCE, Answering, Attempt, Part, decide, insert, prepare, settle_decided
from .timer import Timer

# The attempts of a call: those that others called off, and those that met notes in flight.
_ATTEMPTS = 30
_MOST_WAITS = 10


async def settle_once(
    db: Database,
    records: CollectionSpec,
    parts: Sequence[Part],
    facts: Document,
    *,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document | None:
    """Notes all parts and inserts the record that decides: everything or nothing, and once for an operation.

    If a document does not allow its part, notes in flight may be the reason. Then it tries again for half a second, or
    as long as the notes are of the same operation.
    Records are never deleted. One without `key` was refused or called off, and is nothing that readers should see.

    Args:     records: the collection of the records.  facts: what the record has besides its `_id` and its `key`.
              answering: how the call is answered: `context.answering` in a mutation that settles.
    Returns:  the record. None if a document does not allow its part. Both are final for the operation.
    Raises:   Conflict (the attempts took too long, and others called them off).
    Writes:   the documents, the record; a settlement.
    """
    timer, number = Timer(now), 0
    async for tried in attempts(_ATTEMPTS, steps=2):
        record = derived_id(operation_id, f"{records.name} {number}")
        attempt = Attempt(record, parts, timer.now())
        if await prepare(db, attempt):
            made = await decide(db, records, attempt, facts, answering)
        elif await _may_try_again(db, attempt, timer.now(), may_wait=tried < _MOST_WAITS):
            continue
        else:
            await answering.confirmed()
            made = await insert(db, records, {"_id": record, "refused": True})
        if "key" in made:
            return made
        if "refused" in made:
            return None
        number += 1
    raise Conflict("It took too long and was called off. Try again.")


async def _may_try_again(db: Database, attempt: Attempt, now: datetime, *, may_wait: bool) -> bool:
    """Settles what is decided or old in the documents that refuse their parts. Returns whether all may allow them now.

    A note that was the reason can be gone already. So what refuses now is read together with its notes.
    Another process may carry out the same operation. Its notes are no reason to refuse: it decides, or they grow old.
    """
    for part in attempt.parts:
        documents, path = db[part.noted.spec.name], part.noted.path
        refusing = await documents.find_one({"_id": part.document, "$nor": [part.allowed]}, {path: 1})
        if refusing is not None:
            notes = refusing.get(path, ())
            ended = await settle_decided(db, part.noted, refusing, now=now)
            is_ours = any(note["record"] == attempt.record for note in notes)
            if not (ended or is_ours or (notes and may_wait)):
                return False
        elif await documents.find_one({"_id": part.document}, {"_id": 1}) is None:
            return False
    return True
