"""Imports a world: rooms, objects and shops. Safe to repeat: no item and no gold is made twice.

What an import makes is recorded where it is made, by the same update:

* A room lists in `stocked` the ids of the objects that lie on its floor from the beginning.
* A shopkeeper lists its wares in `stocked`. It has the id of its shop in `key`, and gets its gold when it is made.
* A blueprint has the place of an object or a shop, which never changes.

So players can take, buy and sell things. A later import changes texts, exits and prices, and makes only what is new.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bson import ObjectId
from pymongo.errors import BulkWriteError, DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput
from portico.resolvers.import_outcomes import Outcome, outcome_of, refused_row, rejected_rows
from portico.resolvers.texts import require_line, require_text
from portico.resolvers.writes.marks import derived_id

from . import blueprints, locations
from .blueprints import BLUEPRINTS, OBJECT, SHOP
from .items import MAX_DEPTH, MAX_DESCRIPTION, MAX_NAME
from .locations import LOCATIONS
from .room_edits import rewrite_room

# What a shop has of each of its wares, and what its shopkeeper can pay with, unless the record says otherwise.
WARES, PURSE = 5, 10_000


@dataclass(kw_only=True)
class WorldRecord:
    """`lacks` names what the record refers to and what does not exist yet: a room or an object."""

    id: str
    lacks: str = ""
    # The outcome of the first part of a record that waits for its second part.
    done: Outcome | None = None

    @property
    def key(self) -> tuple[str, str]:
        return type(self).__name__, self.id


@dataclass(kw_only=True)
class RoomRecord(WorldRecord):
    """A room. `exits` has ids of rooms by direction. `start` is its place among the rooms where characters start."""

    name: str
    description: str
    exits: Mapping[str, str]
    zone: str | None = None
    start: int | None = None


@dataclass(kw_only=True)
class ObjectRecord(WorldRecord):
    """An object. `fields` as in `blueprints`; `room` is where it lies, `contents` the ids of the objects inside."""

    fields: Mapping[str, Any]
    zone: str | None = None
    room: str | None = None
    contents: Sequence[str] = ()


@dataclass(kw_only=True)
class ShopRecord(WorldRecord):
    """A shopkeeper with its wares, the ids of objects. `asks` and `pays` are percentages of an item's cost."""

    room: str
    keeper: str
    wares: Sequence[str]
    buys: Sequence[str]
    asks: int
    pays: int
    character_class: str = "shopkeeper"
    gold: int = PURSE
    copies: int = WARES


@dataclass
class _Known:
    """What exists of what the records of a batch are, and refer to."""

    rooms: dict[ObjectId, Document] = field(default_factory=dict)
    targets: set[ObjectId] = field(default_factory=set)
    objects: dict[str, Document] = field(default_factory=dict)


def room_id(key: str) -> ObjectId:
    """Returns the `_id` of a room with this id in the file."""
    return derived_id("world", key)


async def import_world(db: Database, records: Sequence[WorldRecord], *, now: datetime) -> list[Outcome]:
    """Stores rooms, objects and shops. Each key may occur once.

    Returns:  the outcome of each record. A record waits for the rooms and objects that it refers to. A room is stored
              at once, and gets the exits to later rooms when it is stored again.
    Writes:   game.blueprints, game.locations, game.characters (copies of rooms); a few commands for each record.
    """
    known = await _read(db, records)
    outcomes = await _insert_rooms(db, records, known)
    for number, record in enumerate(records):
        if number not in outcomes:
            outcomes[number] = _in_parts(record, await outcome_of(_put(db, record, known, now)))
    return [outcomes[number] for number in range(len(records))]


def _put(db: Database, record: WorldRecord, known: _Known, now: datetime) -> Awaitable[Outcome]:
    match record:
        case RoomRecord():
            return _update_room(db, record, known, now)
        case ObjectRecord():
            return _put_object(db, record, known, now)
        case ShopRecord():
            return _put_shop(db, record, known, now)
    raise TypeError(type(record))


def _in_parts(record: WorldRecord, outcome: Outcome) -> Outcome:
    """Returns the outcome of all parts: a record that was created before it waited is created, not changed."""
    if outcome in ("unchanged", "changed") and record.done is not None:
        return record.done if record.done != "unchanged" else outcome
    return outcome


