"""Players who walk, take, give, buy, sell and trade at random while gateways are killed, and what they are told."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.schema.game.game_masters import GAME_MASTER
from portico.testing.kits import mutation_text
from tests.game.support.model import Thing
from tests.game.support.world import keeper_id, room, room_id
from tests.game.support.worlds import ANY_KEEPER, model_keeper, thing_item
from tests.support.domains import SCHEMA
from tests.support.harness import GatewayClient, new_key
from tests.support.kills import Client, Clients, turns

ROOMS = 3
_KINDS = (
    Thing(1, 7, "WEAPON", hands=1),
    Thing(2, 20, "ARMOR", regions=("HEAD",)),
    Thing(1, 3, "CONTAINER", capacity=10),
    Thing(0.5, None, "OTHER"),
)
DONE = "CharacterPayload"
_ITEM = "id price contents { id contents { id } }"
_CHARACTER = (
    f"id gold inventory {{ {_ITEM} }} location {{ locationId exits {{ direction locationId }} "
    f"characters {{ characterId }} inventory {{ {_ITEM} }} }}"
)
_PLAYED = ("createCharacter", "move", "pickUp", "drop", "give", "buy", "sell", "putIn", "takeOut")
MUTATIONS = {
    name: mutation_text(SCHEMA._schema, name, selection)
    for name, selection in {
        **dict.fromkeys(_PLAYED, f"... on CharacterPayload {{ character {{ {_CHARACTER} }} }}"),
        "moveCharacter": "... on MoveCharacterPayload { character { location { locationId } } to { id } }",
        "deleteCharacter": "... on DeleteCharacterPayload { deletedId location { id } }",
    }.items()
}
REFUSALS = {"ItemGone", "WrongItem", "NotFound", "LimitReached", "InsufficientGold", "NoSuchExit"}
SHELF = "query ($id: ID!) { character(id: $id) { inventory { id price } } }"


@dataclass
class Player:
    """The only player of a character, which must be as the player's own actions and gifts have left it.

    A player whom nobody gives anything (`gets_gifts`) knows exactly what the character has.
    """

    client: Client
    token: str
    name: str
    game: Game
    rng: random.Random
    gets_gifts: bool
    seen: dict[str, Any] = field(default_factory=dict)

    async def run(self, seconds: float) -> None:
        given = {"name": self.name, "characterClass": "Thief", "intrinsics": {"strength": 18}}
        self.seen = (await self.call("createCharacter", given))["character"]
        if self.gets_gifts:
            self.game.takers.add(self.seen["id"])
        acts: list[Callable[[], Awaitable[None]]] = [
            self.move,
            self.move,
            self.pick_up,
            self.pick_up,
            self.pick_up,
            self.drop,
            self.give,
            self.give,
            self.buy,
            self.sell,
            self.put_in,
            self.take_out,
        ]
        for _ in turns(seconds, self.game.operations):
            await self.rng.choice(acts)()

    async def call(self, mutation: str, given: dict[str, Any]) -> Any:
        key = {"idempotencyKey": new_key()}
        variables = {"input": {**given, **key}}
        result = (await self.client.ask(MUTATIONS[mutation], variables, token=self.token))[mutation]
        assert result["__typename"] in {DONE, *REFUSALS}, result
        if result["__typename"] == DONE:
            self.game.operations[mutation] += 1
        return result

    async def act(
        self,
        mutation: str,
        given: dict[str, Any],
        *,
        gains: Sequence[str] = (),
        loses: Sequence[str] = (),
        gold: int = 0,
        room: str | None = None,
    ) -> None:
        """Acts, and checks the character: only its player moves it, takes from it, and spends its gold."""
        me = self.seen["id"]
        self.game.gifts -= {(one, me) for one in loses}
        result = await self.call(mutation, {"characterId": self.seen["id"], **given})
        if result["__typename"] != DONE:
            # A refusal can be an answer to what others did in the meantime.
            self.seen = (await self.client.ask(_READ, {"id": self.seen["id"]}, token=self.token))["character"]
            return
        before, self.seen = self.seen, result["character"]
        now = set(_tree(self.seen["inventory"]))
        expected = (set(_tree(before["inventory"])) | set(gains)) - set(loses)
        assert expected <= now, (mutation, given, expected - now)
        if not self.gets_gifts:
            # What a container holds can change until the player has it.
            gained = set(_tree([one for one in self.seen["inventory"] if one["id"] in gains]))
            assert now <= expected | gained, (mutation, given, now - expected - gained)
        # While the call is repeated, another player may pick the item up, and give it back.
        given_back = {one for one, to in self.game.gifts if to == me}
        assert now & set(loses) <= given_back, (mutation, given)
        assert self.seen["gold"] == before["gold"] + gold, (mutation, given, before["gold"], self.seen["gold"])
        where = room or before["location"]["locationId"]
        assert self.seen["location"]["locationId"] == where, (mutation, given)

    async def move(self) -> None:
        if exit_ := self._some(self.seen["location"]["exits"]):
            await self.act("move", {"direction": exit_["direction"]}, room=exit_["locationId"])

    async def pick_up(self) -> None:
        if item := self._some(self.seen["location"]["inventory"]):
            await self.act("pickUp", {"itemId": item["id"]}, gains=_tree([item])[:1])

    async def drop(self) -> None:
        if item := self._some(self.seen["inventory"]):
            await self.act("drop", {"itemId": item["id"]}, loses=_tree([item]))

    async def give(self) -> None:
        here = {one["characterId"] for one in self.seen["location"]["characters"]}
        others = sorted((here & self.game.takers) - {self.seen["id"]})
        if (item := self._some(self.seen["inventory"])) and (other := self._some(others)):
            self.game.gifts |= {(one, other) for one in _tree([item])}
            await self.act("give", {"itemId": item["id"], "toId": other}, loses=_tree([item]))

    async def buy(self) -> None:
        if keeper := self._keeper():
            shelf = (await self.client.ask(SHELF, {"id": keeper}, token=self.token))["character"]["inventory"]
            if item := self._some([one for one in shelf if one["price"] is not None]):
                given = {"shopkeeperId": keeper, "itemId": item["id"]}
                await self.act("buy", given, gains=[item["id"]], gold=-item["price"])

    async def sell(self) -> None:
        keeper, item = self._keeper(), self._some(self.seen["inventory"])
        if keeper and item and item["price"] is not None and not item["contents"]:
            given = {"shopkeeperId": keeper, "itemId": item["id"]}
            await self.act("sell", given, loses=[item["id"]], gold=item["price"] // 2)

    async def put_in(self) -> None:
        containers = [one for one in self.seen["inventory"] if one["contents"] is not None]
        others = [one for one in self.seen["inventory"] if one["contents"] is None]
        if (container := self._some(containers)) and (item := self._some(others)):
            await self.act("putIn", {"containerId": container["id"], "itemId": item["id"]})

    async def take_out(self) -> None:
        containers = [*self.seen["inventory"], *self.seen["location"]["inventory"]]
        if (container := self._some([one for one in containers if one["contents"]])) and (
            item := self._some(container["contents"])
        ):
            given = {"containerId": container["id"], "itemId": item["id"]}
            await self.act("takeOut", given, gains=[item["id"]])

    async def visit(self, operator: str, rooms: Sequence[str]) -> None:
        """Lives a short life: it takes what it finds, an operator moves it around, and then deletes it."""
        given = {"name": self.name, "characterClass": "Ghost", "intrinsics": {"strength": 18}}
        self.seen = (await self.call("createCharacter", given))["character"]
        for _ in range(4):
            await self.pick_up()
            moved = {"characterId": self.seen["id"], "locationId": self.rng.choice(rooms)}
            result = await self.keep("moveCharacter", moved, operator)
            assert result["to"]["id"] == result["character"]["location"]["locationId"] == moved["locationId"]
            self.seen = (await self.client.ask(_READ, {"id": self.seen["id"]}, token=self.token))["character"]
            assert self.seen["location"]["locationId"] == moved["locationId"]
        deleted = await self.keep("deleteCharacter", {"characterId": self.seen["id"]}, operator)
        assert deleted["deletedId"] == self.seen["id"]
        gone = (await self.client.ask(_READ, {"id": self.seen["id"]}, token=self.token))["character"]
        assert gone is None

    async def keep(self, mutation: str, given: dict[str, Any], operator: str) -> Any:
        variables = {"input": {**given, "idempotencyKey": new_key()}}
        result = (await self.client.ask(MUTATIONS[mutation], variables, token=operator))[mutation]
        assert result["__typename"].endswith("Payload"), result
        self.game.operations[mutation] += 1
        return result

    def _keeper(self) -> Any:
        here = {one["characterId"] for one in self.seen["location"]["characters"]}
        return self._some([keeper for keeper in self.game.keepers if keeper in here])

    def _some(self, found: Sequence[Any]) -> Any:
        return self.rng.choice(found) if found else None


_READ = f"query ($id: ID!) {{ character(id: $id) {{ {_CHARACTER} }} }}"


def _tree(items: Sequence[dict[str, Any]]) -> list[str]:
    """The ids of items and everything in them, containers first."""
    return [found for item in items for found in (item["id"], *_tree(item.get("contents") or []))]


@dataclass
class Game:
    """What the world of the players has in the beginning: the ids of its items, the shopkeepers and the rooms.

    `gifts` has the items that players have tried to give, with those who were to get them. Whoever hands an item over
    forgets the earlier gifts of it. `takers` has the characters who get gifts. `operations` counts what was done.
    """

    items: set[ObjectId]
    keepers: list[str]
    rooms: list[str]
    gifts: set[tuple[str, str]] = field(default_factory=set)
    takers: set[str] = field(default_factory=set)
    operations: Counter[str] = field(default_factory=Counter)


async def prepared_world(db: Database) -> Game:
    """Stores rooms in a circle, with things on their floors, and a shop beside the first one."""
    rooms = [ObjectId() for _ in range(ROOMS)]
    shop = ObjectId()
    items: list[Document] = []

    def things(count: int) -> list[Document]:
        made = [thing_item(f"thing {number}", _KINDS[number % len(_KINDS)]) for number in range(count)]
        items.extend(made)
        return made

    exits = [
        [{"direction": "N", "to": rooms[(at + 1) % ROOMS]}, {"direction": "S", "to": rooms[at - 1]}]
        for at in range(ROOMS)
    ]
    exits[0].append({"direction": "E", "to": shop})
    keepers = [model_keeper(number, f"Keeper {number}", ANY_KEEPER, 200, things(30)) for number in range(2)]
    stored = [room(f"Room {at}", _id=key, exits=exits[at], items=things(12)) for at, key in enumerate(rooms)]
    stored.append(room("Shop", _id=shop, exits=[{"direction": "W", "to": rooms[0]}], keepers=keepers, start=0))
    await db["game.locations"].insert_many(stored)
    shopkeepers = [keeper_id(stored[-1], number) for number in range(2)]
    return Game({one["_id"] for one in items}, shopkeepers, [room_id(one) for one in stored])


@dataclass
class Visitors:
    """Short-lived characters of one player after the other."""

    lives: Sequence[Player]
    operator: str
    game: Game

    async def run(self, seconds: float) -> None:
        for life, _ in zip(self.lives, turns(seconds, self.game.operations), strict=False):
            await life.visit(self.operator, self.game.rooms)


class World:
    """Players, half of whom get no gifts, and visitors. An auditor of the world compares its items with `items`."""

    _game: Game
    operations: Counter[str]
    _operator: str

    def __init__(self, players: int) -> None:
        self._names = [f"player-{number}" for number in range(players)]
        self._visitors = [f"visitor-{number}" for number in range(100 * players)]
        self._tokens: dict[str, str] = {}

    @property
    def items(self) -> set[ObjectId]:
        return self._game.items

    async def prepare(self, gateway: GatewayClient) -> None:
        self._game = await prepared_world(gateway.db)
        self.operations = self._game.operations
        self._tokens = {name: gateway.token(name, []) for name in (*self._names, *self._visitors)}
        self._operator = gateway.token("operator", [GAME_MASTER])

    def actors(self, clients: Clients) -> list[Player | Visitors]:
        players = [
            self._player(clients.connect(), name, number, gets_gifts=number % 2 == 0)
            for number, name in enumerate(self._names)
        ]
        client = clients.connect()
        lives = [self._player(client, name, number, gets_gifts=False) for number, name in enumerate(self._visitors)]
        return [*players, Visitors(lives, self._operator, self._game)]

    def _player(self, client: Client, name: str, number: int, *, gets_gifts: bool) -> Player:
        return Player(client, self._tokens[name], name, self._game, random.Random(number), gets_gifts=gets_gifts)

    async def check(self, gateway: GatewayClient) -> None:
        """Checks nothing: each player checks every answer, and the auditor the world."""
