"""A character that is alone in a room: nobody else's copy gets old, so its own turn is the only mark that is left."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import pytest
from bson import ObjectId

from portico.gateway.mongo.faults import Crash
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.action_refusals import ItemGone
from portico.resolvers.game.world.character_edits import delete_character
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS, MAX_CHARACTERS
from portico.resolvers.game.world.room_queues import no_turn
from portico.resolvers.game.world.room_turns import PICK_UP
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import finish_turns, settle_rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.game.world.turns import Plan, begin, finish
from portico.resolvers.together import both
from portico.resolvers.writes.settler import Settler
from tests.game.support.players import acting_for
from tests.game.support.scene import assert_settled, assert_sound
from tests.game.support.world import add_character, add_room, change_room, item, monks
from tests.gateway.support.direct import warmed_to_write, writer_of
from tests.support.crashing_databases import CrashingDatabases
from tests.support.documents import stored
from tests.support.harness import Commands, GatewayClient, SettableClock
from tests.support.interruptions import interrupted


@dataclass
class Cave:
    """A cave with a lamp and a rope, an empty hall north of it, and Ann, who is alone."""

    db: Database
    clock: SettableClock
    cave: Document
    hall: Document
    ann: Document

    @classmethod
    async def of(cls, db: Database, clock: SettableClock) -> Cave:
        hall_id = ObjectId()
        exits = [{"direction": "N", "to": hall_id}]
        cave = await add_room(db, "cave", exits=exits, items=[item("lamp"), item("rope")])
        back = [{"direction": "S", "to": cave["_id"]}]
        hall = await add_room(db, "hall", _id=hall_id, exits=back)
        return cls(db, clock, cave, hall, await add_character(db, "ann", cave))

    def acting(self, rooms: Rooms, who: Document | None = None, *, db: Database | None = None) -> Acting:
        one = who or self.ann
        return acting_for(self.db if db is None else db, rooms, one, self.clock, owner=one["owner"])

    def thing(self, name: str) -> ObjectId:
        found: ObjectId = next(one["_id"] for one in self.cave["items"] if one["name"] == name)
        return found

    async def pick_up(self, rooms: Rooms, db: Database | None = None) -> Document:
        return await room_actions.pick_up(self.acting(rooms, db=db), item_id=self.thing("lamp"))

    async def move(self, rooms: Rooms, db: Database | None = None) -> Document:
        return (await room_actions.move(self.acting(rooms, db=db), direction="N")).character

    async def run_jobs(self) -> None:
        self.clock.advance(seconds=6)
        await finish_turns(self.db, Rooms(), now=self.clock.now())
        await settle_rooms(self.db, Rooms(), now=self.clock.now())

    async def room(self, room: Document) -> Document:
        return await stored(self.db, LOCATIONS.name, room)

    async def character(self, who: Document | None = None) -> Document:
        return await stored(self.db, CHARACTERS.name, who or self.ann)

    async def assert_current(self, *characters: Document) -> None:
        """Asserts that the characters' copies show the rooms as they are."""
        for one in characters:
            seen = await self.character(one)
            room = await self.room(seen["location"])
            assert seen["location"]["version"] == room["version"], one["name"]
            assert seen["location"]["items"] == room["items"]


@pytest.fixture
async def cave(db: Database, clock: SettableClock) -> Cave:
    return await Cave.of(db, clock)


Turn = Callable[[Cave, Rooms, Database], Awaitable[Document]]
TURNS: dict[str, Turn] = {"pickUp": Cave.pick_up, "move": Cave.move}


@pytest.mark.parametrize("turn", TURNS)
async def test_a_turn_that_crashes_anywhere_leaves_nothing_but_its_slot(
    db: Database, clock: SettableClock, turn: str
) -> None:
    databases = CrashingDatabases(db)
    for crashing_db in databases:
        cave = await Cave.of(db, clock)
        with contextlib.suppress(Crash):
            await TURNS[turn](cave, Rooms(), crashing_db)
        await assert_sound(db)
        assert [one async for one in db[LOCATIONS.name].find({"stale_since": {"$exists": True}})] == []

        await cave.run_jobs()

        await cave.assert_current(cave.ann)
        await assert_settled(db)
        await db[LOCATIONS.name].delete_many({})
        await db[CHARACTERS.name].delete_many({})
    assert databases.stop > 2


async def test_an_action_refreshes_no_copies_and_a_move_reads_the_new_room_once_more(gateway: GatewayClient) -> None:
    cave, rooms = await Cave.of(gateway.db, gateway.clock), Rooms()
    for room in (cave.cave, cave.hall):
        await rooms.glance(gateway.db, room["_id"])
    gateway.commands.clear()

    await cave.pick_up(rooms)

    acted = ["find game.characters", "update game.characters", "update game.locations"]
    assert gateway.commands.names() == [*acted, "findAndModify game.characters"]
    gateway.commands.clear()

    await cave.move(rooms)

    entered = ["update game.locations", "findAndModify game.characters", "find game.locations"]
    assert gateway.commands.names() == [*acted, *entered, "update game.locations"]
    await assert_settled(gateway.db)


async def test_the_next_turn_in_the_room_need_not_read_the_character(
    gateway: GatewayClient, commands: Commands, clock: SettableClock
) -> None:
    cave, rooms = await Cave.of(gateway.db, clock), Rooms()
    await cave.pick_up(rooms)
    commands.clear()

    dropped = await room_actions.drop(cave.acting(rooms), item_id=cave.thing("lamp"))

    assert dropped["items"] == []
    assert commands.names() == ["update game.characters", "update game.locations", "findAndModify game.characters"]
    await cave.assert_current(cave.ann)
    await assert_settled(gateway.db)


