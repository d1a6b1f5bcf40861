"""Two merchants and a thief around one purse: it is in one place at every moment, and so is all gold."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable
from functools import partial

import pytest

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import DomainError, NotFound
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.action_refusals import InsufficientGold, ItemGone, WrongItem
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.writes.marks import random_operation_id
from tests.game.support.scene import assert_settled, assert_sound
from tests.game.support.world import add_character, add_room, item, keeper
from tests.support.harness import IS_SOAK, SettableClock

ROUNDS = 200 if IS_SOAK else 25
# What somebody is told who reaches for a purse that another has.
TOO_LATE = (ItemGone, NotFound, InsufficientGold, WrongItem)


class Scramble:
    """The purse, with a gem inside, and the three who want it. Each of them acts in another process."""

    def __init__(self, db: Database, clock: SettableClock, room: Document, purse: Document, gem: Document) -> None:
        self.db = db
        self.clock = clock
        self.room = room
        self.purse, self.gem = purse, gem
        self.done: Counter[str] = Counter()
        self.is_over = False

    async def merchant(self, me: Document, other: Document, rooms: Rooms, rng: random.Random) -> None:
        """Picks the purse up, sells and buys it back, gives it to the other merchant, or takes the gem out."""
        shop = f"{self.room['_id']}.0"
        purse, gem = self.purse["_id"], self.gem["_id"]
        for _ in range(ROUNDS):
            acting = Acting(self.db, rooms, me["_id"], None, self.clock.now(), random_operation_id())
            acts = [
                partial(room_actions.pick_up, item_id=purse),
                partial(room_actions.sell, keeper_key=shop, item_id=purse),
                partial(room_actions.buy, keeper_key=shop, item_id=purse),
                partial(room_actions.give, item_id=purse, to=other["_id"]),
                partial(room_actions.take_out, container_id=purse, item_id=gem),
                partial(room_actions.put_in, container_id=purse, item_id=gem),
                partial(room_actions.drop, item_id=purse),
                partial(room_actions.drop, item_id=gem),
            ]
            act = rng.choice(acts)
            await self._try(act.func.__name__, act(acting))

    async def thief(self, me: Document, rooms: Rooms, rng: random.Random) -> None:
        """Takes whatever lies on the floor, and loses it again."""
        for _ in range(ROUNDS):
            acting = Acting(self.db, rooms, me["_id"], None, self.clock.now(), random_operation_id())
            wanted = rng.choice([self.purse, self.gem])["_id"]
            act = rng.choice([room_actions.pick_up, room_actions.pick_up, room_actions.drop])
            await self._try(f"thief: {act.__name__}", act(acting, item_id=wanted))

    async def watch(self) -> int:
        """Checks snapshots until everybody is done. Returns how many."""
        seen = 0
        while not self.is_over:
            await assert_sound(self.db)
            seen += 1
        return seen

    async def _try(self, name: str, act: Awaitable[Document]) -> None:
        try:
            await act
        except TOO_LATE as error:
            self.done[type(error).__name__] += 1
        except DomainError as error:
            pytest.fail(f"{name}: {error!r}")
        else:
            self.done[name] += 1


async def test_a_purse_that_three_fight_for_is_in_one_place_in_every_snapshot(
    db: Database, clock: SettableClock
) -> None:
    purse = item("purse", kind="CONTAINER", capacity=1_000, cost=6)
    gem = item("gem", inside=purse["_id"])
    smith = keeper("Smith", gold=40, initial_gold=40, buys=["CONTAINER"])
    room = await add_room(db, "Market", items=[purse, gem], keepers=[smith])
    scramble = Scramble(db, clock, room, purse, gem)
    one, other, thief = [await add_character(db, name, room) for name in ("ann", "bob", "thief")]
    watching = asyncio.create_task(scramble.watch())

    await asyncio.gather(
        scramble.merchant(one, other, Rooms(), random.Random(1)),
        scramble.merchant(other, one, Rooms(), random.Random(2)),
        scramble.thief(thief, Rooms(), random.Random(3)),
    )
    scramble.is_over = True

    assert await watching > 0
    refused = sum(scramble.done[error.__name__] for error in TOO_LATE)
    assert 0 < refused < scramble.done.total() == 3 * ROUNDS
    await assert_settled(db)
