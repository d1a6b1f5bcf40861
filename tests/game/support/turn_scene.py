"""The temple, whose actions are stopped anywhere."""

from __future__ import annotations

from typing import Any

from portico.resolvers.game.rooms import Rooms
from portico.resolvers.game.turn_jobs import finish_turns, settle_rooms
from tests.game.support.scene import Temple, add_temple
from tests.support.scenes import Stage

_SHARED = {"pickUp": "Item", "drop": "Item", "unequip": "Item", "takeOut": "Container", "putIn": "Container"}


class Scene(Stage):
    """The temple. A restored scene is a new process: it remembers no room."""

    collections = ("game.characters", "game.locations", "operations")
    temple: Temple

    async def build(self) -> None:
        self.temple = await add_temple(self.gateway.db)

    async def restore(self) -> None:
        await super().restore()
        self.restart()

    def restart(self) -> Rooms:
        rooms = self.gateway.state.resources[Rooms] = Rooms()
        return rooms

    async def ask(self, mutation: str, given: dict[str, Any]) -> Any:
        kind = _SHARED.get(mutation, mutation[0].upper() + mutation[1:])
        text = f"mutation ($input: {kind}Input!) {{ {mutation}(input: $input) {{ __typename }} }}"
        return await self.gateway.ask(text, {"input": given})

    async def jobs(self) -> None:
        self.clock.advance(seconds=31)
        rooms = self.restart()
        await finish_turns(self.gateway.db, rooms, now=self.clock.now())
        await settle_rooms(self.gateway.db, rooms, now=self.clock.now())
