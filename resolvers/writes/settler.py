"""Sends what decided calls have left for after their answers, in batches of many calls.

A call leaves *steps*: updates that follow each other. The updates of a batch that belong to the same step and the same
collection are one bulk, and the bulks of a step go out at the same time. A call may also leave a *remainder*: what it
does if its updates may have matched nothing, or what takes more than updates.

One failure holds nobody else:

* If an update fails, its call ends there. The other calls of the batch go on.
* A bulk whose connection is lost is sent again, for about two seconds. Every update is guarded, so a repetition has no
  second effect.
* Remainders have a queue of their own, so one that takes long does not hold the next batch.

What fails in the end is left to a job, or to the next call with the key.

A write may be answered before its steps only if readers see what is decided:

    settlements          readers apply the notes that are decided
    more units in a cart the units count as reserved since the first step; the stock and the cart forget the move
    checkout             the stock concludes the sales; readers add the sales that their carts have decided
                         (`stock_reads`); a job looks whether the order is written
    changes of a room    all copies are refreshed before; only the mark that says that they are older goes
    turns of a room      the entry of the room has the outcome; readers add it (`character_reads`)
    moves between rooms  the old room keeps an entry, which no player sees; see `moving`
    postComment          the discussion counts the comment; readers add the comments that name their attempt
                         (`LedgerStorage.count`)
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field

from pymongo.errors import BulkWriteError, PyMongoError

from portico.resolvers.documents import Change, Database, Update
from portico.resolvers.lru import Lru
from portico.resolvers.together import every

from .combining import Combiner, Waiting
from .deciding import KeyedCall
from .retries import attempts

_log = logging.getLogger(__name__)

# The most entries that may wait for a database. Further calls send theirs before their answer.
_MOST_WAITING = 1_000
# How long the notes of a decided call wait for those of others, in seconds.
_LINGER = 0.025
# How often a bulk is sent whose connection is lost, with pauses of about two seconds in all.
_TRIES = 14

# Updates that are sent together, by the name of their collection.
Bulks = Mapping[str, Sequence[Change | Update]]
Remainder = Callable[[], Awaitable[object]]


@dataclass(eq=False, kw_only=True)
class _Decided(Waiting[None]):
    steps: Sequence[Bulks]
    otherwise: Remainder | None
    has_failed: bool = field(default=False, init=False)
    # Whether an update of its batch has matched nothing, maybe one of another call.
    may_miss: bool = field(default=False, init=False)


@dataclass(eq=False, kw_only=True)
class _Left(Waiting[None]):
    work: Remainder


class Settler:
    """Takes over what calls leave for after their answers. At most `_MOST_WAITING` entries wait for a database."""

    def __init__(self) -> None:
        self._is_closing = False
        # The keys of settlements that calls of this process have decided lately: those that wait, and a batch.
        self.decided: Lru[str, None] = Lru(2 * _MOST_WAITING)
        self._decided: Combiner[Database, _Decided] = Combiner(self._settle_all, linger=lambda _db: _LINGER)
        self._left: Combiner[Database, _Left] = Combiner(_finish_all)

    def add(self, db: Database, *steps: Bulks, otherwise: Remainder | None = None) -> bool:
        """Takes over updates of a call that is decided, in steps: one after the other.

        Returns False if too many wait; the caller then sends them.

        Args:     otherwise: is called if an update of the batch has matched nothing, maybe one of another call.
        """
        if max(len(self._decided.waiting(db)), len(self._left.waiting(db))) >= _MOST_WAITING:
            return False
        self._decided.add(db, _Decided(db=db, steps=steps, otherwise=otherwise, is_urgent=False))
        return True

    def add_remainder(self, db: Database, work: Remainder) -> bool:
        """Takes over what a decided call has left to do. Returns False if too many wait; the caller then does it."""
        if len(self._left.waiting(db)) >= _MOST_WAITING:
            return False
        self._left.add(db, _Left(db=db, work=work))
        return True

    async def settled(self, db: Database) -> None:
        """Waits until everything that was taken over for this database is sent, and what it has left is done."""
        await self._decided.served(db)
        await self._left.served(db)

    async def close(self) -> None:
        """Waits until everything is sent, and what it has left is done. Does not wait for a lost connection."""
        self._is_closing = True
        await self._decided.close()
        await self._left.close()

    async def _settle_all(self, db: Database, decided: list[_Decided]) -> None:
        for number in range(max(len(one.steps) for one in decided)):
            together: dict[str, list[tuple[_Decided, Change | Update]]] = defaultdict(list)
            for one in decided:
                if number < len(one.steps) and not one.has_failed:
                    for name, updates in one.steps[number].items():
                        together[name] += [(one, update) for update in updates]
            await every(self._send(db, name, bulk) for name, bulk in together.items())
        for one in decided:
            if one.otherwise is not None and one.may_miss and not one.has_failed:
                self._left.add(db, _Left(db=db, work=one.otherwise))
            one.answer(None)

    async def _send(self, db: Database, name: str, bulk: Sequence[tuple[_Decided, Change | Update]]) -> None:
        """Sends the updates of a collection. Notes which calls have failed, and which may have to go on."""
        error: Exception | None = None
        updates = [_as_update(change) for _, change in bulk]
        failed: set[int] = set(range(len(bulk)))
        async for _ in attempts(_TRIES):
            try:
                result = await db[name].bulk_write(updates, ordered=False)
                error, failed, matched = None, set(), result.matched_count + result.upserted_count
            except BulkWriteError as refused:
                error = refused
                if refused.details["writeConcernErrors"]:
                    # What has not reached a majority can be rolled back.
                    continue
                failed = {one["index"] for one in refused.details["writeErrors"]}
                matched = refused.details["nMatched"] + refused.details["nUpserted"]
            except PyMongoError as lost:
                error = lost
                if self._is_closing:
                    break
                continue
            except Exception as defect:  # noqa: BLE001 - the calls have their answers, and others go on
                error = defect
                break
            for one, _ in bulk:
                one.may_miss |= matched < len(bulk)
            break
        if error is not None:
            _log.warning("What %d calls have left is not settled yet: %s", len(failed), type(error).__name__)
        for number in failed:
            bulk[number][0].has_failed = True


@dataclass(frozen=True)
class Answering:
    """How a call is answered as soon as it is decided.

    Args:
        settler:  settles after the answer. With None, the write settles before it returns.
        confirm:  returns when the operation certainly belongs to this call. A write that prepares while its operation
                  is being claimed awaits it before it decides, also if it decides to refuse. Raises `Superseded` if
                  there is an earlier call with the key.
        is_repeated: whether an earlier call with the key may have decided.
        keyed:    the call, if the record that decides it decides its key, too.
    """

    settler: Settler | None = None
    confirm: Callable[[], Awaitable[None]] | None = None
    is_repeated: bool = False
    keyed: KeyedCall | None = None

    def later(self, db: Database, *steps: Bulks, otherwise: Callable[[], Awaitable[None]] | None = None) -> bool:
        """Sends updates after the answer. Returns False if the caller has to send them. See `Settler.add`."""
        return self.settler is not None and self.settler.add(db, *steps, otherwise=otherwise)

    def decided(self, key: str) -> Container[str]:
        """Returns the keys that this process knows to be decided, with this one. See `Settler.decided`."""
        if self.settler is None:
            return (key,)
        self.settler.decided.put(key, None)
        return self.settler.decided

    def look(self) -> None:
        """Begins to look for an earlier operation with the key, beside what the call sends next."""
        if self.keyed is not None:
            self.keyed.look()

    async def confirmed(self) -> None:
        """Waits until the call may decide. See `confirm`."""
        if self.confirm is not None:
            await self.confirm()


AT_ONCE = Answering()


async def _finish_all(_db: Database, left: list[_Left]) -> None:
    """Does what calls have left to do, one after the other. A failure does not concern the next one."""
    for one in left:
        try:
            await one.work()
        except Exception as error:  # noqa: BLE001 - the call has its answer
            _log.info("A call could not finish what it has left: %s", type(error).__name__)
        one.answer(None)


def _as_update(change: Change | Update) -> Update:
    return change if isinstance(change, Update) else Update(*change)


async def send(db: Database, bulks: Bulks, *, ordered: bool = False) -> int:
    """Sends a bulk for each collection, all at the same time. Returns how many updates matched or inserted."""

    async def send_one(name: str, changes: Sequence[Change | Update]) -> int:
        result = await db[name].bulk_write([_as_update(change) for change in changes], ordered=ordered)
        return result.matched_count + result.upserted_count

    return sum(await every(send_one(name, changes) for name, changes in bulks.items() if changes))
