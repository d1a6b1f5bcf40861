"""What a run reads: the interests of one run, and what it depends on besides."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain
from typing import Any, Protocol

from pymongo.errors import PyMongoError

from portico.resolvers.documents import Database

from . import deriving
from .comparing import stored_form
from .index import Index, Read
from .interests import Change, Interest
from .plans import Plan, Timed

PartRead = Callable[["ReadSet"], Awaitable[Any]]
# What is compared of the result of a part.
Shown = Callable[[Any], Any]


class RunPart(Protocol):
    """A part of a run. `own` is what it reads. See `parts`."""

    own: ReadSet

    async def first(self) -> Any: ...

    def finish(self, *, is_direct: bool) -> None: ...

    def release(self) -> None: ...


class PartChecks(Protocol):
    """What repeats the parts of runs that a change affects, and compares their results."""

    def part(self, run: ReadSet, read: PartRead, shown: Shown | None = None) -> RunPart: ...


_LONGEST_TIMER = 86_400.0
# For how many different conditions a run looks ahead.
_MOST_AHEAD = 20


class ReadSet:
    """What one run reads, from its beginning until it is released. `on_affected` is called once, after a change of it.

    `reads_clock` says that the answer can change at any time. `changes_at` is the next time at which it can, if the
    clock alone changes it. `is_whole` is False if the run has read the database in a way that no interest describes:
    any change may affect it. `is_repeatable` is False if the answer could be another one at once.
    """

    __slots__ = (
        "_checks",
        "_compared",
        "_dated",
        "_former",
        "_in_flight",
        "_index",
        "_interests",
        "_is_released",
        "_is_repeated",
        "_now",
        "_on_affected",
        "_parts",
        "_timed",
        "cause",
        "changes_at",
        "commands",
        "is_affected",
        "is_repeatable",
        "is_whole",
        "reads_clock",
    )

    def __init__(
        self,
        index: Index,
        on_affected: Callable[[], None],
        checks: PartChecks | None = None,
        *,
        former: ReadSet | None = None,
        is_repeated: bool = False,
    ) -> None:
        """With `checks`, a change affects a part of the run only if its result is another one.

        If the run `is_repeated`, its read set can be the `former` one of the next run, which takes over the interests
        of reads that are the same: most are, and indexing them again costs more than to find them.
        """
        self.is_whole = True
        self.is_affected = False
        # The first change that has affected it.
        self.cause: Change | None = None
        self.reads_clock = False
        self.is_repeatable = True
        self.changes_at: datetime | None = None
        # The time that the run has compared with dates of documents, and the reads that these can come from.
        self._compared: datetime | None = None
        self._now: datetime | None = None
        self._dated: list[tuple[Plan, Sequence[Mapping[str, Any]] | None]] = []
        # Plans of which it is known when the clock changes what they read.
        self._timed: list[Plan] = []
        self.commands = 0
        self._index = index
        self._on_affected = on_affected
        self._is_repeated = is_repeated
        self._former = former
        # The interests of each read, by their signature, or by the read.
        self._interests: dict[Hashable, Sequence[Interest]] = {}
        self._in_flight: dict[Read, None] = {}
        self._is_released = False
        self._checks = checks
        self._parts: list[RunPart] = []

    def affected(self, change: Change) -> None:
        if not self.is_affected and not self._is_released:
            self.is_affected = True
            self.cause = change
            on_affected, self._on_affected = self._on_affected, _nothing
            on_affected()

    def begin(self, plan: Plan) -> Read:
        """Keeps the changes that can affect a command, which is sent next."""
        read = Read(plan)
        self.commands += 1
        if self._is_released:
            # A task of a cancelled run still reads. Nobody needs to know what.
            return read
        self._in_flight[read] = None
        self._index.begin(read)
        return read

    def end(self, read: Read, rows: Sequence[Mapping[str, Any]] | None) -> None:
        """Notes the documents that the command has returned; None if they are not known."""
        if read not in self._in_flight:
            return
        del self._in_flight[read]
        self._index.end(read)
        if self._is_released:
            return
        self._dated.append((read.plan, rows))
        name = read.plan.signature(rows) if self._is_repeated else None
        if name is None or name in self._interests:
            name = read
        interests = None if self._former is None else self._former.hand_over(name)
        if interests is None:
            interests = list(read.plan.interests(self, rows))
            for interest in interests:
                self._index.add(interest)
        self._interests[name] = interests
        since = read.since
        for interest in interests:
            interest.reader, interest.since = self, since
        for change in read.changes:
            if any(change.collection == one.collection and one.is_affected(change) for one in interests):
                self.affected(change)
                break

    def hand_over(self, name: Hashable) -> Sequence[Interest] | None:
        """Returns the interests of a read with this signature, which are those of the caller from now on."""
        return self._interests.pop(name, None)

    @property
    def has_parts(self) -> bool:
        """Whether results of parts are compared."""
        return self._checks is not None

    async def part(self, read: PartRead, shown: Shown | None = None) -> Any:
        """Reads a part of the run. Returns its result. With `shown`, what that returns of a result is compared."""
        assert self._checks is not None
        part = self._checks.part(self, read, shown)
        self._parts.append(part)
        result = await part.first()
        self.commands += part.own.commands
        self.is_whole = self.is_whole and part.own.is_whole
        self.reads_clock = self.reads_clock or part.own.reads_clock
        self.is_repeatable = self.is_repeatable and part.own.is_repeatable
        return result

    def of_part(self, affected: Callable[[Change], None]) -> ReadSet:
        """Returns an empty read set for a part, which tells what affects it."""
        own = ReadSet(self._index, lambda: None if own.cause is None else affected(own.cause))
        if self._is_released:
            own.release()
        return own

    def drop(self, read: Read) -> None:
        """Forgets a command whose result is not used."""
        if read in self._in_flight:
            del self._in_flight[read]
            self._index.end(read)

    async def look_ahead(self, database: Database) -> None:
        """Reads when the clock will change what the run has read, if it has compared dates of documents with now.

        This needs an index by the date. Otherwise, the run counts as one that reads the clock.
        """
        if self._compared is None:
            return
        now = stored_form({"now": self._compared})["now"]
        plans = [plan for plan, _ in (*self._dated, *(one for part in self._parts for one in part.own.dated))]
        timed = {plan: plan.timed(now) for plan in plans if plan.compares(now)}
        different = {(one.collection, repr(one.query)): one for some in timed.values() for one in some if one}
        if len(different) > _MOST_AHEAD or not all(all(some) for some in timed.values()):
            return
        try:
            for one in different.values():
                await self._read_next(database, one)
        except PyMongoError:
            # There is no such index, or no database at the moment.
            return
        self._timed.extend(timed)

    async def _read_next(self, database: Database, wanted: Timed) -> None:
        """Reads the next document whose time comes, so that a change of that affects the run, too."""
        options: dict[str, Any] = {"sort": [(wanted.path, 1)], "limit": 1, "hint": [(wanted.path, 1)]}
        plan = deriving.of_find(wanted.collection, wanted.query, {wanted.path: 1}, options)
        self._timed.append(plan)
        read = self.begin(plan)
        rows = await database[wanted.collection].find(wanted.query, {wanted.path: 1}, **options).to_list()
        self.end(read, rows)

    def finish(self) -> None:
        """Ends the run. Of commands that have not ended, anything may have been read."""
        for read in tuple(self._in_flight):
            self.end(read, None)
        self._former = None
        for part in self._parts:
            self._dated += part.own.dated
            # If the time matters, other rows can have other dates.
            part.finish(is_direct=self._compared is not None)
        if self._compared is not None:
            now = self._now = stored_form({"now": self._compared})["now"]
            others = [(plan, rows) for plan, rows in self._dated if plan not in self._timed]
            if any(plan.compares(now) or (rows is None and not plan.is_count) for plan, rows in others):
                # The documents whose time has not come are not among the rows.
                self.reads_clock = True
            later = (date for _, rows in self._dated for date in _dates_in(rows) if date > now)
            self.change_at(min(later, default=None))
        self._dated.clear()
        self._timed.clear()

    def change_at(self, instant: datetime | None) -> None:
        """Notes that the clock can change the answer at this time, if not before; None: never."""
        self.changes_at = min((one for one in (self.changes_at, instant) if one is not None), default=None)

    def compare(self, now: datetime) -> None:
        """Notes that the run compares this time with the dates of documents."""
        self._compared = now

    def release(self) -> None:
        """Drops all interests."""
        for read in tuple(self._in_flight):
            self._index.end(read)
        self._in_flight.clear()
        for interests in self._interests.values():
            for interest in interests:
                self._index.remove(interest)
        self._interests.clear()
        self._former = None
        self._is_released = True
        # What is called mostly has this read set. Without the circle, both are freed at once.
        self._on_affected = _nothing
        for part in self._parts:
            part.release()
        self._parts.clear()

    @property
    def dated(self) -> Sequence[tuple[Plan, Sequence[Mapping[str, Any]] | None]]:
        """The reads that have ended, with their rows, until the end of the run."""
        return self._dated

    @property
    def seconds_left(self) -> float | None:
        """The seconds until the clock can change the answer; None if it cannot."""
        if self.changes_at is None or self._now is None:
            return None
        # A little later, because a stored date has no microseconds. A timer lasts a day at most.
        return min(max((self.changes_at - self._now).total_seconds(), 0) + 0.002, _LONGEST_TIMER)

    @property
    def interests(self) -> Iterator[Interest]:
        """What the run has read."""
        yield from chain.from_iterable(self._interests.values())
        for part in self._parts:
            yield from part.own.interests


def _nothing() -> None:
    """Is called instead of what nobody waits for any more."""


def _dates_in(value: Any) -> Iterator[datetime]:
    """Yields the dates of documents, as they are stored."""
    if isinstance(value, datetime):
        yield value
    elif isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _dates_in(below)
