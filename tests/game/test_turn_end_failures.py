"""The last step of a turn arrives, and the room forgets the turn, whatever becomes of the call that sends it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from portico.gateway.mongo.faults import Crash
from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import equipment, room_actions
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS, keeper_key
from portico.resolvers.game.world.room_turns import entry_of
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import finish_turns
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.writes.marks import random_operation_id
from tests.game.support.scene import assert_settled
from tests.game.support.smithy import Smithy, names
from tests.game.support.world import add_character
from tests.support.documents import stored
from tests.support.interruptions import interrupted


async def drop(smithy: Smithy, **given: Any) -> Document:
    """Its first update takes the last step along."""
    return await smithy.drop("sword", **given)


async def wield(smithy: Smithy, **given: Any) -> Document:
    """It reads the character, so the last step is sent before."""
    return await equipment.wield(smithy.acting(**given), item_id=smithy.things["dagger"], hand="LEFT")


async def put_in(smithy: Smithy, **given: Any) -> Document:
    """It remembers the character, but has no slot, so the last step is sent before."""
    given_ids = {"item_id": smithy.things["sword"], "container_id": smithy.things["dagger"]}
    return await room_actions.put_in(smithy.acting(**given), **given_ids)


Call = Callable[..., Awaitable[Document]]
CALLS = [drop, wield, put_in]


async def pick_up(smithy: Smithy, **given: Any) -> None:
    """Picks up the sword. The dagger has a secret compartment."""
    await smithy.db[CHARACTERS.name].update_one({"_id": smithy.ann["_id"]}, {"$set": {"items.0.capacity": 1_000}})
    await smithy.pick_up("sword", **given)


async def pick_up_before(smithy: Smithy, call: Call, action: Callable[[], Awaitable[object]]) -> Database:
    """Picks up the sword. Returns the database for the call; the action runs before the last step is sent."""
    if call is drop:
        await pick_up(smithy)
        return interrupted(smithy.db, CHARACTERS.name, "update_one", action)
    await pick_up(smithy, db=interrupted(smithy.db, CHARACTERS.name, "find_one_and_update", action))
    return smithy.db


async def crash() -> None:
    raise Crash


async def require_ended(smithy: Smithy) -> None:
    await smithy.rooms.close()
    character = await smithy.stored()
    assert "action" not in character
    assert names(character["items"]) == {"sword", "dagger"}
    await assert_settled(smithy.db)


# ------------------------------------------------------------------- the call fails


@pytest.mark.parametrize("call", CALLS)
async def test_a_last_step_arrives_although_the_call_that_sends_it_fails(smithy: Smithy, call: Call) -> None:
    db = await pick_up_before(smithy, call, crash)

    with pytest.raises(Crash):
        await call(smithy, db=db)

    assert "action" in await smithy.stored()
    await require_ended(smithy)


@pytest.mark.parametrize("call", CALLS)
async def test_a_last_step_arrives_although_the_call_that_sends_it_is_cancelled(smithy: Smithy, call: Call) -> None:
    is_sending = asyncio.Event()

    async def hang() -> None:
        is_sending.set()
        await asyncio.Event().wait()

    task = asyncio.ensure_future(call(smithy, db=await pick_up_before(smithy, call, hang)))
    await is_sending.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    await require_ended(smithy)


@pytest.mark.parametrize("call", CALLS)
async def test_the_call_after_one_that_failed_sends_the_last_step(smithy: Smithy, call: Call) -> None:
    db = await pick_up_before(smithy, call, crash)
    with pytest.raises(Crash):
        await call(smithy, db=db)

    after = await smithy.buy("helmet")

    assert names(after["items"]) == {"sword", "dagger", "helmet"}
    await smithy.end()


@pytest.mark.parametrize("call", CALLS)
async def test_a_last_step_that_arrived_before_the_call_failed_has_no_second_effect(smithy: Smithy, call: Call) -> None:
    async def drop_and_crash() -> None:
        await smithy.drop("sword", rooms=Rooms())
        raise Crash

    db = await pick_up_before(smithy, call, drop_and_crash)
    with pytest.raises(Crash):
        await call(smithy, db=db)

    await smithy.end()
    assert names((await smithy.stored())["items"]) == {"dagger"}


# ----------------------------------------------------------------- the room forgets


@pytest.mark.parametrize("call", [wield, put_in])
async def test_a_room_forgets_a_turn_whose_last_step_another_call_has_sent(smithy: Smithy, call: Call) -> None:
    bob = await add_character(smithy.db, "bob", smithy.room, gold=100)
    await pick_up(smithy)
    await call(smithy)
    others = Acting(smithy.db, smithy.rooms, bob["_id"], "bob", smithy.clock.now(), random_operation_id())

    key = keeper_key(smithy.room["_id"], 0)
    await room_actions.buy(others, keeper_key=key, item_id=smithy.things["helmet"])

    room = await stored(smithy.db, LOCATIONS.name, smithy.room)
    entry = entry_of(room, smithy.ann["_id"])
    assert entry is not None
    assert entry["took"] == []
    await smithy.end()


LATE = {"pick_up": ("sword", {"sword", "dagger"}), "buy": ("helmet", {"helmet", "dagger"}), "sell": ("dagger", set())}


@pytest.mark.parametrize("action", LATE)
async def test_a_call_that_is_late_is_answered_with_what_the_room_has_forgotten(smithy: Smithy, action: str) -> None:
    name, expected = LATE[action]

    async def end_and_forget() -> None:
        smithy.clock.advance(seconds=6)
        # The slot waits for the primary alone. A job sees it when it is on a majority, as everything before this is.
        await smithy.db[LOCATIONS.name].update_many({"_id": "none"}, {"$set": {"name": "none"}})
        await finish_turns(smithy.db, Rooms(), now=smithy.clock.now())
        [entry] = (await smithy.forgotten())["characters"]
        assert entry["over"] == entry["turn"] == smithy.ann["turn"] + 1

    late = interrupted(smithy.db, LOCATIONS.name, "update_one", end_and_forget)

    answered = await getattr(smithy, action)(name, db=late)

    character = await smithy.stored()
    assert "action" not in character
    assert names(answered["items"]) == names(character["items"]) == expected
    assert answered["gold"] == character["gold"]
    # The next turn begins with what this process remembers.
    if action != "sell":
        assert names((await smithy.drop(name))["items"]) == expected - {name}
    await smithy.end()
