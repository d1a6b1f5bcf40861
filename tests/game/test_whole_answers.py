"""An answer shows a character and its room as they were together: each item once, and what the call has done."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.documents import Document
from portico.resolvers.game.world.rooms import Rooms
from tests.game.support.doing import do
from tests.game.support.world import add_character, add_room, character_id, item, item_ids
from tests.support.documents import stored
from tests.support.harness import IS_SOAK, GatewayClient, SettableClock, assert_invariants, new_key, running
from tests.support.interruptions import crashing, database_of, delayed

ROUNDS = 40 if IS_SOAK else 3
CALLS = 6


@pytest.fixture
async def other(settings: Settings, clock: SettableClock) -> AsyncIterator[GatewayClient]:
    async with running(settings, clock=clock) as other:
        yield other


def ids_of(found: list[dict[str, Any]]) -> list[str]:
    return [one["id"] for item in found for one in (item, *(item["contents"] or []))]


def assert_whole(result: dict[str, Any], every: list[str], kind: str, moved: str) -> None:
    """Each item is in the inventory or on the floor, and the item of the call where the call has put it."""
    assert result["__typename"] == "CharacterPayload", result
    character = result["character"]
    carried, floor = ids_of(character["inventory"]), ids_of(character["location"]["inventory"])
    assert sorted([*carried, *floor]) == sorted(every), kind
    assert moved in (floor if kind in ("drop", "putIn") else carried), kind


def calls_of(room: Document, me: Document) -> list[tuple[str, str, dict[str, str]]]:
    """Returns six calls, each with an item of its own: the mutation, the item, and the rest of the input."""
    floor = {one["name"]: one for one in room["items"]}
    mine = {one["name"]: one for one in me["items"]}
    (chest,) = item_ids([floor["chest"]])
    names = [
        ("pickUp", floor["lamp"], {}),
        ("pickUp", floor["rope"], {}),
        ("takeOut", floor["coin"], {"containerId": chest}),
        ("drop", mine["pear"], {}),
        ("putIn", mine["ring"], {"containerId": chest}),
        ("wear", mine["hat"], {"region": "HEAD"}),
    ]
    return [(kind, item_ids([one])[0], given) for kind, one, given in names]


async def add_scene(gateway: GatewayClient) -> tuple[Document, Document]:
    chest = item("chest", capacity=10_000)
    floor = [item("lamp"), item("rope"), chest, item("coin", inside=chest["_id"])]
    mine = [item("pear"), item("ring"), item("hat", kind="ARMOR", regions=["HEAD"])]
    room = await add_room(gateway.db, "Temple", items=floor)
    return room, await add_character(gateway.db, "ann", room, items=mine)


@pytest.mark.parametrize("seed", range(ROUNDS))
async def test_answers_of_parallel_calls_of_one_character_at_two_gateways_are_whole(
    gateway: GatewayClient, other: GatewayClient, seed: int
) -> None:
    rng = random.Random(seed)
    room, me = await add_scene(gateway)
    every = item_ids([*room["items"], *me["items"]])
    calls = calls_of(room, me)
    rng.shuffle(calls)

    async def act(at: GatewayClient, key: str, kind: str, moved: str, given: dict[str, str]) -> None:
        given = {**given, "characterId": character_id(me), "itemId": moved, "idempotencyKey": key}
        assert_whole(await do(at, kind, **given), every, kind, moved)

    keys = [new_key() for _ in calls]

    with (
        database_of(gateway, delayed(gateway.state.database, rng, 0.01)),
        database_of(other, delayed(other.state.database, rng, 0.01)),
    ):
        ats = itertools.cycle((gateway, other))
        await asyncio.gather(*(act(next(ats), key, *call) for key, call in zip(keys, calls, strict=True)))
    # Stored answers, at the other gateway.
    for key, call in zip(keys, calls, strict=True):
        await act(other, key, *call)

    await assert_invariants(gateway)


@pytest.mark.parametrize("changes", [2, 3, 4])
async def test_a_repeated_call_whose_process_died_before_the_copies_were_refreshed_is_whole(
    gateway: GatewayClient, other: GatewayClient, clock: SettableClock, changes: int
) -> None:
    room, me = await add_scene(gateway)
    friend = await add_character(gateway.db, "bob", room)
    kind, moved, given = calls_of(room, me)[0]
    given = {**given, "characterId": character_id(me), "itemId": moved, "idempotencyKey": new_key()}
    with crashing(gateway, changes):
        text = "mutation ($input: ItemInput!) { pickUp(input: $input) { __typename } }"
        await gateway.ask(text, {"input": given}, token=gateway.token("ann"))
    gateway.state.resources[Rooms] = Rooms()
    clock.advance(seconds=31)

    result = await do(other, kind, **given)

    assert_whole(result, item_ids([*room["items"], *me["items"]]), kind, moved)
    # The copies of others are current before the answer.
    seen = await stored(gateway.db, "game.characters", friend)
    assert moved not in item_ids(seen["location"]["items"])
