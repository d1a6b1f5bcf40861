"""A slow and obvious model of the game's world: where everything is, and what each action answers and changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

DONE = "CharacterPayload"
GONE, WRONG, MISSING, LIMIT, POOR = "ItemGone", "WrongItem", "NotFound", "LimitReached", "InsufficientGold"
REGIONS, HANDS = ("HEAD", "HANDS", "FEET", "BODY"), ("LEFT", "RIGHT", "BOTH")
POUNDS_PER_STRENGTH = 15
DEEPEST = 4
# The kind of a place, and the name of the room, character, keeper or container.
Place = tuple[str, str]
FLOOR, CARRIED, STOCK, INSIDE = "floor", "carried", "stock", "inside"


@dataclass(frozen=True)
class Thing:
    """What never changes about an item."""

    weight: float
    cost: int | None
    kind: str
    regions: tuple[str, ...] = ()
    hands: int | None = None
    capacity: int | None = None


@dataclass(frozen=True)
class Keeper:
    room: str
    buys: tuple[str, ...]
    # Percentages of the cost.
    asks: int
    pays: int


@dataclass(frozen=True)
class Setting:
    """What no action changes: the rooms with their exits, the keepers, the strength of characters, and the things."""

    exits: Mapping[str, Mapping[str, str]]
    keepers: Mapping[str, Keeper]
    strength: Mapping[str, int]
    things: Mapping[str, Thing]


@dataclass(frozen=True)
class World:
    """Where everybody and everything is. Worlds with equal content are equal."""

    setting: Setting = field(compare=False, repr=False)
    rooms: Mapping[str, str]
    gold: Mapping[str, int]
    places: Mapping[str, Place]
    equipped: Mapping[str, str] = field(default_factory=dict)

    def at(self, place: Place) -> list[str]:
        """The items that are directly there."""
        return [item for item, found in self.places.items() if found == place]

    def tree(self, item: str) -> Iterator[str]:
        """Yields the item and everything in it."""
        yield item
        for inner in self.at((INSIDE, item)):
            yield from self.tree(inner)

    def outermost(self, item: str) -> Place:
        """The place of the outermost container around the item, or of the item."""
        place = self.places[item]
        return self.outermost(place[1]) if place[0] == INSIDE else place

    def weight(self, item: str) -> float:
        return sum(self.setting.things[one].weight for one in self.tree(item))

    def load(self, character: str) -> float:
        return sum(self.weight(item) for item in self.at((CARRIED, character)))

    def height(self, item: str) -> int:
        """How many levels of items are in this item, itself included."""
        return 1 + max((self.height(inner) for inner in self.at((INSIDE, item))), default=0)

    def depth(self, item: str) -> int:
        """How many containers are around the item."""
        place = self.places[item]
        return 1 + self.depth(place[1]) if place[0] == INSIDE else 0

    def around(self, item: str) -> Iterator[str]:
        """Yields the containers around the item, the innermost first."""
        kind, where = self.places[item]
        if kind == INSIDE:
            yield where
            yield from self.around(where)

    def is_too_full(self, container: str) -> bool:
        held = self.weight(container) - self.setting.things[container].weight
        return held > (self.setting.things[container].capacity or 0)

    def can_carry(self, character: str, item: str) -> bool:
        return self.load(character) + self.weight(item) <= POUNDS_PER_STRENGTH * self.setting.strength[character]

    def moved(self, item: str, kind: str, where: str) -> World:
        return replace(self, places={**self.places, item: (kind, where)})

    def paid(self, source: str, target: str, amount: int) -> World:
        gold = {**self.gold, source: self.gold[source] - amount}
        return replace(self, gold={**gold, target: gold[target] + amount})


@dataclass(frozen=True)
class Call:
    """An action of a character. `target` is an exit, a region, a hand, a container, a keeper or another character."""

    action: str
    actor: str
    item: str = ""
    target: str = ""
    key: str = ""


Outcome = tuple[str, World]


def carried_out(world: World, call: Call) -> Outcome:
    """Returns the type of the answer to the call, and the world after it."""
    return _ACTIONS[call.action](world, call)


def _move(world: World, call: Call) -> Outcome:
    exits = world.setting.exits[world.rooms[call.actor]]
    if call.target not in exits:
        return "NoSuchExit", world
    return DONE, replace(world, rooms={**world.rooms, call.actor: exits[call.target]})


def _pick_up(world: World, call: Call) -> Outcome:
    floor = (FLOOR, world.rooms[call.actor])
    if world.places[call.item] != floor:
        return (WRONG if world.outermost(call.item) == floor else GONE), world
    return _taken(world, call)


def _taken(world: World, call: Call) -> Outcome:
    if not world.can_carry(call.actor, call.item):
        return LIMIT, world
    return DONE, world.moved(call.item, CARRIED, call.actor)


def _hold(world: World, call: Call) -> str | None:
    """Returns why the character cannot let go of the item; None if it can, also out of a container."""
    if world.outermost(call.item) != (CARRIED, call.actor):
        return GONE
    return WRONG if call.item in world.equipped else None


def _drop(world: World, call: Call) -> Outcome:
    if reason := _hold(world, call):
        return reason, world
    return DONE, world.moved(call.item, FLOOR, world.rooms[call.actor])


def _is_in_reach(world: World, call: Call) -> bool:
    """Returns whether the container is carried, or in the room."""
    return world.outermost(call.target) in {(CARRIED, call.actor), (FLOOR, world.rooms[call.actor])}


def _take_out(world: World, call: Call) -> Outcome:
    if not _is_in_reach(world, call) or world.places[call.item] != (INSIDE, call.target):
        return GONE, world
    if world.outermost(call.target) == (CARRIED, call.actor):
        return DONE, world.moved(call.item, CARRIED, call.actor)
    return _taken(world, call)


def _put_in(world: World, call: Call) -> Outcome:
    if reason := _hold(world, call):
        return reason, world
    if call.target in world.tree(call.item):
        return WRONG, world
    if not _is_in_reach(world, call):
        return GONE, world
    after = world.moved(call.item, INSIDE, call.target)
    if any(after.is_too_full(container) for container in after.around(call.item)):
        return LIMIT, world
    if world.depth(call.target) + 1 + world.height(call.item) > DEEPEST:
        return LIMIT, world
    return DONE, after


def _equip(world: World, call: Call) -> Outcome:
    if reason := _hold(world, call):
        return reason, world
    if world.places[call.item] != (CARRIED, call.actor):
        return WRONG, world
    thing = world.setting.things[call.item]
    if call.target in REGIONS:
        if call.target not in thing.regions:
            return WRONG, world
    elif _is_hand_taken(world, call, thing):
        return WRONG, world
    return DONE, replace(world, equipped={**world.equipped, call.item: call.target})


def _is_hand_taken(world: World, call: Call, thing: Thing) -> bool:
    if thing.hands != (2 if call.target == "BOTH" else 1):
        return True
    own = world.at((CARRIED, call.actor))
    taken = {slot for item, slot in world.equipped.items() if item in own and slot in HANDS}
    return bool(taken) if call.target == "BOTH" else bool(taken & {call.target, "BOTH"})


def _unequip(world: World, call: Call) -> Outcome:
    if world.outermost(call.item) != (CARRIED, call.actor):
        return GONE, world
    if call.item not in world.equipped:
        return WRONG, world
    return DONE, replace(world, equipped={item: slot for item, slot in world.equipped.items() if item != call.item})


def _give(world: World, call: Call) -> Outcome:
    if call.target == call.actor:
        return WRONG, world
    if reason := _hold(world, call):
        return reason, world
    if world.rooms[call.target] != world.rooms[call.actor]:
        return MISSING, world
    if not world.can_carry(call.target, call.item):
        return WRONG, world
    return DONE, world.moved(call.item, CARRIED, call.target)


def _buy(world: World, call: Call) -> Outcome:
    keeper = world.setting.keepers[call.target]
    if keeper.room != world.rooms[call.actor]:
        return MISSING, world
    cost = world.setting.things[call.item].cost
    if world.places[call.item] != (STOCK, call.target):
        return GONE, world
    if cost is None or world.at((INSIDE, call.item)):
        return WRONG, world
    price = -(-cost * keeper.asks // 100)
    if world.gold[call.actor] < price:
        return POOR, world
    answer, after = _taken(world, call)
    return answer, after.paid(call.actor, call.target, price) if answer == DONE else world


def _sell(world: World, call: Call) -> Outcome:
    keeper = world.setting.keepers[call.target]
    if keeper.room != world.rooms[call.actor]:
        return MISSING, world
    if reason := _hold(world, call):
        return reason, world
    thing = world.setting.things[call.item]
    if thing.cost is None or thing.kind not in keeper.buys or world.at((INSIDE, call.item)):
        return WRONG, world
    price = thing.cost * keeper.pays // 100
    if world.gold[call.target] < price:
        return POOR, world
    return DONE, world.moved(call.item, STOCK, call.target).paid(call.target, call.actor, price)


_ACTIONS: Mapping[str, Callable[[World, Call], Outcome]] = {
    "move": _move,
    "pickUp": _pick_up,
    "drop": _drop,
    "takeOut": _take_out,
    "putIn": _put_in,
    "wear": _equip,
    "wield": _equip,
    "unequip": _unequip,
    "give": _give,
    "buy": _buy,
    "sell": _sell,
}


def shown_character(world: World, name: str) -> dict[str, Any]:
    """Returns what the character's owner sees of it, by the names of the model."""
    own = world.at((CARRIED, name))
    worn = {slot: sorted(item for item in own if world.equipped.get(item) == slot) for slot in (*REGIONS, *HANDS)}
    return {"gold": world.gold[name], "room": shown_room(world, world.rooms[name]), "items": _shown(world, own), **worn}


def shown_room(world: World, room: str) -> dict[str, Any]:
    """Returns what everybody sees of the room, by the names of the model."""
    here = sorted(name for name, where in world.rooms.items() if where == room)
    return {"name": room, "characters": here, "items": _shown(world, world.at((FLOOR, room)))}


def _shown(world: World, items: list[str]) -> dict[str, Any]:
    return {item: _shown(world, world.at((INSIDE, item))) for item in items}