async def _read(db: Database, records: Sequence[WorldRecord]) -> _Known:
    rooms = [room_id(one.id) for one in records if isinstance(one, RoomRecord)]
    targets = {room_id(to) for one in records if isinstance(one, RoomRecord) for to in one.exits.values()}
    targets |= {room_id(one.room) for one in records if isinstance(one, ObjectRecord | ShopRecord) and one.room}
    wanted = [one.id for one in records if isinstance(one, ObjectRecord)]
    wanted += [content for one in records if isinstance(one, ObjectRecord) for content in one.contents]
    known = _Known(objects=await blueprints.find_objects(db, wanted))
    if rooms:
        known.rooms = await locations.find_by_ids(db, rooms)
    if targets:
        known.targets = set(await locations.find_by_ids(db, list(targets), {"_id": 1}))
    known.targets |= set(known.rooms)
    return known


async def _insert_rooms(db: Database, records: Sequence[WorldRecord], known: _Known) -> dict[int, Outcome]:
    """Inserts the new rooms among the records, by one command. Returns the outcome of each, by its number."""
    outcomes: dict[int, Outcome] = {}
    new: dict[int, Document] = {}
    there = known.targets | {room_id(one.id) for one in records if isinstance(one, RoomRecord)}
    for number, record in enumerate(records):
        if isinstance(record, RoomRecord) and room_id(record.id) not in known.rooms:
            try:
                new[number] = {"_id": room_id(record.id), "key": record.id, **_fields_of(record, there), **_EMPTY}
            except InvalidInput as error:
                outcomes[number] = error
    if new:
        outcomes |= dict.fromkeys(new, "created")
        try:
            await db[LOCATIONS.name].insert_many(new.values(), ordered=False)
        except BulkWriteError as error:
            numbers = list(new)
            for row in rejected_rows(error):
                number = numbers[row["index"]]
                outcomes[number] = refused_row(row) or Conflict("Another import has just stored the room.")
    known.targets |= {new[number]["_id"] for number in new if outcomes[number] == "created"}
    for number, record in enumerate(records):
        if number not in new or not isinstance(record, RoomRecord):
            continue
        # If a room of this batch could not be stored, an exit leads nowhere until the record is stored again.
        if outcomes[number] == "created" and (lacks := _lacking_exit(record, known.targets)):
            outcomes[number] = _waiting(record, "created", lacks)
    return outcomes


_EMPTY: Document = {"items": [], "characters": [], "keepers": [], "stocked": [], "version": 1, "revision": 1}


def _fields_of(record: RoomRecord, targets: set[ObjectId]) -> Document:
    """Returns the fields of a room that a later import can change. Raises InvalidInput."""
    exits = [{"direction": way, "to": room_id(to)} for way, to in record.exits.items() if room_id(to) in targets]
    fields = {
        "name": require_line(record.name, "name", longest=MAX_NAME),
        "description": require_text(record.description, "description", longest=locations.MAX_DESCRIPTION),
        "exits": exits,
    }
    return fields | {path: value for path in ("zone", "start") if (value := getattr(record, path)) is not None}


def _lacking_exit(record: RoomRecord, targets: set[ObjectId]) -> str:
    """Returns which exit leads to a room that does not exist; an empty text if none does."""
    lacking = ((way, to) for way, to in record.exits.items() if room_id(to) not in targets)
    return next((f"exits.{way}: there is no room {to!r}" for way, to in lacking), "")


async def _update_room(db: Database, record: RoomRecord, known: _Known, now: datetime) -> Outcome:
    room = known.rooms[room_id(record.id)]
    fields = _fields_of(record, known.targets)
    is_changed = await rewrite_room(db, room["_id"], lambda old: {**old, **fields}, known=room, now=now)
    outcome: Outcome = "changed" if is_changed else "unchanged"
    lacks = _lacking_exit(record, known.targets)
    return _waiting(record, outcome, lacks) if lacks else outcome


async def _put_object(db: Database, record: ObjectRecord, known: _Known, now: datetime) -> Outcome:
    fields = dict(record.fields)
    fields["name"] = require_line(fields["name"], "name", longest=MAX_NAME)
    fields["description"] = require_text(fields["description"], "description", longest=MAX_DESCRIPTION)
    for content in record.contents:
        if content not in known.objects:
            return _waiting(record, None, f"contents: there is no object {content!r}")
    if record.room is not None and room_id(record.room) not in known.targets:
        return _waiting(record, None, f"room: there is no room {record.room!r}")
    fields["height"] = blueprints.height_of([known.objects[one] for one in record.contents])
    if fields["height"] > MAX_DEPTH:
        raise InvalidInput(f"The object is nested more than {MAX_DEPTH} deep.", "contents")
    fields |= {"contents": list(record.contents), "zone": record.zone}
    old = known.objects.get(record.id)
    outcome: Outcome = "created" if old is None else "unchanged"
    key = blueprints.key_of(OBJECT, record.id)
    if old is None or any(name not in old or old[name] != value for name, value in fields.items()):
        outcome = "created" if old is None else "changed"
        try:
            await db[BLUEPRINTS.name].update_one({"_id": key}, {"$set": fields}, upsert=True)
        except DuplicateKeyError:
            raise Conflict("Another import has just stored the object.") from None
        known.objects[record.id] = {**(old or {}), "_id": key, **fields}
    if record.room is not None:
        place = await blueprints.settle(db, key, room_id(record.room))
        is_new = await lay_down(db, place, [record.id], now=now)
        outcome = "changed" if is_new and outcome == "unchanged" else outcome
    return outcome


