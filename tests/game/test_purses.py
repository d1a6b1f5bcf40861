"""Merchants and a thief around the purse of a shopkeeper, or one that lies there: no item or gold is made or lost."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import Awaitable, Coroutine, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import DomainError, NotFound
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.action_refusals import InsufficientGold, ItemGone, WrongItem
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.snapshots import read_at_one_time
from tests.game.support.books import books_of
from tests.game.support.players import Players
from tests.game.support.scene import assert_settled, assert_sound
from tests.game.support.world import add_character, add_room, item, keeper
from tests.support.harness import IS_SOAK, SettableClock

ROUNDS = 20 if IS_SOAK else 3


@pytest.fixture
def players(db: Database, clock: SettableClock) -> Players:
    """Each of the three acts in a process of its own."""
    return Players(db, clock, processes=3)


class Done:
    """Counts what each has done, and ignores what was refused."""

    def __init__(self) -> None:
        self.by: Counter[tuple[str, str]] = Counter()

    @contextlib.contextmanager
    def counting(self, who: str, what: str) -> Iterator[None]:
        with contextlib.suppress(DomainError):
            yield
            self.by[who, what] += 1


@dataclass
class Auditor:
    """Reads consistent snapshots. In each, every item is in one place, and no gold is missing or below zero."""

    db: Database
    items: set[ObjectId]
    checked: int = 0

    async def check(self) -> None:
        found = await read_at_one_time(
            self.db, LOCATIONS, [{"$unionWith": {"coll": CHARACTERS.name}}], batch_size=1_000
        )
        rooms = [one for one in found if "keepers" in one]
        characters = [one for one in found if "keepers" not in one]
        books_of(characters, rooms).assert_whole(self.items)
        purses = [keeper["gold"] for room in rooms for keeper in room["keepers"]]
        assert min([*purses, *(one["gold"] for one in characters)]) >= 0
        self.checked += 1

    async def run(self, *work: Coroutine[Any, Any, None]) -> None:
        """Does the work, and checks a snapshot after the other meanwhile, and one at the end."""
        working = asyncio.gather(*work)
        while not working.done():
            await self.check()
        await working
        await self.check()


async def test_two_merchants_and_a_thief_around_the_purse_of_a_shopkeeper_conserve_its_gold(
    db: Database, players: Players
) -> None:
    """Two buy, drop and sell swords. A third one takes what they drop, and sells it for gold of the same purse."""
    swords = [item(f"sword {number}", kind="WEAPON", cost=10) for number in range(4)]
    room = await add_room(db, "Market", keepers=[keeper("Smith", *swords, gold=12, initial_gold=12)])
    crew = {name: await add_character(db, name, room) for name in ("ann", "bob", "thief")}
    key = f"{room['_id']}.0"
    done = Done()

    async def trade(number: int, who: str) -> None:
        for sword in swords * ROUNDS:
            with done.counting(who, "buy"):
                await room_actions.buy(players.acting(crew[who], number), keeper_key=key, item_id=sword["_id"])
            with done.counting(who, "drop"):
                if number:
                    await room_actions.drop(players.acting(crew[who], number), item_id=sword["_id"])
            with done.counting(who, "sell"):
                await room_actions.sell(players.acting(crew[who], number), keeper_key=key, item_id=sword["_id"])

    async def steal() -> None:
        for sword in swords * ROUNDS * 2:
            with done.counting("thief", "pick up"):
                await room_actions.pick_up(players.acting(crew["thief"], 2), item_id=sword["_id"])
            with done.counting("thief", "sell"):
                await room_actions.sell(players.acting(crew["thief"], 2), keeper_key=key, item_id=sword["_id"])

    auditor = Auditor(db, {sword["_id"] for sword in swords})
    await auditor.run(trade(0, "ann"), trade(1, "bob"), steal())

    assert auditor.checked > 2
    assert {what for _, what in done.by} == {"buy", "drop", "sell", "pick up"}
    found = {one["name"]: one["gold"] for one in await db["game.characters"].find({}).to_list()}
    purse = (await db["game.locations"].find({}).to_list())[0]["keepers"][0]["gold"]
    assert purse + sum(found.values()) == 12 + 3 * 100
    await assert_settled(db)


SCRAMBLES = 200 if IS_SOAK else 25
# What somebody is told who reaches for a purse that another has.
TOO_LATE = (ItemGone, NotFound, InsufficientGold, WrongItem)


class Scramble:
    """The purse, with a gem inside, and the three who want it. Each of them acts in another process."""

    def __init__(self, players: Players, room: Document, purse: Document, gem: Document) -> None:
        self.players, self.room = players, room
        self.purse, self.gem = purse, gem
        self.done: Counter[str] = Counter()
        self.is_over = False

    async def merchant(self, me: Document, other: Document, number: int) -> None:
        """Picks the purse up, sells and buys it back, gives it to the other merchant, or takes the gem out."""
        shop, rng = f"{self.room['_id']}.0", random.Random(number)
        purse, gem = self.purse["_id"], self.gem["_id"]
        for _ in range(SCRAMBLES):
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
            await self._try(act.func.__name__, act(self.players.acting(me, number)))

    async def thief(self, me: Document, number: int) -> None:
        """Takes whatever lies on the floor, and loses it again."""
        rng = random.Random(number)
        for _ in range(SCRAMBLES):
            wanted = rng.choice([self.purse, self.gem])["_id"]
            act = rng.choice([room_actions.pick_up, room_actions.pick_up, room_actions.drop])
            await self._try(f"thief: {act.__name__}", act(self.players.acting(me, number), item_id=wanted))

    async def watch(self) -> int:
        """Checks snapshots until everybody is done. Returns how many."""
        seen = 0
        while not self.is_over:
            await assert_sound(self.players.db)
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


async def test_a_purse_that_three_fight_for_is_in_one_place_in_every_snapshot(db: Database, players: Players) -> None:
    purse = item("purse", kind="CONTAINER", capacity=1_000, cost=6)
    gem = item("gem", inside=purse["_id"])
    smith = keeper("Smith", gold=40, initial_gold=40, buys=["CONTAINER"])
    room = await add_room(db, "Market", items=[purse, gem], keepers=[smith])
    scramble = Scramble(players, room, purse, gem)
    one, other, thief = [await add_character(db, name, room) for name in ("ann", "bob", "thief")]
    watching = asyncio.create_task(scramble.watch())

    await asyncio.gather(scramble.merchant(one, other, 1), scramble.merchant(other, one, 2), scramble.thief(thief, 3))
    scramble.is_over = True

    assert await watching > 0
    refused = sum(scramble.done[error.__name__] for error in TOO_LATE)
    assert 0 < refused < scramble.done.total() == 3 * SCRAMBLES
    await assert_settled(db)
