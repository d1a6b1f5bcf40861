"""Stores the rooms, things and shopkeepers of a small world, and creates characters in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.items import POUND
from portico.schema.kinds import Kind
from portico.testing.kits import mutation_text
from tests.game.support.machine import Machine, State, owner_of
from tests.game.support.model import FLOOR, STOCK, Keeper, Place, Thing, World
from tests.game.support.world import add_room, item, keeper
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, SettableClock

CREATE = mutation_text(SCHEMA._schema, "createCharacter", "... on CharacterPayload { character { id } }")
# Buys everything of some kinds at half of the cost.
ANY_KEEPER = Keeper("", ("WEAPON", "ARMOR", "CONTAINER"), asks=100, pays=50)


def thing_item(name: str, thing: Thing, **fields: Any) -> Document:
    return item(
        name,
        weight=round(thing.weight * POUND),
        cost=thing.cost,
        kind=thing.kind,
        regions=list(thing.regions),
        hands=thing.hands,
        capacity=None if thing.capacity is None else round(thing.capacity * POUND),
        **fields,
    )


async def store(db: Database, world: World, *, start: str) -> dict[str, str]:
    """Stores new rooms with their keepers and things, and removes all others. Returns the global ids, by name."""
    setting = world.setting
    for collection in ("game.characters", "game.locations"):
        await db[collection].delete_many({})
    rooms = {name: ObjectId() for name in setting.exits}
    things = {name: ObjectId() for name in setting.things}
    ids = {name: Kind.encode_id("Location", key) for name, key in rooms.items()}
    ids |= {name: Kind.encode_id("Item", key) for name, key in things.items()}

    def stored(place: Place) -> list[Document]:
        names = [name for top in world.at(place) for name in world.tree(top)]
        inside = {name: things.get(world.places[name][1]) for name in names}
        return [thing_item(name, setting.things[name], _id=things[name], inside=inside[name]) for name in names]

    for name, key in rooms.items():
        here = [one for one, facts in setting.keepers.items() if facts.room == name]
        ids |= {one: Kind.encode_id("Character", f"{key}.{number}") for number, one in enumerate(here)}
        await add_room(
            db,
            name,
            _id=key,
            exits=[{"direction": one, "to": rooms[to]} for one, to in setting.exits[name].items()],
            items=stored((FLOOR, name)),
            keepers=[
                model_keeper(number, one, setting.keepers[one], world.gold[one], stored((STOCK, one)))
                for number, one in enumerate(here)
            ],
            **({"start": 0} if name == start else {}),
        )
    return ids


def model_keeper(number: int, name: str, facts: Keeper, gold: int, items: Iterable[Document]) -> Document:
    """The shopkeeper of the model with this gold and these wares."""
    trade = {"buys": list(facts.buys), "asks": facts.asks, "pays": facts.pays}
    return keeper(name, *items, number=number, gold=gold, initial_gold=gold, **trade)


async def enter(gateway: GatewayClient, name: str, strength: int) -> str:
    """Creates a character of an owner of its own. Returns its global id."""
    given: dict[str, Any] = {"name": name, "characterClass": "Thief", "intrinsics": {"strength": strength}}
    answer = await gateway.data(CREATE, {"input": given}, token=gateway.token(owner_of(name), []))
    result = answer["createCharacter"]
    assert result["__typename"] == "CharacterPayload", result
    return str(result["character"]["id"])


async def machine_of(gateway: GatewayClient, clock: SettableClock, world: World, *, start: str) -> Machine:
    """Stores the world, whose characters are new ones in the room `start`. Returns a machine of them."""
    ids = await store(gateway.db, world, start=start)
    ids |= {name: await enter(gateway, name, strength) for name, strength in world.setting.strength.items()}
    return Machine(gateway, clock, world.setting, ids, [State(world)])