async def test_a_character_that_has_acted_elsewhere_is_read_again(cave: Cave) -> None:
    here, elsewhere = Rooms(), Rooms()
    await cave.pick_up(here)
    await room_actions.pick_up(cave.acting(elsewhere), item_id=cave.thing("rope"))

    # The first process remembers her without the rope, and then the second one with it.
    after = await room_actions.drop(cave.acting(here), item_id=cave.thing("rope"))
    with pytest.raises(ItemGone):
        await room_actions.drop(cave.acting(elsewhere), item_id=cave.thing("rope"))

    assert [one["name"] for one in after["items"]] == ["lamp"]
    await cave.assert_current(cave.ann)
    await assert_settled(cave.db)


async def test_a_character_that_has_left_or_is_deleted_is_read_again(cave: Cave) -> None:
    rooms = Rooms()
    await cave.pick_up(rooms)
    await cave.move(rooms)
    dropped = await room_actions.drop(cave.acting(rooms), item_id=cave.thing("lamp"))
    assert dropped["location"]["name"] == "hall"

    await delete_character(cave.acting(rooms))

    with pytest.raises(NotFound):
        await cave.pick_up(rooms)
    await assert_settled(cave.db)


@pytest.mark.parametrize("skip", range(3))
async def test_somebody_who_arrives_during_the_turn_sees_its_outcome(cave: Cave, skip: int) -> None:
    bob = await add_character(cave.db, "bob", cave.hall)

    async def arrive() -> None:
        await room_actions.move(cave.acting(Rooms(), bob), direction="S")

    late = interrupted(cave.db, None, None, arrive, skip=skip + 1)

    after = await cave.pick_up(Rooms(), late)

    assert [one["name"] for one in after["location"]["items"]] == ["rope"]
    await cave.assert_current(cave.ann, bob)
    await assert_settled(cave.db)


async def test_a_late_step_of_a_turn_that_is_over_does_not_hide_that_copies_are_old(cave: Cave) -> None:
    bob = await add_character(cave.db, "bob", cave.cave)
    await cave.pick_up(Rooms())
    room = await cave.room(cave.cave)
    entry = next(one for one in room["characters"] if one["_id"] == cave.ann["_id"])
    late: Document = {"kind": PICK_UP, "item": cave.thing("lamp"), "turn": entry["turn"], "at": cave.clock.now()}
    rooms = Rooms()
    begun = await begin(cave.acting(rooms, bob), await cave.character(bob), Plan(PICK_UP, {"item": cave.thing("rope")}))
    assert begun is not None

    # Both steps are in one update of the room.
    again = rooms.take_step(cave.db, room["_id"], {**late, "character": cave.ann["_id"]}, no_turn, 0)
    _, ended = await both(again, finish(cave.db, rooms, begun, checked=rooms.moment()))

    assert ended.character is not None
    assert ended.character["location"]["items"] == []
    await cave.assert_current(cave.ann, bob)


async def test_a_move_is_answered_before_the_old_room_drops_the_entry(
    cave: Cave, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Otherwise, the entry could be gone before this test looks.
    monkeypatch.setattr("portico.resolvers.game.world.rooms._LINGER", 2)
    settler = Settler()
    rooms = Rooms(settler=settler)

    moved = await cave.move(rooms)

    assert moved["location"]["name"] == "hall"
    assert [one.get("leaving") for one in (await cave.room(cave.cave))["characters"]] == [True]
    await settler.settled(cave.db)
    assert (await cave.room(cave.cave))["characters"] == []
    await assert_settled(cave.db)
    await rooms.close()
    await settler.close()


async def test_a_crowded_room_drops_the_entry_before_the_answer(cave: Cave) -> None:
    crowd = monks()[: MAX_CHARACTERS // 2]
    await change_room(cave.db, cave.cave, {"$push": {"characters": {"$each": crowd}}})
    settler = Settler()
    rooms = Rooms(settler=settler)

    await cave.move(rooms)

    left = (await cave.room(cave.cave))["characters"]
    assert [one for one in left if "leaving" in one] == []
    await rooms.close()
    await settler.close()


async def test_a_room_relies_on_the_slot_of_a_cancelled_caller_only_when_it_is_on_a_majority(
    gateway: GatewayClient, clock: SettableClock
) -> None:
    cave, rooms = await Cave.of(gateway.db, clock), Rooms()
    await warmed_to_write(gateway.db, 2)

    async def cancel() -> None:
        acting.cancel()
        await asyncio.wait({acting})
        # As if all connections had been opened after the slot was taken.
        for link in writer_of(gateway.db)._links._idle:
            link.opened_at = time.monotonic()

    gateway.commands.clear()
    acting = asyncio.create_task(cave.pick_up(rooms, interrupted(gateway.db, LOCATIONS.name, "find_one", cancel)))
    await asyncio.wait({acting})
    await rooms.close()

    written = [one for one in gateway.commands.sent if "update" in one]
    assert [(one["update"], one["writeConcern"]["w"]) for one in written] == [
        (CHARACTERS.name, 1),
        (CHARACTERS.name, "majority"),
        (LOCATIONS.name, "majority"),
    ]
    assert acting.cancelled()
    await cave.run_jobs()
    await assert_settled(gateway.db)
