"""`locationChanged`, `characterChanged` and `tradeChanged` deliver what players see. The last state always arrives."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from bson import ObjectId

from portico.gateway.settings import Settings
from portico.loaders.batching import BatchRead
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.game.world.locations import LocationDocument
from portico.schema.game.game_masters import GAME_MASTER
from portico.schema.game.world import events, locations
from portico.schema.kinds import Kind
from tests.game.support.stacks import call, do, give, goods, keyed, offer
from tests.game.support.world import (
    add_character,
    add_room,
    change_room,
    character_id,
    item,
    item_ids,
    keeper,
    keeper_id,
    room_id,
)
from tests.support.harness import GatewayClient, running
from tests.support.refused_streams import refused
from tests.support.sockets import streamed, until

CHANGED = """subscription ($id: ID!) { locationChanged(id: $id) {
  description characters { name } inventory { name } } }"""


async def rewrite(db: Database, room: Document, text: str, **fields: Any) -> None:
    """Changes what players see of the room."""
    await change_room(db, room, {"$set": {"description": text, **fields}, "$inc": {"version": 1}})


async def description(subscription: Any) -> str:
    return str((await anext(subscription))["locationChanged"]["description"])


async def test_subscribers_see_who_and_what_comes_and_goes(gateway: GatewayClient, db: Database) -> None:
    room, other = await add_room(db, "Temple"), await add_room(db, "Market")
    async with gateway.subscription(CHANGED, {"id": room_id(room)}) as changed:
        await add_character(db, "bob", other)
        await add_character(db, "ann", room)
        first = (await anext(changed))["locationChanged"]
        await rewrite(db, room, "Now", items=[item("lamp")])
        second = (await anext(changed))["locationChanged"]

    assert first == {"description": "This is the Temple.", "characters": [{"name": "Ann"}], "inventory": []}
    assert second == {"description": "Now", "characters": [{"name": "Ann"}], "inventory": [{"name": "lamp"}]}


async def test_the_version_orders_queries_events_and_the_copies_of_characters(gateway: GatewayClient) -> None:
    lamp = item("lamp")
    room = await add_room(gateway.db, "Temple", items=[lamp])
    me = await add_character(gateway.db, gateway.subject, room)
    await change_room(gateway.db, room, {"$set": {"keepers": [keeper("Smith")]}})
    given = {"room": room_id(room), "keeper": keeper_id(room)}
    query = """query ($room: ID!, $keeper: ID!) {
      location(id: $room) { version }
      character(id: $keeper) { location { version } }
      viewer { characters { location { version } } } }"""

    def numbers(found: Any) -> set[int]:
        mine = found["viewer"]["characters"][0]
        return {one["version"] for one in (found["location"], found["character"]["location"], mine["location"])}

    before = await gateway.data(query, given)
    changed = "subscription ($id: ID!) { locationChanged(id: $id) { version } }"
    async with gateway.subscription(changed, {"id": room_id(room)}) as events_:
        text = """mutation ($input: ItemInput!) { pickUp(input: $input) {
          ... on CharacterPayload { character { location { version } } } } }"""
        item_input = {"characterId": character_id(me), "itemId": item_ids([lamp])[0]}
        answer = await gateway.data(text, {"input": item_input})
        event = await anext(events_)
    after = await gateway.data(query, given)

    (first,), (last,) = numbers(before), numbers(after)
    assert last == first + 1
    assert event["locationChanged"]["version"] == last
    assert answer["pickUp"]["character"]["location"]["version"] == last


async def test_a_write_that_players_cannot_see_delivers_nothing(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple")
    async with gateway.subscription(CHANGED, {"id": room_id(room)}) as changed:
        await change_room(db, room, {"$set": {"gifts_since": None}})
        await rewrite(db, room, "Seen")

        assert await description(changed) == "Seen"
    assert gateway.state.live.counts.events == 1


async def test_a_slow_client_skips_states_and_gets_the_last_one(settings: Settings, db: Database) -> None:
    room = await add_room(db, "Temple")
    writes = 30
    async with (
        running(replace(settings, max_waiting_events=5)) as gateway,
        gateway.subscription(CHANGED, {"id": room_id(room)}) as changed,
    ):
        await rewrite(db, room, "0")
        seen = [int(await description(changed))]
        for number in range(1, writes + 1):
            await rewrite(db, room, str(number))
        await until(lambda: gateway.state.live.counts.events > writes)
        while seen[-1] < writes:
            seen.append(int(await description(changed)))

    assert seen == sorted(set(seen))
    assert len(seen) <= 3


async def test_states_arrive_in_order_and_none_twice_while_many_writers_change_the_room(gateway: GatewayClient) -> None:
    room = await add_room(gateway.db, "Temple")
    count = 60
    async with gateway.subscription(CHANGED, {"id": room_id(room)}) as changed:

        async def drop_things() -> None:
            for _ in range(count // 4):
                await change_room(gateway.db, room, {"$push": {"items": item("coin")}, "$inc": {"version": 1}})

        writers = [asyncio.ensure_future(drop_things()) for _ in range(4)]
        seen = [0]
        while seen[-1] < count:
            seen.append(len((await anext(changed))["locationChanged"]["inventory"]))
        await asyncio.gather(*writers)

    assert seen == sorted(set(seen))


async def test_a_read_that_is_older_than_its_event_is_repeated(
    gateway: GatewayClient, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    room = await add_room(db, "Temple")
    late = 2

    def reading(db: Database, projection: Projection | None) -> BatchRead[Any, LocationDocument]:
        read = locations.LOCATION.read(db, projection)

        async def read_late(keys: Sequence[Any]) -> Mapping[Any, LocationDocument]:
            nonlocal late
            late -= 1
            early: Any = room
            return {early["_id"]: early} if late >= 0 else await read(keys)

        return read_late

    async with gateway.subscription(CHANGED, {"id": room_id(room)}) as changed:
        monkeypatch.setattr(events, "LOCATION", replace(locations.LOCATION, read=reading))
        await rewrite(db, room, "New")

        assert await description(changed) == "New"
    assert late < 0


async def test_equal_subscribers_share_the_work(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple")
    async with contextlib.AsyncExitStack() as stack:
        opened = [gateway.as_caller(f"m{n}").subscription(CHANGED, {"id": room_id(room)}) for n in range(10)]
        subscribers = [await stack.enter_async_context(one) for one in opened]
        gateway.commands.clear()
        await rewrite(db, room, "Changed")
        seen = await asyncio.gather(*map(description, subscribers))

    assert seen == ["Changed"] * 10
    assert gateway.state.live.counts.runs == 1
    assert gateway.commands.names().count("find game.locations") == 1


async def test_an_anonymous_caller_can_watch_a_room(db: Database, port: int) -> None:
    room = await add_room(db, "Temple")
    async with streamed(port, CHANGED, {"id": room_id(room)}, token=None) as stream:
        await rewrite(db, room, "Changed")
        event = await stream.receive()

    assert event is not None
    assert event[1]["data"]["locationChanged"]["description"] == "Changed"


@pytest.mark.parametrize("kind", ["Location", "Character", "Nothing"])
async def test_there_is_nothing_to_watch_in_a_room_that_does_not_exist(
    gateway: GatewayClient, port: int, kind: str
) -> None:
    token = gateway.token("ann", roles=(GAME_MASTER,))
    assert await refused(port, CHANGED, {"id": Kind.encode_id(kind, ObjectId())}, token=token) == ["NOT_FOUND"]


CHARACTER = """subscription ($id: ID!) { characterChanged(id: $id) {
  inventory { name } location { characters { name } inventory { name } } } }"""
TRADE = "subscription { tradeChanged { id state from to } }"


async def test_a_player_gets_the_trades_of_both_directions_when_they_change(gateway: GatewayClient) -> None:
    await give(gateway.db, "mara", "sword", 5)
    async with (
        gateway.as_caller("mara").subscription(TRADE) as maras,
        gateway.as_caller("jonas").subscription(TRADE) as jonas,
    ):
        accepted = await offer(gateway, "mara", "jonas", [goods("sword", 2)])
        for events in (maras, jonas):
            shown = (await anext(events))["tradeChanged"]
            assert (shown["id"], shown["from"], shown["to"]) == (accepted, "mara", "jonas")
        await offer(gateway, "mara", "robin", [goods("sword", 1)])
        assert (await anext(maras))["tradeChanged"]["to"] == "robin"

        await call(gateway, "acceptTrade", "jonas", keyed(id=accepted))
        for events in (maras, jonas):
            shown = (await anext(events))["tradeChanged"]
            assert (shown["id"], shown["state"]) == (accepted, "SETTLED")

        cancelled = await offer(gateway, "mara", "jonas", [goods("sword", 1)])
        await call(gateway, "cancelTrade", "jonas", keyed(id=cancelled))
        for events in (maras, jonas):
            states = [(await anext(events))["tradeChanged"] for _ in range(2)]
            assert [one["id"] for one in states] == [cancelled, cancelled]
            assert states[-1]["state"] == "CANCELLED"


async def test_a_player_sees_actions_gifts_and_who_comes(gateway: GatewayClient, db: Database) -> None:
    room = await add_room(db, "Temple", items=[item("Lamp"), item("Rope")])
    ann, bob = await add_character(db, "ann", room), await add_character(db, "bob", room)
    lamp, rope = item_ids(room["items"])
    async with gateway.as_caller("ann").subscription(CHARACTER, {"id": character_id(ann)}) as changed:

        async def until(inventory: set[str], floor: set[str], others: set[str]) -> None:
            wanted, found = [inventory, floor, others], list[set[str]]()
            # States in between can come, too.
            for _ in range(10):
                shown = (await anext(changed))["characterChanged"]
                location = shown["location"]
                lists = shown["inventory"], location["inventory"], location["characters"]
                found = [{one["name"] for one in rows} for rows in lists]
                if found == wanted:
                    break
            assert found == wanted

        await do(gateway, "pickUp", "ann", characterId=character_id(ann), itemId=lamp)
        await until({"Lamp"}, {"Rope"}, {"Ann", "Bob"})
        await do(gateway, "pickUp", "bob", characterId=character_id(bob), itemId=rope)
        await until({"Lamp"}, set(), {"Ann", "Bob"})
        given = {"itemId": rope, "toId": character_id(ann)}
        await do(gateway, "give", "bob", characterId=character_id(bob), **given)
        await until({"Lamp", "Rope"}, set(), {"Ann", "Bob"})


async def test_nobody_else_can_watch_a_character(gateway: GatewayClient, db: Database, port: int) -> None:
    room = await add_room(db, "Temple", keepers=[keeper("Smith")])
    ann = await add_character(db, "ann", room)
    for key in (character_id(ann), keeper_id(room)):
        assert await refused(port, CHARACTER, {"id": key}, token=gateway.token("bob", [])) == ["NOT_FOUND"]
