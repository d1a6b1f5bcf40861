"""What calls leave for after their answers: it is sent in batches, and one failure holds nobody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pymongo.errors import AutoReconnect, BulkWriteError, PyMongoError

from portico.resolvers.documents import Database
from portico.resolvers.errors import NotFound
from portico.resolvers.writes.settler import Bulks, Settler
from tests.support.interruptions import before_every_command, interrupted
from tests.support.pausing import failing
from tests.support.sockets import until


@pytest.fixture
async def settler() -> AsyncIterator[Settler]:
    settler = Settler()
    yield settler
    await settler.close()


def counting(key: str, *, name: str = "settled", by: Any = 1) -> Bulks:
    return {name: [({"_id": key}, {"$inc": {"count": by}})]}


async def stored(db: Database, name: str, *keys: str, count: Any = 0) -> None:
    await db[name].insert_many([{"_id": key, "count": count} for key in keys])


async def counts(db: Database, name: str = "settled") -> dict[str, Any]:
    return {one["_id"]: one["count"] async for one in db[name].find({})}


async def test_a_call_whose_remainder_fails_does_not_keep_others_from_theirs(db: Database, settler: Settler) -> None:
    done: list[str] = []

    async def note() -> None:
        done.append("noted")

    await stored(db, "settled", "there")
    assert settler.add(db, counting("missing"), otherwise=failing(NotFound("Discussion")))
    assert settler.add(db, counting("there"), otherwise=note)

    await settler.settled(db)

    assert done == ["noted"]
    assert await counts(db) == {"there": 1}


async def test_a_remainder_that_takes_long_does_not_hold_the_next_calls(db: Database, settler: Settler) -> None:
    go_on, done = asyncio.Event(), list[str]()

    async def last_long() -> None:
        await go_on.wait()
        done.append("removed")

    await stored(db, "settled", "there")
    settler.add(db, counting("missing"), otherwise=last_long)
    await asyncio.sleep(0.1)
    settler.add(db, counting("there"))

    await asyncio.wait_for(settler._decided.served(db), 10)
    assert await counts(db) == {"there": 1}
    assert not done
    go_on.set()
    await settler.settled(db)
    assert done == ["removed"]


async def test_an_update_that_fails_keeps_no_other_call_from_its_steps(db: Database, settler: Settler) -> None:
    await stored(db, "settled", "one", "two")
    await stored(db, "settled", "damaged", count="no number")
    await stored(db, "outcomes", "one", "two", "damaged")
    for key in ("one", "damaged", "two"):
        settler.add(db, counting(key), counting(key, name="outcomes"))

    await settler.settled(db)

    assert await counts(db) == {"one": 1, "two": 1, "damaged": "no number"}
    assert await counts(db, "outcomes") == {"one": 1, "two": 1, "damaged": 0}


async def test_what_fails_in_one_collection_does_not_concern_another(db: Database, settler: Settler) -> None:
    await stored(db, "outcomes", "one")
    faulty = interrupted(db, "settled", "bulk_write", failing(ValueError("a defect")))
    settler.add(faulty, counting("one"))
    settler.add(faulty, counting("one", name="outcomes"))

    await settler.settled(faulty)

    assert await counts(db, "outcomes") == {"one": 1}


async def test_a_lost_connection_is_tried_again(db: Database, settler: Settler) -> None:
    await stored(db, "settled", "there")
    faulty = interrupted(db, "settled", "bulk_write", failing(AutoReconnect("the connection was lost")))
    settler.add(faulty, counting("there"))

    await settler.settled(faulty)

    assert await counts(db) == {"there": 1}


async def test_a_settler_that_closes_does_not_wait_for_a_lost_database() -> None:
    tried = 0
    settler = Settler()

    class Lost:
        def __getitem__(self, name: str) -> Lost:
            return self

        async def bulk_write(self, *_updates: Any, **_options: Any) -> None:
            nonlocal tried
            tried += 1
            raise AutoReconnect("the connection was lost")

    lost: Any = Lost()
    settler.add(lost, counting("there"))
    await until(lambda: tried > 0)

    begun = asyncio.get_running_loop().time()
    await settler.close()

    assert asyncio.get_running_loop().time() - begun < 1


async def test_a_call_ends_whose_updates_have_reached_no_majority(db: Database, settler: Settler) -> None:
    await stored(db, "settled", "one")
    await stored(db, "outcomes", "one")
    details = {"writeErrors": [], "writeConcernErrors": [{"code": 91, "errmsg": "no majority"}], "nMatched": 1}
    errors: list[PyMongoError] = [BulkWriteError(details)]

    async def fail() -> None:
        raise errors.pop() if errors else AutoReconnect("the connection was lost")

    faulty = before_every_command(db, fail, collection="settled", method="bulk_write")
    settler.add(faulty, counting("one"), counting("one", name="outcomes"))

    await settler.settled(faulty)

    assert await counts(db, "outcomes") == {"one": 0}
