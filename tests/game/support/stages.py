"""The temple: what characters do there, and what an operator does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from portico.resolvers.documents import Database
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.game.world.resting import rest_idle
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import finish_turns, settle_rooms
from portico.resolvers.writes.settler import Settler
from portico.testing.kits import Given
from portico.testing.stages import Case
from tests.game.support.scene import Temple, action, add_temple, assert_settled, assert_sound, own_action, world
from tests.support.restarting import Restarting

DAY = timedelta(days=1)
# What each action changes; see `world`.
CHANGES: dict[str, dict[str, Any]] = {
    "createCharacter": {"Eve": "Temple", "gold of Eve": 100, "equipment of Eve": []},
    "move": {"Tester": "Market"},
    "pickUp": {"sword": "Tester"},
    "drop": {"bag": "Temple", "apple": "Temple"},
    "takeOut": {"coin": "Tester"},
    "putIn": {"pear": "Temple"},
    "wear": {"equipment of Tester": ["cap", "hat", "knife"]},
    "wield": {"equipment of Tester": ["dagger", "hat", "knife"]},
    "unequip": {"equipment of Tester": ["knife"]},
    "give": {"bag": "Bo", "apple": "bag", "gifts to Bo": ["bag"]},
    "buy": {"helmet": "Tester", "gold of Tester": 40, "gold of Smith": 1_060},
    "sell": {"axe": "Smith", "gold of Tester": 105, "gold of Smith": 995},
}
# What `me` has, which falls to the floor.
_THINGS = ("knife", "hat", "axe", "dagger", "cap", "bag", "apple", "pear")
_GONE = ("Tester", "gold of Tester", "equipment of Tester")
KEEPING: dict[str, dict[str, Any]] = {
    "moveCharacter": {"Tester": "Market"},
    "deleteCharacter": dict.fromkeys(_THINGS, "Temple"),
    "spawnCharacter": {"Eva": "Market", "gold of Eva": 100, "equipment of Eva": []},
}
_MEMBERS = {"moveCharacter": "MoveCharacterPayload", "deleteCharacter": "DeleteCharacterPayload"}


def _given(mutation: str, of: Callable[[Temple, str], Given] = action) -> Callable[[Any], Given]:
    return lambda stage: of(stage.temple, mutation)


def _after(mutation: str, changes: dict[str, Any]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    gone = _GONE if mutation == "deleteCharacter" else ()
    return lambda before: {name: value for name, value in {**before, **changes}.items() if name not in gone}


def _cases(changes: dict[str, dict[str, Any]]) -> dict[str, Case]:
    return {
        name: Case(name, _given(name), _MEMBERS.get(name, "CharacterPayload"), _after(name, change))
        for name, change in changes.items()
    }


ACTIONS = _cases(CHANGES)
KEPT = _cases(KEEPING)
# Both change only the inventory of `me`.
OWN = {
    f"{name} of the own bag": Case(name, _given(name, own_action), "CharacterPayload", _after(name, changes))
    for name, changes in {"takeOut": {"apple": "Tester"}, "putIn": {"pear": "bag"}}.items()
}


def _of_resting(cases: dict[str, Case]) -> dict[str, Case]:
    return {f"{name} of a resting character": case for name, case in cases.items()}


async def names_of_resting(db: Database) -> list[str]:
    """Returns the names of the characters that rest."""
    found = await db[CHARACTERS.name].find({"resting_since": {"$ne": None}}).to_list()
    return [one["name"] for one in found]


class Turns(Restarting):
    """The temple. A restored stage is a new process: it remembers no room."""

    collections = ("game.characters", "game.locations", "game.gifts", "operations")
    cases = ACTIONS
    next_run = 31
    least = (0, 0)
    every_pause = True
    temple: Temple

    async def build(self) -> None:
        self.temple = await add_temple(self.gateway.db)

    def restart(self) -> Rooms:
        resources = self.gateway.state.resources
        rooms = resources[Rooms] = Rooms(settler=resources.of(Settler))
        return rooms

    async def run_jobs(self, *, seconds: int | None = None) -> None:
        """Runs the jobs of another process."""
        self.clock.advance(seconds=self.job_seconds if seconds is None else seconds)
        rooms = Rooms()
        await finish_turns(self.gateway.db, rooms, now=self.clock.now())
        await settle_rooms(self.gateway.db, rooms, now=self.clock.now())

    async def state(self) -> dict[str, Any]:
        return await world(self.gateway.db)

    async def assert_sound(self) -> None:
        await assert_sound(self.gateway.db)

    async def assert_settled(self) -> None:
        await assert_settled(self.gateway.db)


class OwnInventory(Turns):
    """The temple, and changes that take one write, so a crash leaves nothing to anybody."""

    cases = OWN
    finishes = True

    async def assert_sound(self) -> None:
        await assert_settled(self.gateway.db)


class Keeping(Turns):
    """The temple, and what an operator does there."""

    cases = KEPT

    async def age(self) -> None:
        """Makes the latest action of `me` old."""
        entry = {"_id": self.temple.room["_id"], "characters._id": self.temple.me["_id"]}
        old = {"characters.$.since": self.clock.now() - 2 * DAY}
        assert (await self.gateway.db[LOCATIONS.name].update_one(entry, {"$set": old})).matched_count

    async def rest(self, db: Database) -> int:
        return await rest_idle(db, self.restart(), idle_for=DAY, now=self.clock.now())


class Resting(Keeping):
    """The temple, where `me` rests, and what an operator does there."""

    cases = _of_resting(KEPT)

    async def build(self) -> None:
        await super().build()
        await self.age()
        assert await self.rest(self.gateway.db) == 1


class Waking(Resting):
    """The temple, where `me` rests. Whatever the player does wakes the character."""

    cases = _of_resting({"drop": ACTIONS["drop"]})

    async def assert_over(self) -> None:
        assert await names_of_resting(self.gateway.db) == []
