"""Damaged sessions and roll-ups: they stop no others, the doctor finds them, and repairs roll-ups."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Any

import pytest
from bson import Int64, ObjectId
from bson.datetime_ms import DatetimeMS

from portico.gateway.domains.analytics import DOMAIN
from portico.resolvers.analytics.session_checks import repair
from portico.resolvers.analytics.sessions import Period
from portico.resolvers.documents import LENIENT_FOR_REPAIRS, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.problems import Problem
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed
from tests.analytics.support.session_cases import (
    COLLECTIONS,
    LEVELS,
    Model,
    assert_matches,
    at,
    pending,
    recorded,
    roll_up,
    session,
    shown,
    start_of,
    stats,
    stored_roll_ups,
)
from tests.support.damage import damage_in_front
from tests.support.harness import GatewayClient, assert_invariants, some_stops
from tests.support.interruptions import database_of, delayed
from tests.support.moments import meanwhile
from tests.support.stored import empty

FIRST = [session(f"2026-01-{day}T1{hour}:00:00Z", 5) for day in (30, 31) for hour in (0, 1)]
LATE = [session("2026-01-31T10:59:00Z", 7, user) for user in ("ann", "bob")]


@pytest.fixture
def model() -> Model:
    model = Model()
    model.record(FIRST)
    return model


@pytest.fixture
async def rolled_up(gateway: GatewayClient, model: Model) -> GatewayClient:
    """Sessions that are rolled up."""
    await recorded(gateway, *FIRST)
    await roll_up(gateway)
    await assert_matches(gateway, model)
    return gateway


async def problems(gateway: GatewayClient) -> list[Problem]:
    """What `portico doctor` finds."""
    db = gateway.db.with_options(codec_options=LENIENT_FOR_REPAIRS)
    return [problem for invariant in DOMAIN.invariants async for problem in invariant.problems(db)]


async def repaired(gateway: GatewayClient) -> int:
    """Repairs as `portico doctor --repair` does: each problem as soon as it is found."""
    db = gateway.db.with_options(codec_options=LENIENT_FOR_REPAIRS)
    return sum([await problem.mend() for invariant in DOMAIN.invariants async for problem in invariant.problems(db)])


async def test_damaged_sessions_stop_no_others(gateway: GatewayClient) -> None:
    await recorded(gateway, LATE[0])
    healthy = await gateway.stored("analytics.sessions")
    await recorded(gateway, LATE[1])
    count = await damage_in_front(gateway.db, "analytics.sessions", healthy)
    assert count > 20

    with pytest.raises(ExceptionGroup, match="could not be finished"):
        await roll_up(gateway)

    left = await gateway.db["analytics.sessions"].find_one({"_id": healthy["_id"]}, {"pending_since": 1})
    assert left == {"_id": healthy["_id"]}
    assert await stats(gateway, "YEAR", user="bob") == [("2026-01-01T00", 1, 7)]
    assert (await stats(gateway, "YEAR"))[0][1] >= 1
    # A second run does not wait for the damaged ones, either.
    await recorded(gateway, session(user="carl"))
    with pytest.raises(ExceptionGroup):
        await roll_up(gateway)
    assert await stats(gateway, "DAY", user="carl") == [("2026-01-31T00", 1, 60)]


async def test_a_session_whose_user_is_damaged_takes_no_roll_up_of_the_user_with_this_text(
    gateway: GatewayClient,
) -> None:
    await recorded(gateway, session(user="7"))
    await gateway.db["analytics.sessions"].update_one({}, {"$set": {"user_id": 7}})
    await run_once(gateway)

    await recorded(gateway, session(user="7"))
    await run_once(gateway)

    assert await stats(gateway, "YEAR", user="7") == [("2026-01-01T00", 2, 120)]
    assert await pending(gateway.db) == 1


HOUR: Document = {"user_id": "ann", "level": "HOUR", "start": at("2026-01-31T10:00:00")}
DAMAGE: dict[str, tuple[Document, Document]] = {
    "a total that is a text": (HOUR, {"$set": {"total": "much"}}),
    "a number that is not whole": (HOUR, {"$set": {"sessions": 1.0}}),
    "a wrong total": (HOUR, {"$inc": {"total": Int64(1)}}),
    "no total": (HOUR, {"$unset": {"total": ""}}),
    "no revision": (HOUR, {"$unset": {"revision": ""}, "$inc": {"sessions": Int64(1)}}),
    "another user": (HOUR, {"$set": {"user_id": "carl"}}),
    "a user that is a number": (HOUR, {"$set": {"user_id": 7}}),
    "no level": (HOUR, {"$unset": {"level": ""}}),
    "another level": (HOUR, {"$set": {"level": "DAY"}}),
    "another start": (HOUR, {"$set": {"start": at("2026-01-31T11:00:00")}}),
    "a start that Python cannot represent": (HOUR, {"$set": {"start": DatetimeMS(10**15)}}),
    "a start that is a text": (HOUR, {"$set": {"start": "today"}}),
    "another day above": (HOUR, {"$set": {"parents": [ObjectId()]}}),
    "no parents": (HOUR, {"$unset": {"parents": ""}}),
    "a text for parents": (HOUR, {"$set": {"parents": "none"}}),
    **{
        f"a wrong {level.lower()}": ({"level": level}, {"$inc": {"sessions": Int64(1), "total": Int64(-1)}})
        for level in LEVELS
    },
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", DAMAGE)
async def test_a_damaged_roll_up_stops_no_other_user_and_the_doctor_repairs_it(
    rolled_up: GatewayClient, model: Model, name: str
) -> None:
    chosen, change = DAMAGE[name]
    assert (await rolled_up.db["analytics.session_roll_ups"].update_one(chosen, change)).modified_count == 1

    found = await problems(rolled_up)
    assert found
    assert not any(problem.is_open for problem in found)
    await repaired(rolled_up)
    assert await problems(rolled_up) == []
    await assert_matches(rolled_up, model)

    await rolled_up.db["analytics.session_roll_ups"].update_one(chosen, change)
    await recorded(rolled_up, *LATE)
    model.record(LATE)
    await run_once(rolled_up)
    assert await stats(rolled_up, "YEAR", user="bob") == [("2026-01-01T00", 1, 7)]
    # The late session of the other user is in all figures, or still pending.
    assert await pending(rolled_up.db) or chosen is not HOUR or await has_late(rolled_up, model)
    for _ in range(2):
        await repaired(rolled_up)
        await run_once(rolled_up)
    assert await pending(rolled_up.db) == 0
    assert await problems(rolled_up) == []


async def has_late(gateway: GatewayClient, model: Model) -> bool:
    """Returns whether the hour of the damage and the periods above it are those of the model."""
    wanted = [(level, start_of(level, HOUR["start"])) for level in LEVELS]
    chosen = [{"user_id": "ann", "level": level, "start": start} for level, start in wanted]
    found = [await gateway.db["analytics.session_roll_ups"].find_one(one) or {} for one in chosen]
    figures = [(one.get("sessions"), one.get("total")) for one in found]
    return figures == [model.figures("ann", level)[start] for level, start in wanted]


async def run_once(gateway: GatewayClient) -> None:
    """Runs the job. A worker logs its error, and goes on."""
    with contextlib.suppress(Conflict, SweepFailed, *DAMAGED):
        await roll_up(gateway)


@pytest.mark.sample(2)
@pytest.mark.parametrize("level", LEVELS)
async def test_the_doctor_finds_and_repairs_missing_roll_ups(
    rolled_up: GatewayClient, model: Model, level: str
) -> None:
    deleted = await rolled_up.db["analytics.session_roll_ups"].delete_many({"level": level})
    assert deleted.deleted_count > 0

    found = [problem for problem in await problems(rolled_up) if problem.text == "it is missing"]
    assert len(found) == deleted.deleted_count
    await repaired(rolled_up)

    assert await problems(rolled_up) == []
    await assert_matches(rolled_up, model)


async def test_the_doctor_builds_all_roll_ups_from_the_sessions(rolled_up: GatewayClient, model: Model) -> None:
    whole = await stored_roll_ups(rolled_up.db)
    await rolled_up.db["analytics.session_roll_ups"].delete_many({})

    assert await repaired(rolled_up) == len(whole)

    assert await stored_roll_ups(rolled_up.db) == whole
    await assert_matches(rolled_up, model)
    assert await roll_up(rolled_up) == 0


async def test_the_doctor_deletes_a_roll_up_of_nothing(rolled_up: GatewayClient, model: Model) -> None:
    hour = await rolled_up.stored("analytics.session_roll_ups", HOUR)
    await rolled_up.db["analytics.session_roll_ups"].insert_one({**hour, "_id": ObjectId(), "user_id": "dave"})

    assert [problem.text for problem in await problems(rolled_up)] == ["there is nothing that it is computed from"]
    await repaired(rolled_up)

    assert await problems(rolled_up) == []
    await assert_matches(rolled_up, model)


async def test_a_repair_deletes_no_roll_up_that_is_stored_meanwhile(gateway: GatewayClient) -> None:
    roll_ups = gateway.db["analytics.session_roll_ups"]
    sessions = [session(shown(HOUR["start"]))]
    model = Model()
    model.record(sessions)
    superfluous = {**HOUR, "_id": Period.at("ann", "HOUR", HOUR["start"]).key, "sessions": Int64(3)}

    async def record_and_roll_up() -> None:
        await recorded(gateway, *sessions)
        await roll_up(gateway)

    for skip in some_stops(2):
        await empty(gateway.db, COLLECTIONS)
        await roll_ups.insert_one(superfluous)
        with meanwhile(gateway, record_and_roll_up, skip=skip) as outcome:
            await repair(gateway.db, superfluous["_id"])
        if not outcome:
            break
        await assert_matches(gateway, model)
    assert skip > 2
    assert await roll_ups.count_documents({}) == 0


WRONG_SESSIONS: dict[str, tuple[Document, str]] = {
    "a negative length": ({"$set": {"length": Int64(-1)}}, "its length is -1 µs"),
    "a length that is not whole": ({"$set": {"length": 1.5}}, "its length is 1.5 µs"),
    "another hour": ({"$set": {"hour": ObjectId()}}, "its hour is not that of its user and time"),
    "another user": ({"$set": {"user_id": "bob"}}, "its hour is not that of its user and time"),
    "no time": ({"$unset": {"at": ""}}, "a field is missing or invalid"),
    "an empty user": ({"$set": {"user_id": ""}}, "its user has 0 characters"),
}


@pytest.mark.parametrize("name", WRONG_SESSIONS)
async def test_the_doctor_names_a_damaged_session(rolled_up: GatewayClient, name: str) -> None:
    change, text = WRONG_SESSIONS[name]
    damaged = await rolled_up.db["analytics.sessions"].find_one_and_update({}, change)
    assert damaged is not None

    subject = f"session {damaged['_id']}"
    found = [problem for problem in await problems(rolled_up) if problem.subject == subject]

    assert found[0].text.startswith(text)
    assert all(problem.repair is None for problem in found)


async def test_the_doctor_raises_no_false_alarm_while_sessions_are_recorded_and_rolled_up(
    gateway: GatewayClient, other: GatewayClient
) -> None:
    rng = random.Random(5)
    is_over = False

    async def record_and_roll_up(through: GatewayClient) -> None:
        while not is_over:
            times = [f"2026-01-{rng.randint(10, 20)}T1{rng.randint(0, 9)}:00:00Z" for _ in range(5)]
            await recorded(through, *(session(time) for time in times))
            await roll_up(through)

    found: list[Any] = []
    with database_of(gateway, delayed(gateway.db, rng, 0.005)):
        busy = asyncio.create_task(record_and_roll_up(other))
        checked = gateway.domains
        for _ in range(8):
            found += [one for invariant in checked.invariants[-2:] async for one in invariant.check(gateway.db)]
        is_over = True
        await busy
    assert [problem for problem in found if not problem.is_open] == []
    await roll_up(gateway)
    await assert_invariants(gateway)
