"""Calls and reads of characters whose last step is still to come, whatever happens between two of their commands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.mongo.faults import Crash
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.game.world import character_edits, character_reads, equipment, locations, room_actions
from portico.resolvers.game.world.characters import CHARACTERS, listing
from portico.resolvers.game.world.locations import LOCATIONS, keeper_key
from portico.resolvers.game.world.room_turns import entry_of
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import finish_turns
from portico.schema.game.game_masters import GAME_MASTER
from tests.game.support.players import acting_for
from tests.game.support.scene import assert_settled
from tests.game.support.smithy import Smithy, names
from tests.game.support.world import add_character, character_id
from tests.support.documents import stored
from tests.support.harness import Commands, GatewayClient
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


async def crash_in(smithy: Smithy, call: Call, action: Callable[[], Awaitable[object]] = crash) -> None:
    """Picks up the sword. Then the call crashes before it sends the last step."""
    db = await pick_up_before(smithy, call, action)
    with pytest.raises(Crash):
        await call(smithy, db=db)


async def require_ended(smithy: Smithy) -> None:
    await smithy.rooms.close()
    character = await smithy.stored()
    assert "action" not in character
    assert names(character["items"]) == {"sword", "dagger"}
    await assert_settled(smithy.db)


@pytest.mark.parametrize("call", CALLS)
async def test_a_last_step_arrives_although_the_call_that_sends_it_fails(smithy: Smithy, call: Call) -> None:
    await crash_in(smithy, call)

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
    await crash_in(smithy, call)

    after = await smithy.buy("helmet")

    assert names(after["items"]) == {"sword", "dagger", "helmet"}
    await smithy.end()


@pytest.mark.parametrize("call", CALLS)
async def test_a_last_step_that_arrived_before_the_call_failed_has_no_second_effect(smithy: Smithy, call: Call) -> None:
    async def drop_and_crash() -> None:
        await smithy.drop("sword", rooms=Rooms())
        raise Crash

    await crash_in(smithy, call, drop_and_crash)

    await smithy.end()
    assert names((await smithy.stored())["items"]) == {"dagger"}


@pytest.mark.parametrize("call", [wield, put_in])
async def test_a_room_forgets_a_turn_whose_last_step_another_call_has_sent(smithy: Smithy, call: Call) -> None:
    bob = await add_character(smithy.db, "bob", smithy.room, gold=100)
    await pick_up(smithy)
    await call(smithy)
    others = acting_for(smithy.db, smithy.rooms, bob, smithy.clock, owner="bob")

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


PAGE = """query ($after: String) { characters(first: 1, after: $after) {
    nodes { name inventory { name } } pageInfo { endCursor hasNextPage } } }"""


@pytest.fixture
def before_rooms(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Awaitable[object]]], list[bool]]:
    """Returns a function that lets something happen after a read of characters and before that of their rooms, once.

    It returns a list that is not empty when it has happened.
    """
    real = locations.find_by_ids

    def happens(action: Callable[[], Awaitable[object]]) -> list[bool]:
        happened: list[bool] = []

        async def find_by_ids(
            db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
        ) -> Mapping[ObjectId, Document]:
            if not happened:
                happened.append(True)
                await action()
            return await real(db, ids, projection)

        monkeypatch.setattr(locations, "find_by_ids", find_by_ids)
        return happened

    return happens


async def older_character(smithy: Smithy) -> Document:
    """Adds Bob, who comes after Ann in the list of all characters."""
    bob = await add_character(smithy.db, "bob", smithy.room)
    older = (await smithy.stored())["created_at"] - timedelta(days=1)
    await smithy.db[CHARACTERS.name].update_one({"_id": bob["_id"]}, {"$set": {"created_at": older}})
    return bob


async def test_a_page_with_a_row_that_is_read_again_leads_to_the_next_page(
    gateway: GatewayClient, smithy: Smithy, before_rooms: Any
) -> None:
    bob = await older_character(smithy)
    await smithy.pick_up("sword")

    ended = before_rooms(smithy.settle)
    token = gateway.token("gm", [GAME_MASTER])

    page = (await gateway.data(PAGE, token=token))["characters"]
    following = (await gateway.data(PAGE, {"after": page["pageInfo"]["endCursor"]}, token=token))["characters"]

    assert ended
    assert names(page["nodes"][0]["inventory"]) == {"sword", "dagger"}
    assert [one["name"] for one in following["nodes"]] == [bob["name"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "query ($id: ID!) { character(id: $id) { name gold inventory { name } location { name } } }",
            {"character": None},
        ),
        ("{ viewer { characters { name gold location { name } } } }", {"viewer": {"characters": []}}),
    ],
    ids=["by its id", "among those of its player"],
)
async def test_a_character_that_is_deleted_between_two_reads_is_not_shown(
    gateway: GatewayClient, smithy: Smithy, before_rooms: Any, text: str, expected: Any
) -> None:
    await smithy.pick_up("sword")
    deleted = before_rooms(lambda: character_edits.delete_character(smithy.acting()))

    answer = await gateway.data(text, {"id": character_id(smithy.ann)}, token=gateway.token("ann"))

    assert deleted
    assert answer == expected


@pytest.mark.parametrize("projection", [None, {"name": 1, "gold": 1}])
async def test_a_page_whose_only_row_is_deleted_leads_to_the_next_page(
    smithy: Smithy, before_rooms: Any, projection: Projection | None
) -> None:
    bob = await older_character(smithy)
    await smithy.pick_up("sword")
    deleted = before_rooms(lambda: character_edits.delete_character(smithy.acting()))

    [page] = await character_reads.find_pages(smithy.db, [listing()], projection=projection, first=1, after=None)
    [following] = await character_reads.find_pages(
        smithy.db, [listing()], projection=projection, first=1, after=page.end
    )

    assert deleted
    assert (page.documents, page.has_next) == ([], True)
    assert [one["_id"] for one in following.documents] == [bob["_id"]]


@pytest.mark.parametrize(
    ("projection", "more"),
    [
        ({"name": 1, "gold": 1}, {"characters.gold"}),
        ({"items.name": 1}, {"characters.took"}),
        ({"location.name": 1, "gold": 1}, {"characters.gold", "items", "keepers.name"}),
    ],
)
async def test_a_read_fetches_no_more_of_a_room_than_it_shows(
    smithy: Smithy, monkeypatch: pytest.MonkeyPatch, projection: Projection, more: set[str]
) -> None:
    await smithy.pick_up("sword")
    read: list[Projection | None] = []
    real = locations.find_by_ids

    async def find_by_ids(db: Database, ids: Sequence[ObjectId], of_rooms: Projection | None = None) -> Any:
        read.append(of_rooms)
        return await real(db, ids, of_rooms)

    monkeypatch.setattr(locations, "find_by_ids", find_by_ids)
    whole = await smithy.shown()

    found = await character_reads.find_by_ids(smithy.db, [smithy.ann["_id"]], projection)

    shown: Document = dict(found[smithy.ann["_id"]])
    assert len(shown.get("items", whole["items"])) == len(whole["items"])
    assert {name: shown[name] for name in ("gold", "location") if name in shown}.items() <= whole.items()
    paths = set(read[-1] or ())
    every = {"characters.gold", "characters.took", "items", "keepers.name", "keepers", "characters", "keepers.items"}
    assert paths & every == more


async def test_a_turn_that_is_over_says_nothing_of_the_next_turn(smithy: Smithy, commands: Commands) -> None:
    await smithy.pick_up("sword")
    [entry] = (await smithy.settle())["characters"]
    await smithy.buy("helmet", rooms=Rooms(settler=smithy.settler))
    [following] = (await smithy.forgotten())["characters"]
    commands.clear()

    shown = await smithy.shown()

    # A gateway of any version copies what the entry says besides.
    assert following["over"] == entry["over"]
    assert names(shown["items"]) == {"sword", "dagger", "helmet"}
    assert commands.names() == ["find game.characters", "find game.locations"]
    await smithy.end()
