"""The rooms, characters and players of the game's bench."""

from datetime import UTC, datetime, timedelta
from typing import Any

from bson import ObjectId
from pymongo import MongoClient

from bench.buyers import SECRET
from bench.connections import Connections
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.settings import Settings
from portico.resolvers.configuration import Secret
from portico.resolvers.documents import Document
from portico.resolvers.game.world.characters import CHARACTERS
from portico.resolvers.game.world.items import POUND
from portico.resolvers.game.world.locations import LOCATIONS, MAX_KEEPER_ITEMS, copy_of
from portico.schema.kinds import Kind

DATABASE = "bench"
_SHOWN = "... on CharacterPayload { character { gold inventory { id } location { locationId characters { name } } } }"
_INPUTS = {"move": "MoveInput", "buy": "BuyInput"}
RICH = 1_000_000


class Player:
    """The player of a character."""

    def __init__(self, http: Connections, subject: str, character: ObjectId) -> None:
        issuer = Authenticator(Settings(jwt_secret=Secret(SECRET)))
        token = issuer.issue(subject, [], now=SystemClock().now(), lasts=timedelta(hours=6))
        self._http = http
        self._headers = {"Authorization": f"Bearer {token}"}
        self._character = Kind.encode_id("Character", character)

    async def ask(self, mutation: str, given: dict[str, Any]) -> Any:
        """Send a mutation, and return its union member. Raise RuntimeError for an error."""
        kind = _INPUTS.get(mutation, "ItemInput")
        text = f"mutation ($input: {kind}!) {{ {mutation}(input: $input) {{ __typename {_SHOWN} }} }}"
        body = {"query": text, "variables": {"input": {"characterId": self._character, **given}}}
        answer = await self._http.post("/graphql", body, self._headers)
        if "errors" in answer:
            raise RuntimeError(str(answer["errors"]))
        return answer["data"][mutation]


class World:
    """Writes rooms and characters directly into the database."""

    def __init__(self, uri: str) -> None:
        self._client: MongoClient[Document] = MongoClient(uri)
        self._db = self._client[DATABASE]

    def close(self) -> None:
        self._client.close()

    def pair(self) -> ObjectId:
        """Store two rooms with an exit to each other: N to the second, S back. Return the id of the first."""
        first, second = ObjectId(), ObjectId()
        exits = {first: {"direction": "N", "to": second}, second: {"direction": "S", "to": first}}
        self._db[LOCATIONS.name].insert_many([room(key, [exits[key]]) for key in (first, second)])
        return first

    def beyond(self, room_id: ObjectId) -> ObjectId:
        """Return the room behind the first exit."""
        found = self._db[LOCATIONS.name].find_one({"_id": room_id})
        assert found is not None
        beyond: ObjectId = found["exits"][0]["to"]
        return beyond

    def server_pid(self) -> int:
        return int(self._client.admin.command("serverStatus")["pid"])

    def lay(self, room_id: ObjectId, count: int) -> list[str]:
        """Lay items on the floor, and return their global ids."""
        items = [item(number) for number in range(count)]
        change = {"$push": {"items": {"$each": items}}, "$inc": {"version": 1, "revision": 1}}
        self._db[LOCATIONS.name].update_one({"_id": room_id}, change)
        return [Kind.encode_id("Item", one["_id"]) for one in items]

    def stock(self, room_id: ObjectId, count: int) -> list[dict[str, str]]:
        """Put shopkeepers with so many items into a room. Return the input of a purchase of each item."""
        keepers, wares = [], []
        for number in range(-(-count // MAX_KEEPER_ITEMS)):
            items = [item(ware) for ware in range(min(count - number * MAX_KEEPER_ITEMS, MAX_KEEPER_ITEMS))]
            keepers.append(keeper(number, items))
            seller = Kind.encode_id("Character", f"{room_id}.{number}")
            wares += [{"shopkeeperId": seller, "itemId": Kind.encode_id("Item", one["_id"])} for one in items]
        change = {"$set": {"keepers": keepers}, "$inc": {"version": 1, "revision": 1}}
        self._db[LOCATIONS.name].update_one({"_id": room_id}, change)
        return wares

    def enter(self, room_id: ObjectId, count: int, name: str) -> list[tuple[str, ObjectId]]:
        """Put new characters into a room. Return the owner and the id of each. Their copies of the room are current."""
        created = [character(f"{name}-{number}") for number in range(count)]
        entries = [entry(one) for one in created]
        change = {"$push": {"characters": {"$each": entries}}, "$inc": {"version": 1, "revision": 1}}
        self._db[LOCATIONS.name].update_one({"_id": room_id}, change)
        stored = self._db[LOCATIONS.name].find_one({"_id": room_id})
        assert stored is not None
        if created:
            self._db[CHARACTERS.name].insert_many([{**one, "location": copy_of(stored)} for one in created])
        self._db[CHARACTERS.name].update_many({"location._id": room_id}, {"$set": {"location": copy_of(stored)}})
        return [(one["owner"], one["_id"]) for one in created]


def room(key: ObjectId, exits: list[Document]) -> Document:
    return {
        "_id": key,
        "name": "A hall",
        "description": "A long hall with a vaulted ceiling.",
        "exits": exits,
        "items": [],
        "characters": [],
        "keepers": [],
        "version": 1,
        "revision": 1,
    }


def item(number: int) -> Document:
    return {
        "_id": ObjectId(),
        "name": f"coin {number}",
        "description": "coin",
        "quantity": 1,
        "bonus": None,
        "weight": POUND // 100,
        "cost": 1,
        "kind": "TREASURE",
        "regions": [],
        "hands": None,
        "capacity": None,
        "inside": None,
    }


def keeper(number: int, items: list[Document]) -> Document:
    return {
        "number": number,
        "name": f"Keeper {number}",
        "class": "Shopkeeper",
        "gold": 0,
        "initial_gold": 0,
        "items": items,
        "buys": [],
        "asks": 100,
        "pays": 50,
    }


def character(name: str) -> Document:
    return {
        "_id": ObjectId(),
        "owner": name,
        "number": 0,
        "name": name,
        "class": "Thief",
        "intrinsics": {"strength": 18, "dexterity": 10, "intelligence": 10, "charisma": 10},
        "health": 100,
        "mana": 100,
        "gold": RICH,
        "initial_gold": RICH,
        "items": [],
        "armor": {},
        "weapons": {},
        "turn": 1,
        "created_at": datetime.now(UTC),
    }


def entry(created: Document) -> Document:
    return {
        "_id": created["_id"],
        "name": created["name"],
        "turn": 1,
        "limit": 18 * 15 * POUND,
        "load": 0,
        "count": 0,
        "took": [],
        "gold": 0,
        "refused": None,
        "gifts": [],
    }