async def lay_down(db: Database, place: ObjectId, ids: Sequence[str], *, now: datetime) -> bool:
    """Puts the objects on the floor of their room, those that have not been put there before. Returns whether any was.

    Raises:   InvalidInput if the room has no place for them; NotFound.
    """
    described = await blueprints.find_with_contents(db, ids)

    def stock(room: Document) -> Document:
        new = [one for one in ids if one not in room.get("stocked", ())]
        made = [item for one in new for item in blueprints.items_of(described, one, str(place))]
        if made and len(room["items"]) + len(made) > locations.MAX_ITEMS:
            raise InvalidInput(f"The room can hold {locations.MAX_ITEMS} items.", "room")
        if not new:
            return room
        return {**room, "items": [*room["items"], *made], "stocked": [*room.get("stocked", ()), *new]}

    return await rewrite_room(db, place, stock, now=now)


async def _put_shop(db: Database, record: ShopRecord, known: _Known, now: datetime) -> Outcome:
    name = require_line(record.keeper, "keeper", longest=MAX_NAME)
    character_class = require_line(record.character_class, "class", longest=MAX_NAME)
    place = room_id(record.room)
    if place not in known.targets:
        return _waiting(record, None, f"room: there is no room {record.room!r}")
    described = await blueprints.find_with_contents(db, record.wares)
    for ware in record.wares:
        if ware not in described:
            return _waiting(record, None, f"items: there is no object {ware!r}")
    if await blueprints.settle(db, blueprints.key_of(SHOP, record.id), place) != place:
        raise InvalidInput("The shop is in another room already. Shops do not move.", "room")
    fields = {
        "name": name,
        "class": character_class,
        "buys": list(record.buys),
        "asks": record.asks,
        "pays": record.pays,
    }
    is_new = False

    def stock(room: Document) -> Document:
        nonlocal is_new
        old = next((one for one in room["keepers"] if one.get("key") == record.id), None)
        is_new = old is None
        if is_new and len(room["keepers"]) >= locations.MAX_KEEPERS:
            raise InvalidInput(f"A room can have {locations.MAX_KEEPERS} shopkeepers.", "room")
        keeper = old or _new_keeper(record, len(room["keepers"]))
        keeper = _with_wares({**keeper, **fields}, record, described)
        others = [one for one in room["keepers"] if one is not old]
        return {**room, "keepers": sorted([*others, keeper], key=lambda one: one["number"])}

    is_changed = await rewrite_room(db, place, stock, now=now)
    return "created" if is_new else "changed" if is_changed else "unchanged"


def _new_keeper(record: ShopRecord, number: int) -> Document:
    money = {"gold": record.gold, "initial_gold": record.gold}
    return {"number": number, "key": record.id, **money, "items": [], "stocked": []}


def _with_wares(keeper: Document, record: ShopRecord, described: Mapping[str, Document]) -> Document:
    wanted = dict.fromkeys(record.wares) if record.copies else ()
    new = [ware for ware in wanted if ware not in keeper["stocked"]]
    made = [
        item
        for ware in new
        for number in range(record.copies)
        for item in blueprints.items_of(described, ware, blueprints.ware_origin(record.id, number))
    ]
    if made and len(keeper["items"]) + len(made) > locations.MAX_KEEPER_ITEMS:
        raise InvalidInput(f"A shopkeeper can have {locations.MAX_KEEPER_ITEMS} items.", "items")
    return {**keeper, "items": [*keeper["items"], *made], "stocked": [*keeper["stocked"], *new]}


def _waiting(record: WorldRecord, done: Outcome | None, lacks: str) -> Outcome:
    record.lacks = lacks
    if record.done is None:
        record.done = done
    return "waiting"
