"""Players who act at random, with crashes anywhere, beside the worlds that the answers allow."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st

from portico.gateway.mongo.faults import Crash
from portico.schema.game.game_masters import GAME_MASTER
from portico.testing.crashes import RECOVERY_SECONDS
from portico.testing.kits import mutation_text
from tests.game.support.model import (
    CARRIED,
    DONE,
    FLOOR,
    HANDS,
    INSIDE,
    REGIONS,
    STOCK,
    Call,
    Place,
    Setting,
    World,
    carried_out,
    shown_character,
    shown_room,
)
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, SettableClock
from tests.support.interruptions import crashing

# The most crashes that may be unsettled at once: each multiplies the number of possible worlds.
MAX_CRASHES = 3
_numbers = itertools.count()
_ITEM = "id contents { id contents { id contents { id contents { id } } } }"
_ROOM = f"locationId characters {{ characterId }} inventory {{ {_ITEM} }}"
CHARACTER = (
    f"id gold inventory {{ {_ITEM} }} location {{ {_ROOM} }} armor {{ head {{ id }} hands {{ id }} feet {{ id }} "
    "body { id } } weapons { left { id } right { id } both { id } }"
)
LOCATION = _ROOM.replace("locationId", "id", 1)
ACTIONS = ("move", "pickUp", "drop", "takeOut", "putIn", "wear", "wield", "unequip", "give", "buy", "sell")
MUTATIONS = {
    action: mutation_text(SCHEMA._schema, action, f"... on CharacterPayload {{ character {{ {CHARACTER} }} }}")
    for action in ACTIONS
}
# The field of the input that has the target, and whether the target is an object with an id.
_TARGETS = {
    "move": ("direction", False),
    "wear": ("region", False),
    "wield": ("hand", False),
    "takeOut": ("containerId", True),
    "putIn": ("containerId", True),
    "give": ("toId", True),
    "buy": ("shopkeeperId", True),
    "sell": ("shopkeeperId", True),
}


@dataclass(frozen=True)
class Step:
    """The next step, as choices among what exists by then. `wish` picks a call that the model allows, if it is even."""

    name: str
    action: str
    actor: int
    item: int
    target: int
    wish: int
    stop: int


_SOME = st.integers(0, 99)
STEPS = st.builds(
    Step,
    name=st.sampled_from(["act", "act", "act", "crash", "crash", "repeat", "jobs", "crash jobs"]),
    action=st.sampled_from(ACTIONS),
    actor=_SOME,
    item=_SOME,
    target=_SOME,
    wish=_SOME,
    stop=st.integers(0, 9),
)


@dataclass(frozen=True)
class State:
    """A world that is possible, and the crashed calls that have had their effect in it."""

    world: World
    applied: frozenset[str] = frozenset()

    def after(self, call: Call) -> State | None:
        """The state after the call; None if the call is refused, or has had its effect."""
        answer, world = carried_out(self.world, call)
        if answer != DONE or call.key in self.applied:
            return None
        return State(world, self.applied | {call.key})


@dataclass
class Machine:
    """A gateway, and the states that its world may be in. `ids` has the global ids of everything, by name."""

    gateway: GatewayClient
    clock: SettableClock
    setting: Setting
    ids: dict[str, str]
    possible: list[State]
    crashed: list[Call] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.names = {global_id: name for name, global_id in self.ids.items()}

    async def take(self, step: Step) -> None:
        if step.name == "repeat":
            await self._repeat(step)
        elif step.name == "jobs":
            await self.settle()
        elif step.name == "crash jobs":
            await self._crash_jobs(step)
        elif step.name == "crash" and len(self.crashed) < MAX_CRASHES:
            await self._crash(step)
        else:
            call = self.next_call(step)
            self.learn(call, await self.ask(call))

    def next_call(self, step: Step) -> Call:
        actor = sorted(self.setting.strength)[step.actor % len(self.setting.strength)]
        key = f"key-{next(_numbers)}"
        calls = [
            Call(step.action, actor, item, target, key)
            for item in ([""] if step.action == "move" else sorted(self.setting.things))
            for target in self._targets(step.action)
        ]
        allowed = [call for call in calls if carried_out(self.possible[0].world, call)[0] == DONE]
        chosen = allowed if allowed and step.wish % 4 else calls
        return chosen[(step.item * 17 + step.target) % len(chosen)]

    def _targets(self, action: str) -> list[str]:
        setting = self.setting
        targets = {
            "move": ["N", "S", "E"],
            "takeOut": sorted(item for item in setting.things if setting.things[item].capacity is not None),
            "wear": list(REGIONS),
            "wield": list(HANDS),
            "give": sorted(setting.strength),
            "buy": sorted(setting.keepers),
        }
        targets |= {"putIn": targets["takeOut"], "sell": targets["buy"]}
        return targets.get(action, [""])

    async def ask(self, call: Call) -> Any:
        answer = await self.gateway.data(MUTATIONS[call.action], self.given(call), token=self.token(call.actor))
        return answer[call.action]

    def given(self, call: Call) -> dict[str, Any]:
        given = {"characterId": self.ids[call.actor], "itemId": self.ids.get(call.item), "idempotencyKey": call.key}
        if call.action == "move":
            del given["itemId"]
        if call.action in _TARGETS:
            field, has_id = _TARGETS[call.action]
            given[field] = self.ids.get(call.target) if has_id else call.target
        return {"input": given}

    def token(self, character: str) -> str:
        return self.gateway.token(owner_of(character), [])

    def _close(self) -> None:
        """Adds the states in which crashed calls have had their effect by now: anybody may finish them at any time."""
        for _ in self.crashed:
            found = [after for state in self.possible for call in self.crashed if (after := state.after(call))]
            self.possible = unique([*self.possible, *found])

    def learn(self, call: Call, result: dict[str, Any]) -> None:
        """Drops the states that contradict the answer."""
        answer = result["__typename"]
        self._close()
        outcomes = [(state, *carried_out(state.world, call)) for state in self.possible]
        if answer == DONE:
            self.possible = unique([State(world, state.applied) for state, found, world in outcomes if found == DONE])
        elif not self.crashed:
            self.possible = [state for state, found, _ in outcomes if found == answer]
        assert self.possible, (call, result)
        if answer == DONE and not self.crashed:
            shown = self._read_character(result["character"])
            self.possible = [one for one in self.possible if shown_character(one.world, call.actor) == shown]
            assert self.possible, (call, shown)

    async def _crash(self, step: Step) -> None:
        call = self.next_call(step)
        with crashing(self.gateway, step.stop) as faulty:
            answer = await self.gateway.ask(MUTATIONS[call.action], self.given(call), token=self.token(call.actor))
        if faulty.has_crashed:
            self.crashed.append(call)
            self._close()
        else:
            self.learn(call, answer.data[call.action])

    async def _repeat(self, step: Step) -> None:
        """Repeats a crashed call with its key. Its effect is there once if it is acknowledged, and not otherwise."""
        if not self.crashed:
            return
        call = self.crashed[step.item % len(self.crashed)]
        self.clock.advance(seconds=RECOVERY_SECONDS)
        self.conclude(call, (await self.ask(call))["__typename"])

    def conclude(self, call: Call, answer: str) -> None:
        """Drops the states that contradict the answer to a call of which others may have finished the turn."""
        self._close()
        is_done = answer == DONE
        found = [state for state in self.possible if (call.key in state.applied) is is_done]
        assert found, (call, answer)
        self.possible = unique([State(state.world, state.applied - {call.key}) for state in found])
        self.crashed.remove(call)

    async def _crash_jobs(self, step: Step) -> None:
        self.clock.advance(seconds=RECOVERY_SECONDS)
        with crashing(self.gateway, step.stop):
            try:
                await self.gateway.run_jobs()
            except Crash:
                return

    async def settle(self) -> None:
        """Lets the jobs finish everything. Asserts that the world is a possible one, and drops the others."""
        await self.gateway.run_jobs(seconds=RECOVERY_SECONDS)
        actual = await self.read_world()
        self._close()
        self.possible = [state for state in self.possible if state.world == actual][:1]
        assert self.possible, actual
        self.crashed = []

    async def read_world(self) -> World:
        """Reads everything. Asserts that each thing is in one place, and that each copy of a room is up to date."""
        characters = [*self.setting.strength, *self.setting.keepers]
        fields = [f'c{at}: character(id: "{self.ids[name]}") {{ {CHARACTER} }}' for at, name in enumerate(characters)]
        fields += [f'r{at}: location(id: "{self.ids[name]}") {{ {LOCATION} }}' for at, name in enumerate(self._rooms)]
        token = self.gateway.token("master", [GAME_MASTER])
        data = await self.gateway.data(f"{{ {' '.join(fields)} }}", token=token)
        places: dict[str, Place] = {}
        for at, room in enumerate(self._rooms):
            self._place(data[f"r{at}"]["inventory"], (FLOOR, room), places)
        for at, name in enumerate(characters):
            kind = CARRIED if name in self.setting.strength else STOCK
            self._place(data[f"c{at}"]["inventory"], (kind, name), places)
        found = {name: data[f"c{at}"] for at, name in enumerate(characters)}
        players = {name: self._read_character(found[name]) for name in self.setting.strength}
        world = World(
            setting=self.setting,
            rooms={name: player["room"]["name"] for name, player in players.items()},
            gold={name: found[name]["gold"] for name in characters},
            places=places,
            equipped={
                item: slot for player in players.values() for slot in (*REGIONS, *HANDS) for item in player[slot]
            },
        )
        assert players == {name: shown_character(world, name) for name in players}
        for at, room in enumerate(self._rooms):
            assert self._read_room(data[f"r{at}"], data[f"r{at}"]["id"]) == shown_room(world, room)
        return world

    @property
    def _rooms(self) -> list[str]:
        return list(self.setting.exits)

    def _place(self, items: list[dict[str, Any]], place: Place, places: dict[str, Place]) -> None:
        for item in items:
            name = self.names[item["id"]]
            assert name not in places, f"{name} is at {place} and at {places[name]}"
            places[name] = place
            self._place(item.get("contents") or [], (INSIDE, name), places)

    def _read_character(self, found: dict[str, Any]) -> dict[str, Any]:
        worn = {region: self._names(found["armor"][region.lower()]) for region in REGIONS}
        held = {hand: self._names([item] if (item := found["weapons"][hand.lower()]) else []) for hand in HANDS}
        room = self._read_room(found["location"], found["location"]["locationId"])
        return {"gold": found["gold"], "room": room, "items": self._tree(found["inventory"]), **worn, **held}

    def _read_room(self, found: dict[str, Any], room: str) -> dict[str, Any]:
        present = [self.names[brief["characterId"]] for brief in found["characters"]]
        players = sorted(name for name in present if name in self.setting.strength)
        return {"name": self.names[room], "characters": players, "items": self._tree(found["inventory"])}

    def _names(self, items: list[dict[str, Any]]) -> list[str]:
        return sorted(self.names[item["id"]] for item in items)

    def _tree(self, items: list[dict[str, Any]]) -> dict[str, Any]:
        return {self.names[item["id"]]: self._tree(item.get("contents") or []) for item in items}


def owner_of(character: str) -> str:
    return f"owner of {character}"


def unique(states: list[State]) -> list[State]:
    found: list[State] = []
    for state in states:
        if state not in found:
            found.append(state)
    return found
