"""Imports members and their circles in bulk. Safe to repeat.

Rates do not apply. Circles are stored by the steps of `relation_edits`, for a thousand relations at a time: the
decisions with their marks, the copies, and the end of the marks. If an import is interrupted, the job finishes them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any

from pymongo import UpdateOne
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.import_outcomes import Outcome, outcome_of, refused_row, rejected_rows
from portico.resolvers.writes.marks import random_operation_id

from . import circles, member_edits, members, relation_edits, relation_jobs, relations
from .members import MEMBERS, MemberDocument
from .names import searched
from .relations import RELATIONS

# Relations in one command.
_BATCH = 1_000
_DUPLICATE_KEY = 11000
# A member who puts another into a circle: (who, whom, the circle).
Pair = tuple[str, str, str]


@dataclass(frozen=True)
class PersonRecord:
    """A member as an import describes them. `profile` as in `member_edits.join`."""

    subject: str
    name: str
    profile: Mapping[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> tuple[str, ...]:
        return ("person", self.subject)


@dataclass(frozen=True)
class CircleRecord:
    """Members of a circle of `of`; others that are in it stay. If `is_mutual`, each of them has `of` in theirs, too."""

    of: str
    circle: str
    members: Sequence[str]
    is_mutual: bool = False

    @property
    def key(self) -> tuple[str, ...]:
        return ("circle", self.of, self.circle, *(self.members if self.is_mutual else ()))

    def pairs(self) -> list[Pair]:
        there = [(self.of, other, self.circle) for other in self.members]
        return [*there, *((other, self.of, self.circle) for other in self.members)] if self.is_mutual else there


async def import_people(
    db: Database, records: Sequence[PersonRecord | CircleRecord], *, now: datetime
) -> list[Outcome]:
    """Creates and updates members, then fills circles. Each key may occur once.

    Returns:  the outcome of each record. A circle needs members that exist, so people come first.
    Writes:   social.members, social.relations; see above.
    """
    people = {number: record for number, record in enumerate(records) if isinstance(record, PersonRecord)}
    outcomes = await _import_members(db, people, now)
    given = {number: record for number, record in enumerate(records) if isinstance(record, CircleRecord)}
    outcomes |= await _import_circles(db, given, now)
    return [outcomes[number] for number in range(len(records))]


async def _import_members(db: Database, records: Mapping[int, PersonRecord], now: datetime) -> dict[int, Outcome]:
    if not records:
        return {}
    known = await members.find_by_ids(db, [record.subject for record in records.values()])
    outcomes: dict[int, Outcome] = {}
    new: dict[int, MemberDocument] = {}
    for number, record in records.items():
        try:
            wanted = member_edits.new_member(record.subject, record.name, record.profile, now)
        except InvalidInput as error:
            outcomes[number] = error
            continue
        if record.subject in known:
            outcomes[number] = await outcome_of(_bring_up_to_date(db, known[record.subject], wanted, now))
        else:
            new[number] = wanted
            outcomes[number] = "created"
    if new:
        try:
            await MEMBERS.of(db).insert_many(new.values(), ordered=False)
        except BulkWriteError as error:
            numbers = list(new)
            for row in rejected_rows(error):
                refused = refused_row(row) or Conflict("The member has just joined.")
                outcomes[numbers[row["index"]]] = refused
    return outcomes


async def _bring_up_to_date(db: Database, member: MemberDocument, wanted: MemberDocument, now: datetime) -> Outcome:
    """Gives a member the name and the profile of the record."""
    changes: Document = {name: wanted[name] for name in ("name", "profile") if member[name] != wanted[name]}
    if not changes:
        return "unchanged"
    if "name" in changes:
        changes |= searched(wanted["name"])
        changes["renamed"] = {"op": random_operation_id(), "at": now}
    unchanged = {"_id": member["_id"], "name": member["name"]}
    if not (await db[MEMBERS.name].update_one(unchanged, {"$set": changes})).matched_count:
        raise Conflict("The member has just changed.")
    return "changed"


async def _import_circles(db: Database, records: Mapping[int, CircleRecord], now: datetime) -> dict[int, Outcome]:
    subjects = {subject for record in records.values() for subject in (record.of, *record.members)}
    known = await members.find_by_ids(db, list(subjects), {"circles": 1}) if subjects else {}
    outcomes: dict[int, Outcome] = {}
    wanted: dict[Pair, list[int]] = {}
    for number, record in records.items():
        try:
            await _require_valid(db, record, known)
        except InvalidInput as error:
            outcomes[number] = error
            continue
        outcomes[number] = "unchanged"
        for pair in record.pairs():
            wanted.setdefault(pair, []).append(number)
    pairs = iter(wanted)
    while batch := list(islice(pairs, _BATCH)):
        for pair in await _add(db, batch, now):
            outcomes |= dict.fromkeys(wanted[pair], "created")
    return outcomes


async def _require_valid(db: Database, record: CircleRecord, known: dict[str, MemberDocument]) -> None:
    """Checks a circle, and lists its name with its owner. Raises InvalidInput."""
    name = relation_edits.require_circle_name(record.circle)
    if name != record.circle:
        raise InvalidInput("The name must not begin or end with blanks.", "circle")
    if record.of not in known:
        raise InvalidInput(f"{record.of!r} is no member. Import people first.", "of")
    for place, other in enumerate(record.members):
        if other == record.of:
            raise InvalidInput("A member cannot be in a circle of their own.", "members", str(place))
        if other not in known:
            raise InvalidInput(f"{other!r} is no member. Import people first.", "members", str(place))
    for owner in (record.of, *(record.members if record.is_mutual else ())):
        if name not in known[owner].get("circles", ()):
            await circles.require_room(db, known[owner], name)
            known[owner].setdefault("circles", []).append(name)


async def _add(db: Database, pairs: Sequence[Pair], now: datetime) -> list[Pair]:
    """Puts members into circles. Returns the pairs that were not in them."""
    ends = [pair[:2] for pair in pairs]
    held = {(one["of"], one["to"]): one.get("circles", ()) for one in await relations.find_pairs(db, ends)}
    new = [pair for pair in pairs if pair[2] not in held.get(pair[:2], ())]
    if not new:
        return []
    decided = relation_edits.deciding(now, random_operation_id())
    updates = []
    for of, to, circle in new:
        change = relation_edits.adding(circle, now)
        pending = {**relations.key_of(of, to), **change.pending}
        updates.append(UpdateOne(pending, [{"$set": {**change.fields, **decided}}], upsert=True))
    await _write(db, updates)
    await relation_jobs.finish_many(db, await relations.find_pairs(db, [pair[:2] for pair in new]))
    return new


async def _write(db: Database, updates: Sequence[UpdateOne]) -> None:
    """Sends upserts. A duplicate key means that another writer has just done the same."""
    try:
        await db[RELATIONS.name].bulk_write(updates, ordered=False)
    except BulkWriteError as error:
        if any(row["code"] != _DUPLICATE_KEY for row in error.details["writeErrors"]):
            raise
