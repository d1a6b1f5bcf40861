"""Hits of gateways that crash or pause anywhere: each is counted exactly once, or not at all if nobody was told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from pymongo.errors import NetworkTimeout

from portico.gateway.domains.analytics import DOMAIN
from portico.gateway.settings import Settings
from portico.resolvers.analytics.hit_writing import HitWriter, checked_hit
from portico.resolvers.documents import Database
from portico.resolvers.writes.sweeps import SweepFailed
from tests.analytics.support.hits import COLLECTIONS, RECORD, hit, record_hits, total
from tests.analytics.support.log_events import NOON, Given, service
from tests.support.harness import (
    GatewayClient,
    SettableClock,
    assert_invariants,
    part_of_stops,
    run_jobs,
    running,
    some_of_part,
    some_stops,
    stops,
)
from tests.support.interruptions import crashing, database_of, stopping
from tests.support.moments import meanwhile
from tests.support.stored import empty

PAGES = ("/", "/other")
# A first hit creates the counters, and later ones find them.
EVENTS = [hit(PAGES[number % 2], eventId=f"event {number}") for number in range(6)]
PLAIN = [hit(PAGES[number % 2]) for number in range(6)]


class Scene:
    """A gateway whose process can be killed: its writer is then forgotten, and its lease ends."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock) -> None:
        self.gateway, self.clock = gateway, clock
        self.was_cut_off = False

    async def crash(self, hits: list[Given], after: int) -> bool:
        """Sends hits, and kills the gateway after this many changes. Returns whether it has answered."""
        with crashing(self.gateway, after) as database:
            answer = await service(self.gateway).ask(RECORD, {"input": hits})
        self.restart()
        self.was_cut_off = database.has_crashed
        return answer.codes == []

    def restart(self) -> None:
        self.gateway.state.resources[HitWriter] = HitWriter()

    async def run_jobs(self) -> None:
        await self.gateway.run_jobs("settle-hits", seconds=31)

    async def let_another_count(self) -> None:
        """Lets the lease of the slot end, a job settle it, and another gateway take it and count seven hits."""
        own = self.gateway.state.resources[HitWriter]
        await self.run_jobs()
        self.restart()
        await record_hits(self.gateway, *EVENTS[:3], *PLAIN[:2])
        await record_hits(self.gateway, *PLAIN[:2])
        self.gateway.state.resources[HitWriter] = own

    async def counts(self) -> list[int]:
        return [await total(self.gateway, page) for page in PAGES]


@pytest.fixture
def scene(gateway: GatewayClient, clock: SettableClock) -> Scene:
    return Scene(gateway, clock)


@pytest.mark.sample(3)
@pytest.mark.parametrize("has_counters", [False, True], ids=["first hits", "later hits"])
@pytest.mark.parametrize("recovery", ["repeat", "jobs", "jobs, repeat", "repeat, jobs", "repeat twice, jobs"])
async def test_events_are_counted_once_wherever_the_gateway_stops(
    scene: Scene, recovery: str, has_counters: bool
) -> None:
    for stop in some_of_part(int(recovery.endswith("jobs")), of=2):
        await _empty(scene.gateway)
        before = [hit(page, eventId=f"before {page}") for page in PAGES] if has_counters else []
        await record_hits(scene.gateway, *before)
        wanted = [3 + has_counters] * 2
        was_told = await scene.crash(EVENTS, stop)
        if not scene.was_cut_off:
            break

        for step in recovery.split(", "):
            if step == "jobs":
                await scene.run_jobs()
            for _ in range({"repeat": 1, "repeat twice": 2}.get(step, 0)):
                # In other batches, and in another order.
                await record_hits(scene.gateway, *EVENTS[:1:-1])
                await record_hits(scene.gateway, *EVENTS[:4])
                # The answer says that they are counted, although the killed gateway still holds its slot.
                assert await scene.counts() == wanted, stop
        await scene.run_jobs()

        nothing = [int(has_counters)] * 2
        allowed = [wanted] if was_told or "repeat" in recovery else [nothing, wanted]
        assert await scene.counts() in allowed, stop
        await assert_invariants(scene.gateway)
    assert stop > 3


async def test_hits_without_an_id_are_counted_all_or_none(scene: Scene) -> None:
    outcomes = set()
    for stop in stops():
        await _empty(scene.gateway)
        was_told = await scene.crash(PLAIN, stop)
        if not scene.was_cut_off:
            break
        await scene.run_jobs()

        counts = await scene.counts()
        outcomes.add((was_told, tuple(counts)))
        await assert_invariants(scene.gateway)

    # After the seal, the hits count, although nobody has an answer yet.
    assert outcomes == {(False, (0, 0)), (False, (3, 3))}


