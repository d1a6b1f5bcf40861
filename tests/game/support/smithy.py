"""A smithy, and what a character does there: what the tests of the last steps of turns share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world import character_reads, room_actions
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS, keeper_key
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_jobs import settle_rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.writes.settler import Settler
from tests.game.support.players import acting_for
from tests.game.support.scene import assert_settled
from tests.game.support.world import add_character, add_room, item, keeper
from tests.support.documents import stored
from tests.support.harness import SettableClock


@dataclass
class Smithy:
    """A smithy with a sword on the floor, a helmet to buy, and Ann, who has a dagger and is alone."""

    db: Database
    clock: SettableClock
    settler: Settler
    rooms: Rooms
    room: Document
    ann: Document
    things: dict[str, ObjectId]

    @classmethod
    async def of(cls, db: Database, clock: SettableClock) -> Smithy:
        sword, helmet = item("sword"), item("helmet")
        dagger = item("dagger", kind="WEAPON", hands=1)
        room = await add_room(db, "smithy", items=[sword], keepers=[keeper("Smith", helmet)])
        ann = await add_character(db, "ann", room, items=[dagger])
        settler = Settler()
        things: dict[str, ObjectId] = {one["name"]: one["_id"] for one in (sword, helmet, dagger)}
        return cls(db, clock, settler, Rooms(settler=settler), room, ann, things)

    def acting(self, rooms: Rooms | None = None, *, db: Database | None = None, owner: str = "ann") -> Acting:
        database = self.db if db is None else db
        return acting_for(database, rooms or self.rooms, self.ann, self.clock, owner=owner)

    async def pick_up(self, name: str, **given: Any) -> Document:
        return await room_actions.pick_up(self.acting(**given), item_id=self.things[name])

    async def drop(self, name: str, **given: Any) -> Document:
        return await room_actions.drop(self.acting(**given), item_id=self.things[name])

    async def buy(self, name: str, **given: Any) -> Document:
        key = keeper_key(self.room["_id"], 0)
        return await room_actions.buy(self.acting(**given), keeper_key=key, item_id=self.things[name])

    async def sell(self, name: str, **given: Any) -> Document:
        key = keeper_key(self.room["_id"], 0)
        return await room_actions.sell(self.acting(**given), keeper_key=key, item_id=self.things[name])

    async def stored(self) -> Document:
        return await stored(self.db, CHARACTERS.name, self.ann)

    async def shown(self, db: Database | None = None) -> Any:
        found = await character_reads.find_by_ids(self.db if db is None else db, [self.ann["_id"]])
        return found[self.ann["_id"]]

    async def forgotten(self) -> Document:
        """Lets the room forget what turns that are over have given, and returns it."""
        await settle_rooms(self.db, Rooms(), now=self.clock.now())
        return await stored(self.db, LOCATIONS.name, self.room)

    async def settle(self) -> Document:
        """Lets the last step arrive, and the room forget the turn. Returns the room."""
        await self.settler.settled(self.db)
        self.clock.advance(seconds=6)
        return await self.forgotten()

    async def end(self) -> None:
        await self.settler.settled(self.db)
        await assert_settled(self.db)


def names(found: Any) -> set[str]:
    return {one["name"] for one in found}
