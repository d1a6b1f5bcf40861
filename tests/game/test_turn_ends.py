"""A call is answered when the room has decided, and the character gets the outcome a moment later."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable

import pytest

from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.gateway.settings import Settings
from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.game.world import equipment
from portico.resolvers.game.world.action_refusals import ItemGone
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import finish_turns
from portico.resolvers.game.world.turns import help_along
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.scene import assert_settled, assert_sound
from tests.game.support.smithy import Smithy, names
from tests.game.support.world import character_id, keeper_id
from tests.support.harness import IS_SOAK, Commands, GatewayClient, SettableClock, running
from tests.support.interruptions import delayed, interrupted
from tests.support.kept_answers import caching, follow_changes, keep

STEPS = 400 if IS_SOAK else 30


@pytest.mark.parametrize("action", ["pick_up", "drop", "buy", "sell"])
async def test_a_call_is_answered_before_the_character_gets_the_outcome(smithy: Smithy, action: str) -> None:
    name = {"pick_up": "sword", "buy": "helmet"}.get(action, "dagger")

    answered = await getattr(smithy, action)(name)

    assert (await smithy.stored())["action"]["turn"] == answered["turn"] == smithy.ann["turn"] + 1
    await assert_sound(smithy.db)
    shown = await smithy.shown()
    await smithy.end()
    stored = await smithy.stored()
    assert answered == stored
    # Nobody sees the marks.
    assert shown == {**stored, "applied": smithy.ann["applied"]}
    assert stored["location"]["version"] == (await smithy.forgotten())["version"]


async def test_a_refusal_is_answered_before_the_character_has_its_things_again(smithy: Smithy) -> None:
    await smithy.db[LOCATIONS.name].update_one(
        {"_id": smithy.room["_id"]}, {"$set": {"keepers.0.gold": 0, "keepers.0.initial_gold": 0}}
    )
    await smithy.rooms.glance(smithy.db, smithy.room["_id"])

    with pytest.raises(Exception, match="gold"):
        await smithy.sell("dagger")

    assert (await smithy.stored())["items"] == []
    assert names((await smithy.shown())["items"]) == {"dagger"}
    assert names((await smithy.drop("dagger"))["location"]["items"]) == {"sword", "dagger"}
    await smithy.end()


async def test_every_query_shows_what_the_room_has_decided(gateway: GatewayClient, clock: SettableClock) -> None:
    smithy = await Smithy.of(gateway.db, clock)
    faulty, crashing_db = FaultyDatabase.around(gateway.db, 2)
    with pytest.raises(Crash):
        await smithy.pick_up("sword", rooms=Rooms(), db=crashing_db)
    assert faulty.has_crashed
    shown = "gold inventory { name } location { inventory { name } }"
    mine = f"id name {shown}"
    text = f"""query ($id: ID!, $room: ID!) {{
        character(id: $id) {{ {mine} }} node(id: $id) {{ ... on Character {{ {mine} }} }}
        viewer {{ characters {{ {mine} }} }} characters(locationId: $room) {{ nodes {{ {mine} }} }} }}"""
    given = {"id": character_id(smithy.ann), "room": keeper_id(smithy.room)}
    given["room"] = (await gateway.data("query ($id: ID!) { character(id: $id) { location { locationId } } }", given))[
        "character"
    ]["location"]["locationId"]

    found = await gateway.data(text, given, token=gateway.token("ann", [GAME_MASTER]))

    everywhere = [found["character"], found["node"], *found["viewer"]["characters"], *found["characters"]["nodes"]]
    assert len(everywhere) == 4
    for one in everywhere:
        assert names(one["inventory"]) == {"sword", "dagger"}
        assert one["location"]["inventory"] == []
    assert "action" in await smithy.stored()


async def test_a_character_whose_turn_ends_between_two_reads_is_read_again(smithy: Smithy) -> None:
    await smithy.pick_up("sword")

    async def end_and_forget() -> None:
        [entry] = (await smithy.settle())["characters"]
        assert (entry["took"], entry["over"]) == ([], entry["turn"])

    late = interrupted(smithy.db, LOCATIONS.name, "find", end_and_forget)

    assert names((await smithy.shown(late))["items"]) == {"sword", "dagger"}


async def test_what_the_room_has_not_decided_is_not_shown(smithy: Smithy) -> None:
    await smithy.pick_up("sword")
    await smithy.settle()
    _, crashing_db = FaultyDatabase.around(smithy.db, 1)
    with pytest.raises(Crash):
        await smithy.buy("helmet", rooms=Rooms(), db=crashing_db)

    shown = await smithy.shown()

    # The entry says that an earlier turn is over, and nothing of this one.
    assert names(shown["items"]) == {"sword", "dagger"}
    assert shown["action"]["turn"] == shown["turn"]


CHARACTER = "character(id: $id) { inventory { name } location { inventory { name } } }"


async def test_a_live_query_shows_the_decision_and_each_item_once(gateway: GatewayClient, smithy: Smithy) -> None:
    given = {"id": character_id(smithy.ann)}
    async with gateway.as_caller("ann").subscription(f"query ($id: ID!) @live {{ {CHARACTER} }}", given) as answers:
        seen = (await anext(answers))["character"]
        await smithy.pick_up("sword")
        for _ in range(5):
            carried, floor = names(seen["inventory"]), names(seen["location"]["inventory"])
            assert sorted([*carried, *floor]) == ["dagger", "sword"]
            if "sword" in carried:
                break
            seen = (await anext(answers))["character"]
        assert "sword" in names(seen["inventory"])
        assert "action" in await smithy.stored()
    await smithy.end()


@pytest.mark.usefixtures("patient")
async def test_a_kept_answer_is_no_older_than_the_decision(
    settings: Settings, clock: SettableClock, smithy: Smithy
) -> None:
    query, given = f"query ($id: ID!) {{ {CHARACTER} }}", {"id": character_id(smithy.ann)}
    async with running(caching(settings), clock=clock) as cached:
        await follow_changes(cached)

        async def keeps(expected: set[str]) -> None:
            """Checks the next answer, and one that is kept."""
            now, kept = await cached.data(query, given, token=ann), await keep(cached, query, given, token=ann)
            assert [names(one["character"]["inventory"]) for one in (now, kept)] == [expected, expected]

        ann = cached.token("ann", [])
        await keeps({"dagger"})
        await smithy.pick_up("sword")
        await keeps({"sword", "dagger"})
        assert "action" in await smithy.stored()
        await smithy.drop("dagger")
        await keeps({"sword"})
        await smithy.settler.settled(smithy.db)
        await keeps({"sword"})
    await smithy.end()


async def test_the_next_turn_takes_the_last_step_of_the_former_one_along(smithy: Smithy, commands: Commands) -> None:
    await smithy.pick_up("sword")
    commands.clear()

    bought = await smithy.buy("helmet")
    sold = await smithy.sell("dagger")
    dropped = await smithy.drop("sword")

    assert commands.names() == ["update game.characters", "update game.locations"] * 3
    assert bought["gold"] == 80
    assert sold["gold"] == 85
    assert names(dropped["items"]) == {"helmet"}
    commands.clear()
    await smithy.settler.settled(smithy.db)
    assert commands.names() == ["update game.characters"]
    assert await smithy.stored() == dropped
    await smithy.end()


async def test_an_action_without_the_room_follows_the_last_step(smithy: Smithy) -> None:
    await smithy.pick_up("sword")

    wielded = await equipment.wield(smithy.acting(), item_id=smithy.things["dagger"], hand="LEFT")

    assert names(wielded["items"]) == {"sword", "dagger"}
    assert wielded["weapons"] == {"LEFT": smithy.things["dagger"]}
    await smithy.end()


async def test_nobody_else_acts_for_the_character_whose_last_step_waits(smithy: Smithy) -> None:
    await smithy.pick_up("sword")

    with pytest.raises(NotFound):
        await smithy.drop("sword", owner="bob")

    assert names((await smithy.stored())["items"]) == {"sword", "dagger"}
    await smithy.end()


@pytest.mark.parametrize("is_ended", [True, False])
async def test_a_last_step_that_another_process_has_taken_is_not_taken_twice(smithy: Smithy, *, is_ended: bool) -> None:
    await smithy.pick_up("sword")
    if is_ended:
        await help_along(smithy.db, Rooms(), smithy.ann["_id"])
    else:
        await smithy.drop("sword", rooms=Rooms())
        await smithy.pick_up("sword", rooms=Rooms())

    after = await smithy.buy("helmet")

    assert names(after["items"]) == {"sword", "dagger", "helmet"}
    await smithy.end()
    assert names((await smithy.stored())["items"]) == {"sword", "dagger", "helmet"}


async def test_a_last_step_that_fails_is_left_to_the_job(smithy: Smithy) -> None:
    _, crashing_db = FaultyDatabase.around(smithy.db, 2)
    await smithy.pick_up("sword", db=crashing_db)
    await smithy.rooms.close()
    assert "action" in await smithy.stored()
    smithy.clock.advance(seconds=6)

    await finish_turns(smithy.db, Rooms(), now=smithy.clock.now())

    assert names((await smithy.stored())["items"]) == {"sword", "dagger"}
    await assert_settled(smithy.db)


async def test_the_marks_of_many_turns_that_take_each_other_along_stay_few(
    smithy: Smithy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("portico.resolvers.writes.marks._MARKS_KEPT", 4)

    for _ in range(10):
        await smithy.pick_up("sword")
        dropped = await smithy.drop("sword")

    assert len(dropped["applied"]) < 9
    await smithy.end()
    assert len((await smithy.stored())["applied"]) < 9


Act = Callable[[Smithy, Rooms, Database], Awaitable[Document]]


@pytest.mark.parametrize("seed", range(2))
async def test_every_answer_and_every_read_shows_each_item_once(gateway: GatewayClient, seed: int) -> None:
    """One player acts at random, at two gateways, while others read. Whatever is read is what an answer has told."""
    rng = random.Random(seed)
    smithy = await Smithy.of(gateway.db, gateway.clock)
    processes = [Rooms(settler=smithy.settler) for _ in range(2)]
    slow = delayed(gateway.db, rng, 0.004)
    is_over = asyncio.Event()
    reads = 0

    async def read() -> None:
        nonlocal reads
        while not is_over.is_set():
            shown = await smithy.shown(slow)
            found = [one["_id"] for one in (*shown["items"], *shown["location"]["items"])]
            assert len(found) == len(set(found)), found
            reads += 1

    async def play() -> None:
        try:
            for _ in range(STEPS):
                name, rooms = rng.choice(["sword", "dagger"]), rng.choice(processes)
                act = rng.choice([smithy.pick_up, smithy.drop])
                try:
                    answered = await act(name, rooms=rooms, db=slow)
                except ItemGone:
                    continue
                shown = await smithy.shown()
                assert shown["items"] == answered["items"]
                assert names(shown["items"]) | names(shown["location"]["items"]) == {"sword", "dagger"}
                if rng.random() < 0.2:
                    await asyncio.sleep(rng.random() * 0.05)
        finally:
            is_over.set()

    await asyncio.gather(play(), read(), read())

    assert reads > STEPS / 4
    for rooms in processes:
        await rooms.close()
    await smithy.end()
    await smithy.settler.close()