async def test_the_job_finishes_what_it_has_left_wherever_it_stops(scene: Scene) -> None:
    slots = scene.gateway.db["analytics.hit_slots"]
    counted = []
    for changes in range(3, 7):
        # Neighbouring numbers of changes take each stop together.
        for stop in part_of_stops(changes, of=2):
            await _empty(scene.gateway)
            await scene.crash(EVENTS, changes)
            is_sealed = await slots.count_documents({"flush": {"$ne": None}}) == 1
            scene.clock.advance(seconds=31)
            with crashing(scene.gateway, stop) as database, stopping():
                await run_jobs(scene.gateway, scene.clock, "settle-hits")
            for _ in range(2):
                await scene.run_jobs()

            counted.append(await scene.counts())
            assert counted[-1] == ([3, 3] if is_sealed else [0, 0])
            await assert_invariants(scene.gateway)
            if not database.has_crashed:
                break
    assert counted.count([3, 3]) > counted.count([0, 0]) > 0


@pytest.mark.parametrize("has_counters", [False, True], ids=["first hits", "later hits"])
async def test_a_gateway_that_is_suspended_anywhere_counts_nothing_twice_when_it_resumes(
    scene: Scene, has_counters: bool
) -> None:
    gateway = scene.gateway
    for skip in some_stops(2):
        await _empty(gateway)
        if has_counters:
            await record_hits(gateway, hit(eventId="before"))
        with meanwhile(gateway, scene.let_another_count, skip=skip) as outcome:
            sent = await record_hits(gateway, *EVENTS, *PLAIN)
        if not outcome:
            break

        assert sent["recorded"] == 12
        await scene.run_jobs()
        # Six events, six hits of the suspended call, and four of the other one.
        assert sum(await scene.counts()) == 16 + has_counters, skip
        await assert_invariants(gateway)
        await record_hits(gateway, *EVENTS, *PLAIN[:1])
        assert sum(await scene.counts()) == 17 + has_counters, skip
    assert skip > 3


async def test_the_lost_answer_of_a_seal_is_found_out_before_the_next_flush(scene: Scene) -> None:
    gateway = scene.gateway
    for hits, count in ((PLAIN, 6), (EVENTS, 6)):
        await _empty(gateway)
        lost = _LosingAnswers(gateway.state.database, "analytics.hit_slots")
        with database_of(gateway, lost):
            assert (await service(gateway).ask(RECORD, {"input": hits})).codes != []
        assert sum(await scene.counts()) == 0

        await record_hits(gateway, hit("/third"))

        assert (sum(await scene.counts()), await total(gateway, "/third")) == (count, 1)
        await assert_invariants(gateway)


@pytest.mark.parametrize("collection", ["analytics.hit_ids", "analytics.hit_days", "analytics.hit_months"])
async def test_hits_are_counted_when_the_call_has_its_answer_even_if_the_database_fails_in_between(
    scene: Scene, collection: str
) -> None:
    gateway = scene.gateway
    for hits in (EVENTS, PLAIN):
        await _empty(gateway)
        await record_hits(gateway, *PLAIN)
        lost = _LosingAnswers(gateway.state.database, collection)
        with database_of(gateway, lost):
            assert (await record_hits(gateway, *hits))["recorded"] == 6

        assert await scene.counts() == [6, 6]


async def test_a_call_whose_hits_cannot_be_counted_gets_an_error_and_a_later_one_counts_them(scene: Scene) -> None:
    gateway = scene.gateway
    await record_hits(gateway, *PLAIN)
    failing = _LosingAnswers(gateway.state.database, "analytics.hit_months", most=1_000)
    with database_of(gateway, failing):
        assert (await service(gateway).ask(RECORD, {"input": EVENTS})).codes != []

    await record_hits(gateway, *EVENTS[:1])

    assert await scene.counts() == [6, 6]
    await assert_invariants(gateway)


@pytest.mark.parametrize("sent", [(EVENTS, EVENTS), (PLAIN, EVENTS)], ids=["the same events", "other hits"])
async def test_a_damaged_counter_stops_neither_other_hits_nor_its_own_after_its_repair(
    scene: Scene, sent: Sequence[Sequence[Given]]
) -> None:
    gateway, days = scene.gateway, scene.gateway.db["analytics.hit_days"]
    await record_hits(gateway, *PLAIN)
    day = await days.find_one_and_update({"page": "/"}, {"$set": {"minutes": "damaged"}})
    assert day is not None

    for hits in sent:
        assert (await record_hits(gateway, *hits))["recorded"] == 6

    whole = 6 if sent[0] is EVENTS else 9
    assert await total(gateway, "/other") == whole
    scene.clock.advance(seconds=31)
    with pytest.raises(SweepFailed):
        await run_jobs(gateway, scene.clock, "settle-hits")
    await days.update_one({"_id": day["_id"]}, {"$set": {"minutes": day["minutes"]}})
    await scene.run_jobs()
    assert await scene.counts() == [whole, whole]
    await assert_invariants(gateway)


