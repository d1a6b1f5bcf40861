"""Inputs and failures of the mutations of characters, for the tests that run on every mutation."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from bson import ObjectId

from portico.resolvers.game.world.characters import MAX_CHARACTERS
from portico.resolvers.game.world.locations import MAX_ITEMS
from portico.schema.kinds import Kind
from portico.testing.kits import Failing, Failure
from tests.game.support.scene import Temple, action, add_equipped, add_temple
from tests.game.support.world import add_character, add_room, change_room, character_id, item, item_ids, monks
from tests.support.harness import GatewayClient

Given = dict[str, Any]
Case = Callable[[GatewayClient], Awaitable[tuple[Given, Given]]]
NOBODY = Kind.encode_id("Character", ObjectId())
NO_ITEM = Kind.encode_id("Item", ObjectId())
NOWHERE = Kind.encode_id("Location", ObjectId())
WITH_ITEM = ("pickUp", "drop", "takeOut", "putIn", "wear", "wield", "unequip", "give", "buy", "sell")
NEW = ("createCharacter", "spawnCharacter")
KEEPING = ("moveCharacter", "deleteCharacter")


def _case(mutation: str) -> Case:
    async def case(gateway: GatewayClient) -> tuple[Given, Given]:
        """The same action in two temples. The second one is open to new characters as well."""
        one, other = [await add_temple(gateway.db, gateway.subject, friend) for friend in ("bo", "cy")]
        given, another = action(one, mutation), action(other, mutation)
        return given, {**another, "name": "Another"} if mutation in NEW else another

    return case


CASES: dict[str, Case] = {mutation: _case(mutation) for mutation in (*NEW, "move", *KEEPING, *WITH_ITEM)}


def _in_temple(mutation: str, change: Callable[[Temple], Given]) -> Failing:
    """A failure of an action in the temple, after a change of its input."""

    async def fail(gateway: GatewayClient) -> Failure:
        temple = await add_temple(gateway.db, gateway.subject)
        return Failure({**action(temple, mutation), **change(temple)})

    return fail


async def _too_heavy(gateway: GatewayClient) -> Failure:
    anvil = item("anvil", weight=20_000)
    room = await add_room(gateway.db, "Smithy", items=[anvil])
    me = await add_equipped(gateway.db, gateway.subject, room)
    return Failure({"characterId": character_id(me), "itemId": item_ids([anvil])[0]})


def _after(mutation: str, change: Callable[[GatewayClient, Temple], Awaitable[None]]) -> Failing:
    """A failure of an action after a change of the temple."""

    async def fail(gateway: GatewayClient) -> Failure:
        temple = await add_temple(gateway.db, gateway.subject)
        await change(gateway, temple)
        return Failure(action(temple, mutation))

    return fail


async def _fill_floor(gateway: GatewayClient, temple: Temple) -> None:
    straw = [item("straw", weight=0) for _ in range(MAX_ITEMS)]
    await change_room(gateway.db, temple.room, {"$push": {"items": {"$each": straw}}})


async def _fill_market(gateway: GatewayClient, temple: Temple) -> None:
    await change_room(gateway.db, temple.market, {"$set": {"characters": monks()}})


async def _take_gold(gateway: GatewayClient, temple: Temple) -> None:
    """Leaves the character and the shopkeeper less gold than they need."""
    poor = {"$set": {"gold": 59, "initial_gold": 59}}
    await gateway.db["game.characters"].update_one({"_id": temple.me["_id"]}, poor)
    await change_room(gateway.db, temple.room, {"$set": {"keepers.0.gold": 4, "keepers.0.initial_gold": 4}})


async def _add_characters(gateway: GatewayClient, temple: Temple) -> None:
    """Adds as many characters of the caller and of Eva as a player may have."""
    for owner, number in ((gateway.subject, MAX_CHARACTERS - 1), ("eva", MAX_CHARACTERS)):
        for _ in range(number):
            await add_character(gateway.db, owner, temple.market)


def _use(name: str) -> Callable[[Temple], Given]:
    return lambda temple: {"itemId": temple.items[name]}


# An action with an item that it cannot be done with.
_WRONG: dict[str, Callable[[Temple], Given]] = {
    "pickUp": _use("coin"),
    "drop": _use("knife"),
    "putIn": _use("knife"),
    "wear": _use("pear"),
    "wield": _use("pear"),
    "unequip": _use("pear"),
    "give": _use("knife"),
    "sell": _use("pear"),
}
FAILURES: dict[tuple[str, str], Failing] = {
    ("createCharacter", "InvalidInput"): _in_temple("createCharacter", lambda _: {"name": " "}),
    ("createCharacter", "LimitReached"): _after("createCharacter", _add_characters),
    ("spawnCharacter", "InvalidInput"): _in_temple("spawnCharacter", lambda _: {"owner": " eva"}),
    ("spawnCharacter", "NotFound"): _in_temple("spawnCharacter", lambda _: {"locationId": NOWHERE}),
    ("spawnCharacter", "LimitReached"): _after("spawnCharacter", _add_characters),
    ("deleteCharacter", "LimitReached"): _after("deleteCharacter", _fill_floor),
    ("moveCharacter", "LimitReached"): _after("moveCharacter", _fill_market),
    ("move", "NoSuchExit"): _in_temple("move", lambda _: {"direction": "S"}),
    ("pickUp", "LimitReached"): _too_heavy,
    ("buy", "InsufficientGold"): _after("buy", _take_gold),
    ("sell", "InsufficientGold"): _after("sell", _take_gold),
    **{
        (name, "NotFound"): _in_temple(name, lambda _: {"characterId": NOBODY})
        for name in ("move", *KEEPING, *WITH_ITEM)
    },
    **{(name, "ItemGone"): _in_temple(name, lambda _: {"itemId": NO_ITEM}) for name in WITH_ITEM},
    **{(name, "WrongItem"): _in_temple(name, change) for name, change in _WRONG.items()},
}
# A conflict is temporary. The bounds of rooms and inventories have tests of their own, and some actions cannot reach
# any. Whatever is in a container can be taken out, and a shopkeeper has nothing here that is not for sale.
ELSEWHERE = {
    *((name, "Conflict") for name in CASES),
    *((name, "LimitReached") for name in ("move", *WITH_ITEM) if name != "pickUp"),
    ("takeOut", "WrongItem"),
    ("buy", "WrongItem"),
}
