"""Records that decide: how they are inserted, and how one of them decides what a key has done.

Most calls with an idempotency key begin with a record of their operation; see `idempotency`. A call whose domain
declares `KeyDecisions` does not: the record of the domain that decides carries the key, and its `_id` is derived from
the caller and the key. So the unique index of `_id` decides between calls with one key, and nothing has to be on a
majority before.

      no record ----> decided     the first insert wins; every other call with the key answers what it decided
          |
          +---------> refused     the same insert, with the refusal, before the refusal is answered

1. A call looks for the record of the operation (`KeyedCall.confirm`), while it reads and prepares. Only calls that are
   over have one: those of other mutations, those of former versions, and those of this kind, which store it after their
   answers. Then the call goes on as `idempotency` says.
2. Otherwise, it decides, or refuses. If it meets a record, it undoes its notes: the record says whether its operation
   is the same one (`KeyedCall.require_same`).
3. A record that somebody called off is no decision. All calls try the numbers of the attempts in the same order, and
   records are never deleted. So all calls meet at the first record that is a decision.
4. After the answer, the record of the operation is inserted with the outcome, in a bulk with those of other calls. It
   spares the next call with the key its notes, and other mutations find it. A crash may lose it: the decision stays.
5. When the key has expired, its decision stays. The next call with the key finds it, and begins an operation with
   another id, as `idempotency` says.

No call holds a lease, so a call that is repeated after a crash need not wait for one. If the notes of the first call
are in its way, it waits until they are old.

The domain's records are no records of all operations. So between steps 1 and 4, two others do not see the call:

* Another mutation with the same key, which is a misuse of the key: both then have their effect, each of them once. The
  same is true after a crash before step 4, until the first call is repeated.
* A gateway of a former version, which begins with a record of the operation. A call that is repeated there in this time
  moves the money again. See "Upgrade Portico" in `docs/operations.md`.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, NotRequired

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import CollectionSpec, Database, Document, Update
from portico.resolvers.errors import OperationKeyReused
from portico.resolvers.typed import TypedDict

from .idempotency import Call, Superseded
from .operation_records import OPERATIONS


class DecidedKey(TypedDict):
    """What a record that decides stores about the key."""

    # A hash of the mutation and its input.
    hash: str
    expires_at: datetime
    # The stored answer, if the call was refused for a reason that the record has not.
    outcome: NotRequired[dict[str, Any]]


class DecidedBefore(Exception):
    """An earlier call with the key was refused. `outcome` is its stored answer."""

    def __init__(self, outcome: Document) -> None:
        self.outcome = outcome


# What `insert` raises if another call has decided. The caller then undoes what it has noted.
DECIDED_BY_OTHERS = (Superseded, OperationKeyReused, DecidedBefore)


@dataclass(frozen=True)
class KeyDecisions:
    """The records of a domain that decide keys.

    Args:     records: their collection.
              record_id: returns the `_id` of the record of an attempt, by the operation id and the attempt's number.
              refused: returns what a record that moves nothing has besides its `_id`, at this time.
    """

    records: CollectionSpec
    record_id: Callable[[str, int], Any]
    refused: Callable[[datetime], Document]

    async def refuse(self, db: Database, keyed: KeyedCall, outcome: Document) -> bool:
        """Decides that the call is refused. Returns False if the same operation was decided otherwise before.

        Raises:   as `insert`.
        Writes:   the record; one insert.
        """
        for number in itertools.count():
            refused = {**self.refused(keyed.now), "_id": self.record_id(keyed.operation, number)}
            made = await insert(db, self.records, refused, keyed, outcome=outcome)
            # Otherwise, the attempt was called off.
            if keyed.is_decided:
                break
        return "outcome" in made["call"]


def _hash_of(field: str, fingerprint: str) -> str:
    return hashlib.blake2b(f"{field}\0{fingerprint}".encode(), digest_size=16).hexdigest()


class KeyedCall:
    """A call with a key that a record of the domain decides. `operation` is its operation id."""

    def __init__(self, db: Database, call: Call, *, now: datetime, kept: timedelta) -> None:
        self._db, self._call, self.now = db, call, now
        self.operation = f"{call.record_id}.decided"
        self._key: DecidedKey = {"hash": _hash_of(call.field, call.fingerprint), "expires_at": now + kept}
        self._looking: asyncio.Task[bool] | None = None
        # Whether the operation has no record, as soon as that is known.
        self._is_new: bool | None = None
        # Whether a record decides the operation, of this call or of another one with the key.
        self.is_decided = False

    def look(self) -> None:
        """Begins to look for the record of the operation. See `confirm`."""
        if self._looking is None:
            self._looking = asyncio.create_task(self._find())

    async def _find(self) -> bool:
        return await self._db[OPERATIONS.name].find_one({"_id": self._call.record_id}, {"_id": 1}) is None

    async def read_with(self, collection: CollectionSpec, db: Database, query: Document) -> list[Any]:
        """Reads documents, and in the same command whether there is a record of the operation: see `confirm`."""
        mine: list[Document] = [{"$match": {"_id": self._call.record_id}}, {"$project": {"_id": 1}}]
        stages: list[Document] = [{"$match": query}, {"$unionWith": {"coll": OPERATIONS.name, "pipeline": mine}}]
        found = await (await db[collection.name].aggregate(stages)).to_list()
        others = [one for one in found if one["_id"] != self._call.record_id]
        self._is_new = len(others) == len(found)
        return others

    async def confirm(self) -> None:
        """Waits until it is known that no record of the operation exists. Raises `Superseded` if there is one."""
        if self._is_new is None:
            self.look()
            assert self._looking is not None
            self._is_new = await asyncio.shield(self._looking)
        if not self._is_new:
            raise Superseded

    async def close(self) -> None:
        """Waits until the call looks no more."""
        if self._looking is not None:
            await asyncio.wait({self._looking})
            if not self._looking.cancelled():
                # If nobody needed the answer, nobody needs to know the error.
                self._looking.exception()

    def stored_in(self, record: Document, outcome: Document | None) -> Document:
        return {**record, "call": self._key if outcome is None else {**self._key, "outcome": outcome}}

    def require_same(self, made: Mapping[str, Any]) -> None:
        """Returns if this record decides the operation of this call, or if it was called off.

        Raises:   OperationKeyReused, DecidedBefore, Superseded (the key of the record has expired).
        """
        key: DecidedKey | None = made.get("call")
        if key is None:
            return
        if key["expires_at"] <= self.now:
            raise Superseded
        if key["hash"] != self._key["hash"] and key["hash"] != self._former_hash():
            raise OperationKeyReused
        self.is_decided = True
        if "outcome" in key:
            raise DecidedBefore(key["outcome"])

    def _former_hash(self) -> str:
        return _hash_of(self._call.field, self._call.former_fingerprint())

    def record(self, outcome: Document) -> Update:
        """Returns the insert of the record of the operation. If there is one, it changes nothing."""
        call = self._call
        record = {
            "operation": self.operation,
            "field": call.field,
            "fingerprint": call.fingerprint,
            "state": "done",
            "started": self.now,
            "expires_at": self._key["expires_at"],
            "owner": call.owner,
            "lease_until": self.now,
            "process": call.process.name,
            "outcome": outcome,
        }
        return Update({"_id": call.record_id}, {"$setOnInsert": record}, upsert=True)


async def insert(
    db: Database,
    records: CollectionSpec,
    record: Document,
    keyed: KeyedCall | None = None,
    *,
    outcome: Document | None = None,
) -> Document:
    """Inserts a record that decides or refuses. Returns it, or the record with its `_id` that was inserted before.

    Args:     keyed: the call, if the record decides its key.  outcome: of a call that is refused.
    Raises:   `DECIDED_BY_OTHERS`, if there is a record and it is not one of the same operation.
    """
    if keyed is not None:
        record = keyed.stored_in(record, outcome)
    try:
        await db[records.name].insert_one(record)
    except DuplicateKeyError:
        found = await look_at(db, records, record["_id"])
        assert found is not None, "records that decide are never deleted"
        if keyed is not None:
            keyed.require_same(found)
        return found
    if keyed is not None:
        keyed.is_decided = True
    return record


async def look_at(db: Database, spec: CollectionSpec, record: Any) -> Document | None:
    """Returns a record, to go on with what another process has begun. It writes: see the protocol of `settlements`."""
    looked = {"$inc": {"looks": 1}}
    return await db[spec.name].find_one_and_update({"_id": record}, looked, return_document=ReturnDocument.AFTER)