@pytest.mark.sample(3)
@pytest.mark.parametrize("is_owned", [True, False], ids=["of this gateway", "of no gateway"])
@pytest.mark.parametrize("damage", [{"seq": "damaged"}, {"seq": 1.5}, {"flush": "damaged"}, {"until": "damaged"}])
async def test_a_damaged_slot_stops_no_hits(scene: Scene, damage: Given, is_owned: bool) -> None:
    gateway, slots = scene.gateway, scene.gateway.db["analytics.hit_slots"]
    await record_hits(gateway, hit())
    if not is_owned:
        await scene.run_jobs()
        scene.restart()
    await slots.update_one({}, {"$set": {"flush": None, **damage}})

    for _ in range(2):
        assert (await record_hits(gateway, *PLAIN))["recorded"] == 6

    assert await scene.counts() == [7, 6]


@pytest.mark.parametrize(
    ("damage", "text"),
    [
        ({"seq": "damaged"}, "it has no number of a flush"),
        ({"until": "damaged"}, "its lease has no end"),
        ({"flush": "damaged"}, "a field is missing or invalid"),
        ({"flush": {"counts": []}}, "a field is missing or invalid"),
    ],
)
async def test_doctor_names_a_damaged_slot(gateway: GatewayClient, damage: Given, text: str) -> None:
    await record_hits(gateway, hit())
    await gateway.db["analytics.hit_slots"].update_one({}, {"$set": damage})

    found = [problem async for problem in DOMAIN.invariants[0].check(gateway.db)]

    assert [problem.text.partition(" (")[0] for problem in found if problem.subject == "hit slot 0"] == [text]


async def test_doctor_names_counters_that_do_not_add_up(gateway: GatewayClient) -> None:
    await record_hits(gateway, *PLAIN)
    days, months = gateway.db["analytics.hit_days"], gateway.db["analytics.hit_months"]
    await days.update_one({"page": "/"}, {"$inc": {"hours.3": 1}})
    await days.update_one({"page": "/other"}, {"$inc": {"seq": 7}})
    await months.update_one({"page": "/other"}, {"$inc": {"days.3": 1}})
    await record_hits(gateway, hit("/third"))
    await months.delete_one({"page": "/third"})

    found = [problem.text.partition(":")[0] async for problem in DOMAIN.invariants[0].check(gateway.db)]

    assert sorted(found) == [
        "hits of 2026-03-04 in no hour and minute",
        "hits that it lacks of 2026-03-09, which the days have",
        "it has a flush that its slot has not",
        "its hours are not the sums of their minutes",
        "the counter of its month is missing",
    ]


async def test_a_cancelled_caller_does_not_stop_the_others(scene: Scene) -> None:
    writer = scene.gateway.state.resources[HitWriter]
    one = checked_hit(event_id=None, site="shop.example", page="/", at=NOON)
    calls = [asyncio.create_task(writer.record(scene.gateway.db, [one], now=scene.clock.now())) for _ in range(20)]
    await asyncio.sleep(0)
    for call in calls[::2]:
        call.cancel()

    ended = await asyncio.gather(*calls, return_exceptions=True)

    assert [type(one) for one in ended[1::2]] == [type(None)] * 10
    assert 10 <= await total(scene.gateway) <= 20


async def test_a_gateway_that_stops_gives_up_its_slot(settings: Settings) -> None:
    async with running(settings) as gateway:
        await asyncio.gather(*(record_hits(gateway, *PLAIN) for _ in range(10)))
        db: Database = gateway.db
        assert await db["analytics.hit_slots"].count_documents({"owner": None}) == 0
    async with running(settings) as gateway:
        (slot,) = await gateway.db["analytics.hit_slots"].find({}).to_list()
        assert (slot["owner"], slot["flush"]) == (None, None)
        assert await total(gateway) == 30


class _LosingAnswers:
    """A database that carries out updates of a collection, and loses the answers of the first ones."""

    def __init__(self, database: Any, collection: str, *, most: int = 1) -> None:
        self._database, self._collection = database, collection
        self._left = most

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)

    def __getitem__(self, name: str) -> Any:
        found = self._database[name]
        if name != self._collection:
            return found
        return _Losing(found, self)

    def lose(self) -> None:
        if self._left:
            self._left -= 1
            raise NetworkTimeout("the answer was lost")


class _Losing:
    def __init__(self, collection: Any, database: _LosingAnswers) -> None:
        self._collection, self._database = collection, database

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._collection, name)
        if name == "with_options":
            return lambda **options: _Losing(method(**options), self._database)
        if name not in {"update_one", "bulk_write", "insert_many"}:
            return method

        async def sent(*args: Any, **kwargs: Any) -> Any:
            found = await method(*args, **kwargs)
            self._database.lose()
            return found

        return sent


async def _empty(gateway: GatewayClient) -> None:
    await empty(gateway.db, COLLECTIONS)
    gateway.state.resources[HitWriter] = HitWriter()
