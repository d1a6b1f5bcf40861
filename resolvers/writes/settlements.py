"""Settlements: one protocol for a write to several documents, without a transaction.

A domain declares how its documents hold notes (`Noted`), what each document notes (`Part`), and the record that
decides. An **attempt** has a random key, and takes three steps:

1. *prepare*: guarded updates leave a note {key, record, at, …} in every document: one bulk for each collection, all of
   them at the same time. What must not be spent twice is taken in the same update.
2. *decide*: one insert of the record, or one guarded update of it, stores the key. The call is answered now.
3. *settle*: one bulk for each collection removes the notes, after the answer. The update that removes a note gives what
   the note promised. `Settler` collects what many calls have decided. After a crash, a job does it.

      nothing --1--> noted --2--> decided --3--> settled
         ^             |
         +---- undo ---+    remove the notes; give back what was taken

Every interleaving is correct, even if processes stop or are suspended between any two steps:

* Only the attempt that made a key makes its notes, each of them once. A note can be removed once, and the update that
  removes it gives what it promised or took. So each of these happens at most once.
* A record stores a key once and for good. What was promised is given only for a stored key. What was taken is given
  back only for a key that can no longer be stored. So nothing is both given and given back.
* The attempt itself undoes its notes only before it has tried to decide, or after the record went to somebody else.
* Others undo notes that are older than five seconds. Before, they make the decision impossible: they insert the missing
  record without the key, or change what the guard of the decision requires. So a process that resumes late cannot
  decide. It then removes its own notes.
* A process that continues what another one has begun looks at the record by a write (`look_at`). A server that has lost
  its primary role can answer reads, with decisions that are rolled back later.

A reader shows exactly what is decided: it reads the records that the notes of a document name, after the document. It
applies those notes whose key is stored, and takes back the others (`shown`). A document without notes costs nothing
more. A key that was decided stays so. Therefore, a call need not read the records of what its process has just decided.
A writer whose guard does not match settles first what is decided (`settle_decided`).

The notes of an attempt that `decide` decides wait for the primary alone if the decision implies them: see
`waiting_once`. All other notes wait for a majority.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from secrets import token_hex
from typing import Any

from bson import ObjectId
from pymongo import ReturnDocument
from pymongo.errors import PyMongoError

from portico.resolvers.documents import Change, CollectionSpec, Database, Document, Update
from portico.resolvers.errors import Conflict

from .deciding import DECIDED_BY_OTHERS, KeyDecisions, insert, look_at
from .idempotency import Superseded
from .marks import derived_id
from .retries import attempts
from .settler import AT_ONCE, Answering, Bulks, send
from .sweeps import STALE_AFTER, each, sweep
from .timer import Timer
from .waiting_once import Notes, noted_in

# The attempts of `settle_once`: those that others called off, and those that met notes in flight, for half a second.
_ATTEMPTS = 30
_MOST_WAITS = 10


@dataclass(frozen=True)
class Noted:
    """How the documents of a collection hold notes.

    Args:
        spec:     the collection.  path: the list of notes in a document.
        records:  the collection of the records that decide.
        given:    what the removal of a note adds to the numbers of the document if its key was decided.
        back:     the same if its key can no longer be decided.
        prevent:  makes the decision about a note impossible, if its key is not stored. Gets the record as it was found,
                  and the time. By default, inserts the missing record without a key: for records that are inserted.
        keys:     where a record stores the keys that were decided; one, if it is inserted with its key or never has it.
    """

    spec: CollectionSpec
    path: str
    records: CollectionSpec
    given: Callable[[Document], Mapping[str, int]]
    back: Callable[[Document], Mapping[str, int]]
    prevent: Callable[[Database, Document, Document | None, datetime], Awaitable[None]] | None = None
    keys: Sequence[str] = ("key",)

    def part(
        self, document: Any, facts: Document | None = None, *, allowed: Document, taken: Mapping[str, int] | None = None
    ) -> Part:
        """Returns what a document notes.

        Args:     document: its `_id`.  facts: what the note says.  allowed: the guard of the update.
                  taken: what the note adds to the numbers of the document at once, e.g. a negative amount.
        """
        return Part(self, document, facts or {}, allowed, taken or {})

    @property
    def decides_key(self) -> KeyDecisions:
        """Lets the records of `settle_once` decide the idempotency keys of a `mutation`, too."""
        return KeyDecisions(self.records, self._record_id, lambda _now: {"refused": True})

    def _record_id(self, operation_id: str, number: int) -> ObjectId:
        return derived_id(operation_id, f"{self.records.name} {number}")

    async def settle_once(
        self,
        db: Database,
        parts: Sequence[Part],
        facts: Document,
        *,
        now: datetime,
        operation_id: str,
        answering: Answering = AT_ONCE,
    ) -> Document | None:
        """Notes all parts and inserts the record that decides: everything or nothing, and once for an operation.

        A refusal is a record, too, with the `_id` that the record of the attempt would have. So an operation has one
        outcome, also if several processes carry it out. Records are never deleted. One without `key` was refused or
        called off, and is nothing that readers should see.

        Args:     parts: of this, or of others with the same `records`.  answering: `context.answering`, in a mutation
                  that settles.  facts: what the record has besides its `_id` and its `key`.
        Returns:  the record. None if a document does not allow its part. Both are final for the operation.
        Raises:   Conflict (the attempts took too long, and others called them off).
        Writes:   the documents, the record; a settlement.
        """
        answering.look()
        timer, number = Timer(now), 0
        async for tried in attempts(_ATTEMPTS, steps=2):
            attempt = Attempt(self._record_id(operation_id, number), parts, timer.now())
            if await prepare(db, attempt):
                made = await decide(db, self.records, attempt, facts, answering)
            elif await _may_try_again(db, attempt, timer.now(), may_wait=tried < _MOST_WAITS):
                continue
            else:
                await answering.confirmed()
                made = await insert(db, self.records, {"_id": attempt.record, "refused": True}, answering.keyed)
            if "key" in made or "refused" in made:
                return made if "key" in made else None
            # It was called off, because it took longer than five seconds.
            number += 1
        raise Conflict("It took too long and was called off. Try again.")

    async def shown(self, db: Database, documents: Sequence[Any], *, decided: Container[str] = ()) -> None:
        """Makes documents, as they were read, show exactly what was decided when this read the records.

        The notes leave the lists. Documents without the list of notes stay as they are.

        Args:     decided: keys that the caller knows to be decided: see `Answering.decided`.
        """
        noted = [note for document in documents for note in _notes(self, document)]
        # What the process remembers can change during the read.
        known = {note["key"] for note in noted if note["key"] in decided}
        records = await _read(db, self, [note for note in noted if note["key"] not in known])
        for document in documents:
            for note in _notes(self, document):
                is_decided = note["key"] in known or was_decided(self, records.get(note["record"]), note)
                document[self.path].remove(note)
                for name, added in (self.given(note) if is_decided else self.back(note)).items():
                    if name in document:
                        document[name] += added

    async def finish_stale(self, db: Database, *, now: datetime) -> int:
        """Settles or undoes the notes that are older than five seconds: the job of a domain. Returns how many."""

        async def end(document: Mapping[str, Any]) -> int:
            stale = [note for note in _notes(self, document) if _is_old(note, now)]
            return await each(stale, lambda note: _end(db, self, document["_id"], note, now))

        return await sweep(db, self.spec, {f"{self.path}.at": {"$lte": now - STALE_AFTER}}, end)


@dataclass(frozen=True)
class Part:
    """What one document notes.

    Args:     facts: what the note says about itself.  allowed: the guard of the update.
              taken: what the note adds to the numbers of the document at once, e.g. a negative amount.
              new: what is inserted before, if the document is missing.
    """

    noted: Noted
    document: Any
    facts: Document
    allowed: Document
    taken: Mapping[str, int] = field(default_factory=dict)
    new: Document | None = None


@dataclass(frozen=True)
class Attempt:
    """One attempt.

    Args:     record: the `_id` of the record that decides.
              notes: of an attempt that nothing but `decide` decides; the notes then wait for the primary alone.
    """

    record: Any
    parts: Sequence[Part]
    at: datetime
    key: str = field(default_factory=lambda: token_hex(16))
    notes: Notes | None = field(default=None, compare=False)

    def note(self, part: Part) -> Document:
        return {"key": self.key, "record": self.record, "at": self.at, **part.facts}

    def left(self) -> Iterable[tuple[Part, Document]]:
        return ((part, self.note(part)) for part in self.parts)


def was_decided(noted: Noted, record: Document | None, note: Document) -> bool:
    """Returns whether the record stores the key of the note."""
    return record is not None and any(record.get(name) == note["key"] for name in noted.keys)


# What `confirmed` raises if the call may not decide.
UNCONFIRMED = (Superseded, PyMongoError)

# A removal of a note: how the document holds it, the `_id` of the document, the note, and what is added.
_Removal = tuple[Noted, Any, Document, Mapping[str, int]]


async def prepare(db: Database, attempt: Attempt) -> bool:
    """Leaves all notes. If one guard does not match, or a command fails, undoes the others. Returns whether all match.

    Writes:   the documents; one bulk of guarded updates for each collection, and one more to undo them.
    """
    bulks: dict[str, list[Update]] = defaultdict(list)
    new = [part for part in attempt.parts if part.new is not None]
    for part in new:
        inserting = Update({"_id": part.document}, {"$setOnInsert": part.new}, upsert=True)
        bulks[part.noted.spec.name].append(inserting)
    for part in attempt.parts:
        bulks[part.noted.spec.name].append(Update(*_noting(attempt, part)))
    try:
        # An upsert that finds its document counts as matched.
        if await noted_in(attempt.notes, send(db, bulks, ordered=bool(new))) == len(new) + len(attempt.parts):
            return True
    except PyMongoError:
        # The attempt will not decide. If this fails as well, others undo the notes later.
        with contextlib.suppress(PyMongoError):
            await undo(db, attempt)
        raise
    await undo(db, attempt)
    return False


async def prepare_one(db: Database, attempt: Attempt) -> Any:
    """Leaves the note of an attempt with one part. Returns the whole document with it; None if its guard fails.

    So the caller need not read the document before. Others may have left notes in it, too: see `shown`.

    Writes:   the document; one guarded update.
    """
    [part] = attempt.parts
    guard, update = _noting(attempt, part)
    noting = db[part.noted.spec.name].find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
    return await noted_in(attempt.notes, noting)


def _noting(attempt: Attempt, part: Part) -> tuple[Document, Document]:
    """Returns the guard and the update that leave a note."""
    update: Document = {"$push": {part.noted.path: attempt.note(part)}}
    if part.taken:
        update["$inc"] = dict(part.taken)
    return {"_id": part.document, **part.allowed}, update


async def undo(db: Database, attempt: Attempt) -> None:
    """Removes the notes of an attempt that cannot be decided any more, and gives back what they took. Idempotent."""
    if attempt.notes is not None:
        attempt.notes.forget()
    await send(db, _bulks((part.noted, part.document, note, part.noted.back(note)) for part, note in attempt.left()))


async def confirm(db: Database, answering: Answering, attempt: Attempt) -> None:
    """Waits until the call may decide. If it may not, undoes what it has noted. See `Answering`."""
    try:
        await answering.confirmed()
    except UNCONFIRMED:
        await undo(db, attempt)
        raise


async def conclude(db: Database, answering: Answering, attempt: Attempt) -> None:
    """Settles a decided attempt: after the answer if there is a settler for it, otherwise now."""
    answering.decided(attempt.key)
    bulks = _bulks((part.noted, part.document, note, part.noted.given(note)) for part, note in attempt.left())
    if not answering.later(db, bulks):
        await send(db, bulks)


def _bulks(removals: Iterable[_Removal]) -> Bulks:
    bulks: dict[str, list[Change]] = defaultdict(list)
    for noted, document, note, added in removals:
        # Not by its time, which the driver may have rounded.
        mine = {name: value for name, value in note.items() if name != "at"}
        update: Document = {"$pull": {noted.path: mine}}
        if added:
            update["$inc"] = dict(added)
        bulks[noted.spec.name].append(({"_id": document, noted.path: {"$elemMatch": mine}}, update))
    return bulks


async def decide(
    db: Database, records: CollectionSpec, attempt: Attempt, facts: Document, answering: Answering
) -> Document:
    """Inserts the record of an attempt that has noted everything, and settles the attempt. Returns the record.

    If there is another record with its `_id`, undoes the attempt and returns that record, or raises as `insert`.
    """
    await confirm(db, answering, attempt)
    record = {"_id": attempt.record, **facts, "key": attempt.key}
    try:
        with attempt.notes or Notes() as notes:
            made = await notes.deciding(insert(db, records, record, answering.keyed))
    except DECIDED_BY_OTHERS:
        await undo(db, attempt)
        raise
    if made.get("key") == attempt.key:
        await conclude(db, answering, attempt)
    else:
        await undo(db, attempt)
    return made


def _notes(noted: Noted, document: Mapping[str, Any]) -> list[Document]:
    """Returns the notes of a document, without those of former versions, which have no key."""
    return [note for note in document.get(noted.path, ()) if "key" in note]


async def _read(db: Database, noted: Noted, notes: Sequence[Document]) -> dict[Any, Document]:
    ids = list({note["record"] for note in notes})
    if not ids:
        return {}
    found = db[noted.records.name].find({"_id": {"$in": ids}}, dict.fromkeys(noted.keys, 1), batch_size=len(ids) + 1)
    return {record["_id"]: record for record in await found.to_list()}


async def settle_decided(db: Database, noted: Noted, document: Mapping[str, Any], *, now: datetime) -> int:
    """Settles the notes of a document that were decided, and undoes those that are old or too late. Returns how many.

    Call it if a guard does not match: the document may have what is asked for as soon as they are settled.
    """
    notes = _notes(noted, document)
    records = await _read(db, noted, notes)
    ended = [note for note in notes if _is_over(noted, records.get(note["record"]), note, now)]
    for note in ended:
        await _end(db, noted, document["_id"], note, now)
    return len(ended)


def _is_over(noted: Noted, record: Document | None, note: Document, now: datetime) -> bool:
    # A note of an attempt that was called off is no reason to refuse the next attempt of its operation.
    is_too_late = record is not None and len(noted.keys) == 1
    return is_too_late or was_decided(noted, record, note) or _is_old(note, now)


def _is_old(note: Document, now: datetime) -> bool:
    return bool(note["at"] <= now - STALE_AFTER)


async def _end(db: Database, noted: Noted, document: Any, note: Document, now: datetime) -> int:
    """Settles or undoes a note of another process. If its key is not decided, makes that impossible first."""
    record = await look_at(db, noted.records, note["record"])
    if not was_decided(noted, record, note):
        if noted.prevent is not None:
            await noted.prevent(db, note, record, now)
        elif record is None:
            await insert(db, noted.records, {"_id": note["record"]})
        record = await look_at(db, noted.records, note["record"])
    added = noted.given(note) if was_decided(noted, record, note) else noted.back(note)
    await send(db, _bulks([(noted, document, note, added)]))
    return 1


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
