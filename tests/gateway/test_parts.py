"""Parts of a run: a change of what they read affects the run only if it changes what they return."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest

from portico.gateway.reads.feed import Feed
from portico.gateway.reads.interests import ALL, Change
from portico.gateway.reads.read_sets import ReadSet
from portico.gateway.reads.recorded import recorded
from portico.resolvers.documents import ComparedProjection, Database, with_version
from portico.resolvers.parts import as_part
from tests.support.pausing import Pause
from tests.support.sockets import until

POINTERS, VALUES = "pointers", "values"
SUM: list[dict[str, Any]] = [{"$match": {"kind": "a"}}, {"$group": {"_id": None, "sum": {"$sum": "$size"}}}]


@dataclass
class Run:
    """A run that reads something, and the changes that have affected it."""

    feed: Feed
    db: Database
    read: Callable[[Database], Awaitable[Any]]
    affected: list[int] = field(default_factory=list)
    reads: ReadSet = field(init=False)

    async def begin(self) -> Any:
        """Begins when all earlier changes have been looked at."""
        await passed(self.feed, self.db)
        self.reads = ReadSet(self.feed.index, lambda: self.affected.append(1), self.feed.checks)
        result = await self.read(recorded(self.db, self.reads))
        self.reads.finish()
        return result

    async def passes(self, checks: int = 1) -> None:
        """Waits until so many parts have been repeated. The run must not be affected."""
        await until(lambda: self.feed.checks.made >= checks or self.affected != [])
        await passed(self.feed, self.db)
        assert self.affected == []
        assert self.feed.checks.equal == checks


@pytest.fixture
async def feed(db: Database) -> AsyncIterator[Feed]:
    for name in (POINTERS, VALUES):
        await db[name].drop()
        await db.create_collection(name)
    found = Feed(db, [POINTERS, VALUES])
    await found.open()
    yield found
    await found.aclose()


async def passed(feed: Feed, db: Database) -> None:
    """Waits until all changes up to now have been looked at."""
    key = str(uuid4())
    seen: list[int] = []
    reads = ReadSet(feed.index, lambda: seen.append(1))
    await recorded(db, reads)[VALUES].find_one({"_id": key})
    await put(db, key, 0)
    await until(lambda: seen == [1])
    reads.release()


async def pointed(db: Database) -> object:
    """Returns the value that a pointer leads to."""

    async def read(db: Database) -> object:
        pointer = await db[POINTERS].find_one({"_id": "p"})
        found = await db[VALUES].find_one({"_id": pointer and pointer["to"]})
        return found and found["value"]

    return await as_part(db, read)


def value_then(act: Callable[[], Awaitable[None]]) -> Callable[[Database], Awaitable[object]]:
    """Returns what reads a value as a part, and then acts."""

    async def read(db: Database) -> object:
        found = await db[VALUES].find_one({"_id": "a"}, {"value": 1, "other": 1})
        await act()
        return found and found["value"]

    return lambda db: as_part(db, read)


async def point(db: Database, to: str) -> None:
    await db[POINTERS].update_one({"_id": "p"}, {"$set": {"to": to}}, upsert=True)


async def put(db: Database, key: str, value: int) -> None:
    await db[VALUES].update_one({"_id": key}, {"$set": {"value": value}}, upsert=True)


@pytest.fixture
async def run(db: Database, feed: Feed) -> Run:
    """A run that reads what a pointer leads to: `a`, which has the same value as `b`."""
    await point(db, "a")
    await put(db, "a", 1)
    await put(db, "b", 1)
    run = Run(feed, db, pointed)
    assert await run.begin() == 1
    return run


async def test_a_change_of_the_result_affects_the_run(db: Database, feed: Feed, run: Run) -> None:
    await put(db, "a", 2)

    await until(lambda: run.affected == [1])
    run.reads.release()
    assert not feed.index.collections


async def test_after_a_change_without_effect_the_part_follows_what_it_has_read_then(
    db: Database, feed: Feed, run: Run
) -> None:
    await point(db, "b")
    await run.passes()
    # It reads this no more.
    await put(db, "a", 2)
    await passed(feed, db)
    assert run.affected == []
    assert feed.checks.made == 1

    await put(db, "b", 2)
    await until(lambda: run.affected == [1])


async def test_rows_without_keys_are_compared(db: Database, feed: Feed) -> None:
    async def kinds(db: Database) -> list[dict[str, Any]]:
        return await db[VALUES].find({"kind": "a"}, {"_id": 0, "size": 1}).to_list()

    await db[VALUES].insert_one({"_id": "a", "kind": "a", "size": 1})
    run = Run(feed, db, kinds)
    assert await run.begin() == [{"size": 1}]

    await db[VALUES].delete_one({"_id": "other"})
    await db[VALUES].insert_one({"_id": "b", "kind": "b"})
    await db[VALUES].delete_one({"_id": "b"})
    await run.passes()
    await db[VALUES].update_one({"_id": "a"}, {"$set": {"size": 2}})
    await until(lambda: run.affected == [1])


@pytest.mark.parametrize("by_one", [True, False])
async def test_only_what_is_shown_of_a_row_is_compared(db: Database, feed: Feed, by_one: bool) -> None:
    def shown(row: Mapping[str, Any]) -> Any:
        return [line["title"] for line in row.get("lines", ()) if not line.get("is_hidden")]

    projection = with_version(ComparedProjection({"lines": 1}, shown))

    async def lines(db: Database) -> Any:
        if by_one:
            return await db[VALUES].find_one({"_id": "a"}, projection)
        return await db[VALUES].find({"_id": {"$in": ["a"]}}, projection).to_list()

    async def write(*lines: dict[str, Any]) -> None:
        await db[VALUES].update_one({"_id": "a"}, {"$set": {"lines": list(lines)}}, upsert=True)

    await write({"title": "A"})
    run = Run(feed, db, lines)
    found = await run.begin()
    assert (found if by_one else found[0]) == {"_id": "a", "lines": [{"title": "A"}]}

    await write({"title": "A", "note": 1}, {"title": "B", "is_hidden": True})
    await run.passes()
    await write({"title": "A", "note": 1}, {"title": "B"})
    await until(lambda: run.affected == [1])


async def test_a_result_that_comes_back_is_followed_all_the_same(db: Database, feed: Feed, run: Run) -> None:
    for number, to in enumerate("baba", 1):
        await point(db, to)
        await run.passes(number)
    assert run.affected == []

    await put(db, "a", 3)

    await until(lambda: run.affected == [1])
    assert feed.checks.equal == 4


async def test_a_change_while_a_part_is_repeated_is_not_missed(db: Database, feed: Feed) -> None:
    await put(db, "a", 1)
    pause = Pause()
    times = 0

    async def slow() -> None:
        nonlocal times
        times += 1
        if times == 2:
            await pause()

    run = Run(feed, db, value_then(slow))
    await run.begin()
    await db[VALUES].update_one({"_id": "a"}, {"$set": {"other": 1}})
    await pause.reached.wait()
    await put(db, "a", 2)
    await passed(feed, db)
    pause.go_on.set()

    await until(lambda: run.affected == [1])
    assert times == 3


async def test_what_mongodb_computes_is_a_part(db: Database, feed: Feed) -> None:
    await db[VALUES].insert_many([{"_id": "a", "kind": "a", "size": 2}, {"_id": "z", "kind": "z", "size": 2}])

    async def summed(db: Database) -> object:
        return await (await db[VALUES].aggregate(SUM)).to_list()

    run = Run(feed, db, summed)
    assert await run.begin() == [{"_id": None, "sum": 2}]

    # Nobody knows whether it was in the sum.
    await db[VALUES].delete_one({"_id": "z"})
    await run.passes()

    await db[VALUES].insert_one({"_id": "b", "kind": "a", "size": 1})
    await until(lambda: run.affected == [1])


async def test_a_part_that_fails_affects_the_run(db: Database, feed: Feed) -> None:
    await put(db, "a", 1)
    times = 0

    async def fail_later() -> None:
        nonlocal times
        times += 1
        assert times == 1

    run = Run(feed, db, value_then(fail_later))
    await run.begin()

    await db[VALUES].update_one({"_id": "a"}, {"$set": {"other": 1}})

    await until(lambda: run.affected == [1])


async def test_after_lost_changes_no_part_is_asked(feed: Feed, run: Run) -> None:
    feed.index.dispatch(Change(POINTERS, ALL))

    assert run.affected == [1]
    assert feed.checks.made == 0


async def test_a_run_that_compares_dates_with_the_time_does_not_depend_on_results_alone(
    db: Database, feed: Feed, run: Run
) -> None:
    """Other rows can have other dates, at which the answer changes."""
    dated = ReadSet(feed.index, lambda: run.affected.append(2), feed.checks)
    await pointed(recorded(db, dated))
    dated.compare(datetime.now(UTC))
    dated.finish()

    await db[VALUES].update_one({"_id": "a"}, {"$set": {"other": 1}})

    await until(lambda: 2 in run.affected)
    await until(lambda: feed.checks.equal == 1)
    assert run.affected == [2]


async def test_a_part_that_is_affected_during_the_run_keeps_its_dates(db: Database, feed: Feed) -> None:
    later = datetime.now(UTC).replace(microsecond=0, tzinfo=None) + timedelta(hours=1)
    await db[VALUES].insert_one({"_id": "a", "kind": "a", "at": later})
    await passed(feed, db)
    affected: list[int] = []
    reads = ReadSet(feed.index, lambda: affected.append(1), feed.checks)
    found = recorded(db, reads)[VALUES].find({"kind": "a"}, {"_id": 0, "at": 1})
    assert await found.to_list() == [{"at": later}]

    await db[VALUES].insert_one({"_id": "b", "kind": "a"})
    await db[VALUES].delete_one({"_id": "b"})
    await passed(feed, db)
    await passed(feed, db)
    reads.compare(datetime.now(UTC))
    reads.finish()

    assert reads.changes_at == later
    assert affected == [1]


async def test_nothing_is_kept_of_parts_that_begin_after_the_run_is_released(db: Database, feed: Feed) -> None:
    """A task of a cancelled run goes on."""
    await put(db, "a", 1)
    reads = ReadSet(feed.index, lambda: None, feed.checks)
    reads.release()

    assert await recorded(db, reads)[VALUES].find({}, {"_id": 0, "value": 1}).to_list() == [{"value": 1}]

    assert not feed.index.collections


async def test_without_checks_a_part_is_read_like_everything_else(db: Database, feed: Feed) -> None:
    await put(db, "a", 1)
    await point(db, "a")
    affected: list[int] = []
    await passed(feed, db)
    reads = ReadSet(feed.index, lambda: affected.append(1))
    assert await pointed(recorded(db, reads)) == 1
    reads.finish()

    await db[VALUES].update_one({"_id": "a"}, {"$set": {"other": 1}})

    await until(lambda: affected == [1])
    assert feed.checks.made == 0
