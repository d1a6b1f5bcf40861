"""Several processes: others settle what one has left, and one is suspended while others finish its turn and go on."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import pytest

from portico.gateway.domains.game.world import acting
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import finish_turns, settle_rooms
from portico.resolvers.game.world.turn_runs import Acting
from tests.game.support.machine import Machine, State
from tests.game.support.model import Call, Keeper, Setting, Thing, World
from tests.game.support.players import acting_for
from tests.game.support.scene import Temple, add_temple, assert_settled
from tests.game.support.worlds import machine_of
from tests.support.crashing_databases import CrashingDatabases
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, some_of_part
from tests.support.interruptions import database_of, interrupted
from tests.support.leftovers import LONG_AGO

Action = Callable[["Processes", Database], Awaitable[object]]


@dataclass
class Processes:
    """Two processes that both remember both rooms, as they were before the action."""

    db: Database
    temple: Temple
    clock: SettableClock
    acting_one: Rooms = field(default_factory=Rooms)
    other: Rooms = field(default_factory=Rooms)

    async def remember(self) -> None:
        for room in (self.temple.room, self.temple.market):
            await self.other.glance(self.db, room["_id"], is_fresh=True)

    def acting(self, db: Database) -> Acting:
        return acting_for(db, self.acting_one, self.temple.me, self.clock)

    def item(self, name: str) -> Document:
        found = [*self.temple.room["items"], *self.temple.me["items"]]
        return next(one for one in found if one["name"] == name)

    async def run_jobs(self) -> int:
        now = self.clock.now()
        return await finish_turns(self.db, self.other, now=now) + await settle_rooms(self.db, self.other, now=now)


@pytest.fixture
async def processes(db: Database, clock: SettableClock) -> Processes:
    made = Processes(db, await add_temple(db), clock)
    await made.remember()
    return made


async def move(one: Processes, db: Database) -> object:
    return (await room_actions.move(one.acting(db), direction="N")).character


async def pick_up(one: Processes, db: Database) -> object:
    return await room_actions.pick_up(one.acting(db), item_id=one.item("sword")["_id"])


async def give(one: Processes, db: Database) -> object:
    acting_ = one.acting(db)
    return await room_actions.give(acting_, item_id=one.item("pear")["_id"], to=one.temple.friend["_id"])


async def buy(one: Processes, db: Database) -> object:
    ware = one.temple.room["keepers"][0]["items"][0]["_id"]
    return await room_actions.buy(one.acting(db), keeper_key=f"{one.temple.room['_id']}.0", item_id=ware)


ACTIONS: dict[str, Action] = {"move": move, "pickUp": pick_up, "give": give, "buy": buy}
_MARKS = ("gifts_since", "took_since", "leaving_since", "stale_since")


async def marks(db: Database) -> list[object]:
    return [room.get(mark) async for room in db[LOCATIONS.name].find({}) for mark in _MARKS]


@pytest.mark.sample(2)
@pytest.mark.parametrize("action", ACTIONS)
async def test_a_job_of_another_process_settles_everything_wherever_the_first_one_stops(
    db: Database, clock: SettableClock, action: str
) -> None:
    databases = CrashingDatabases(db)
    for stopping_db in databases:
        processes = Processes(db, await add_temple(db), clock)
        await processes.remember()
        with contextlib.suppress(Crash):
            await ACTIONS[action](processes, stopping_db)
        await processes.acting_one.close()
        clock.advance(seconds=6)

        await processes.run_jobs()
        # What a turn of the first run gave is forgotten in the next one.
        clock.advance(seconds=6)
        await processes.run_jobs()

        assert set(await marks(db)) == {None}, databases.stop
        await assert_settled(db)
        assert await processes.run_jobs() == 0
        await db[LOCATIONS.name].delete_many({})
        await db["game.characters"].delete_many({})
    assert databases.stop > 2


async def test_idle_rooms_cost_nothing_in_a_process_that_remembers_them(gateway: GatewayClient) -> None:
    processes = Processes(gateway.db, await add_temple(gateway.db), gateway.clock)
    gateway.clock.advance(seconds=6)
    await processes.remember()
    gateway.commands.clear()
    await processes.run_jobs()
    idle = gateway.commands.names()
    await pick_up(processes, gateway.db)
    gateway.clock.advance(seconds=6)
    assert await processes.run_jobs() == 1
    gateway.commands.clear()

    done = await processes.run_jobs()

    assert (done, gateway.commands.names()) == (0, idle)
    assert set(await marks(gateway.db)) == {None}


async def test_the_doctor_names_old_actions_and_what_they_have_left_and_mends_them(
    db: Database, processes: Processes
) -> None:
    (invariant,) = [one for one in acting.INVARIANTS if "more than a minute" in one.name]
    temple = processes.temple
    _, stopped = FaultyDatabase.around(db, stop_after=1)
    with pytest.raises(Crash):
        await pick_up(processes, stopped)
    assert [problem async for problem in invariant.problems(db)] == []
    entries = {f"characters.{number}.since": LONG_AGO for number in range(2)}
    old = dict.fromkeys(_MARKS, LONG_AGO)
    left = {"characters.1.leaving": True, "characters.1.took": [processes.item("sword")]}
    await db[LOCATIONS.name].update_one({"_id": temple.room["_id"]}, {"$set": {**old, **entries, **left}})
    await db["game.characters"].update_one({"_id": temple.me["_id"]}, {"$set": {"action.since": LONG_AGO}})

    found = {(one.subject, one.text) async for one in invariant.problems(db)}

    since, friend = "since 2020-01-01T00:00:00Z", temple.friend["_id"]
    room = f"room {temple.room['_id']}"
    assert found == {
        (f"character {temple.me['_id']}", f"its action PICK_UP has been under way {since}"),
        (room, f"gifts have been waiting {since}"),
        (room, f"entries of moves that are over have been left {since}, of characters {friend}"),
        (room, f"what actions gave has been kept {since}, of characters {friend}"),
        (room, f"characters have had old copies of it {since}"),
    }
    async for problem in invariant.problems(db):
        await problem.mend()
    assert [one async for one in invariant.problems(db)] == []


SETTING = Setting(
    exits={"shop": {"N": "cave"}, "cave": {"S": "shop"}},
    keepers={"smith": Keeper("shop", ("WEAPON",), asks=100, pays=50)},
    strength={"ann": 12, "bob": 12},
    things={name: Thing(1, 4, "WEAPON", hands=1) for name in ("lying", "carried", "sold")},
)
WORLD = World(
    setting=SETTING,
    rooms=dict.fromkeys(SETTING.strength, "shop"),
    gold={"ann": 100, "bob": 100, "smith": 50},
    places={"lying": ("floor", "shop"), "carried": ("floor", "shop"), "sold": ("stock", "smith")},
)
CALLS = {
    "move": Call("move", "ann", target="N"),
    "pickUp": Call("pickUp", "ann", "lying"),
    "drop": Call("drop", "ann", "carried"),
    "give": Call("give", "ann", "carried", "bob"),
    "buy": Call("buy", "ann", "sold", "smith"),
    "sell": Call("sell", "ann", "carried", "smith"),
    "wield": Call("wield", "ann", "carried", "LEFT"),
}
# The suspended call, with the same key.
AGAIN = Call("again", "ann")
# What happens while the process is suspended.
MEANWHILE = {
    "the jobs run": [],
    "the character goes away and comes back": [
        Call("move", "ann", target="N"),
        Call("move", "ann", target="S"),
        Call("move", "ann", target="N"),
    ],
    "the call is repeated": [AGAIN, Call("move", "ann", target="N"), Call("move", "ann", target="S")],
    "another one reaches for the same things": [
        Call("pickUp", "bob", "lying"),
        Call("buy", "bob", "sold", "smith"),
        Call("pickUp", "bob", "carried"),
        Call("drop", "bob", "lying"),
    ],
}
_numbers = itertools.count()


def keyed(call: Call) -> Call:
    return Call(call.action, call.actor, call.item, call.target, f"late {next(_numbers)}")


@pytest.mark.sample(3)
@pytest.mark.parametrize("action", CALLS)
@pytest.mark.parametrize("meanwhile", MEANWHILE)
async def test_a_process_that_resumes_late_neither_loses_nor_doubles_anything(
    gateway: GatewayClient, other: GatewayClient, clock: SettableClock, action: str, meanwhile: str
) -> None:
    for stop in some_of_part(list(MEANWHILE).index(meanwhile), of=len(MEANWHILE)):
        if not await is_interrupted(gateway, other, clock, CALLS[action], MEANWHILE[meanwhile], stop):
            assert stop > 0
            return


async def is_interrupted(
    gateway: GatewayClient, other: GatewayClient, clock: SettableClock, call: Call, meanwhile: list[Call], stop: int
) -> bool:
    """Suspends the call before its command of this number. Returns whether it has so many."""
    late = keyed(call)
    machine = await machine_of(gateway, clock, WORLD, start="shop")
    others = Machine(other, clock, SETTING, machine.ids, [State(WORLD)])
    held = keyed(Call("pickUp", "ann", "carried"))
    others.learn(held, await machine.ask(held))
    others.crashed = [late]
    is_late = False
    repeated: list[str] = []

    async def overtake() -> None:
        nonlocal is_late
        is_late = True
        # In the second run, the rooms forget what the turns of the first one have given.
        for _ in range(2):
            await other.run_jobs(seconds=31)
        for one in meanwhile:
            if one is AGAIN:
                repeated.append((await others.ask(late))["__typename"])
                others.conclude(late, repeated[0])
                others.crashed = []
            else:
                again = keyed(one)
                others.learn(again, await others.ask(again))

    with database_of(gateway, interrupted(gateway.state.database, None, None, overtake, skip=stop)):
        answer = await machine.ask(late)
    if repeated:
        assert answer["__typename"] == repeated[0]
    else:
        others.conclude(late, answer["__typename"])
    await others.settle()
    await assert_invariants(gateway)
    return is_late
