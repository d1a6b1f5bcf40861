"""Two merchants and a thief around the purse of one shopkeeper: no gold is made or lost, in any snapshot."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from bson import ObjectId

from portico.resolvers.documents import Database
from portico.resolvers.errors import DomainError
from portico.resolvers.game.world import room_actions
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.locations import LOCATIONS
from portico.resolvers.snapshots import read_at_one_time
from tests.game.support.books import books_of
from tests.game.support.players import Players
from tests.game.support.scene import assert_settled
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
        books = books_of(characters, rooms)
        assert books.doubled == []
        assert set(books.items) == self.items
        assert books.gold == books.initial_gold
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
