"""The format of imported worlds: rooms, objects and shops, in that of Portico or in that of converted MUD files."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from portico.gateway.imports.fields import (
    Record,
    as_key,
    as_list,
    as_number,
    as_text,
    as_texts,
    object_of,
    optional,
    text_at,
)
from portico.gateway.imports.runs import Importer
from portico.resolvers.errors import InvalidInput
from portico.resolvers.game.world import locations, world_placing
from portico.resolvers.game.world.characters import REGIONS
from portico.resolvers.game.world.items import POUND
from portico.resolvers.game.world.world_imports import (
    PURSE,
    WARES,
    ObjectRecord,
    RoomRecord,
    ShopRecord,
    WorldRecord,
    import_world,
)

from . import mud

_DIRECTIONS = {"u": "UP", "d": "DOWN", **{name.lower(): name for name in locations.DIRECTIONS}}
# Bounds of numbers. A BigInt holds sums of many such costs exactly.
_MOST_GOLD = 10**9
_MOST_POUNDS = 10**5
_MOST_PERCENT = 100_000


def world(start: Sequence[str] = ()) -> Importer:
    """Returns the importer of a world. `start` has the ids of the rooms where new characters start, in order."""

    def read(given: Any) -> WorldRecord:
        record = world_record(given)
        if isinstance(record, RoomRecord) and record.id in start:
            record.start = list(start).index(record.id)
        return record

    return Importer(
        read,
        lambda record: record.key,
        import_world,
        lacks=lambda record: record.lacks,
        finish=world_placing.place_objects,
        options=_OPTIONS,
        configure=world,
    )


_OPTIONS = (
    Importer.Option(
        "start", list[str], "For a world: a room where new characters start, by its id. Can be repeated.", "ROOM"
    ),
)


def world_record(given: Any) -> WorldRecord:
    """Parses a record. Ignores fields that it does not know. Raises InvalidInput.

    A record with `exits` is a room, one with `keeper` a shop, and one with `type` an object. `docs/importing.md`
    lists the fields. An object with `values`, or a shop with `profit_buy`, is in the format of MUD files.
    """
    record = object_of(given, None)
    if "keeper" in record:
        return _shop(record)
    if "exits" in record:
        return _room(record)
    if "type" in record:
        return _object(record)
    raise InvalidInput("must be a room with `exits`, an object with a `type`, or a shop with a `keeper`")


def _room(record: Record) -> RoomRecord:
    exits: dict[str, str] = {}
    for name, to in object_of(record["exits"], None, "exits").items():
        direction = _DIRECTIONS.get(name.lower())
        if direction is None:
            raise InvalidInput("must be n, s, e, w, up or down", "exits", name)
        if direction in exits:
            raise InvalidInput("is given twice", "exits", name)
        exits[direction] = _id(to, "exits", name)
    return RoomRecord(
        id=_id(record.get("id"), "id"),
        name=text_at(record, "name"),
        description=_one_line(text_at(record, "description")),
        exits=exits,
        zone=optional(record, "zone", _id),
        start=optional(record, "start", _whole),
    )


def _object(record: Record) -> ObjectRecord:
    name, kind = text_at(record, "name"), text_at(record, "type").upper()
    fields = {
        "name": name,
        "kind": as_key(kind, "type"),
        "quantity": optional(record, "quantity", _whole) or 1,
        "weight": round((optional(record, "weight", _pounds) or 0) * POUND),
        "cost": optional(record, "cost", _gold),
        "bonus": optional(record, "bonus", _small),
    }
    if "values" in record:
        fields |= mud.fields_of_object(record, kind)
    else:
        hands = optional(record, "hands", _whole)
        if hands not in (None, 1, 2):
            raise InvalidInput("must be 1 or 2", "hands")
        capacity = optional(record, "capacity", _pounds)
        fields |= {
            "description": optional(record, "description", as_text) or name,
            "regions": _regions(record),
            "hands": hands,
            "capacity": None if capacity is None else round(capacity * POUND),
        }
    return ObjectRecord(
        id=_id(record.get("id"), "id"),
        fields=fields,
        zone=optional(record, "zone", _id),
        room=optional(record, "room", _id),
        contents=optional(record, "contents", _ids) or (),
    )


def _shop(record: Record) -> ShopRecord:
    is_mud = "profit_buy" in record
    rooms = _ids(record.get("rooms"), "rooms") if is_mud else [_id(record.get("room"), "room")]
    if not rooms:
        raise InvalidInput("must not be empty", "rooms")
    asks, pays, buys = ("profit_buy", "profit_sell", "buys_types") if is_mud else ("asks", "pays", "buys")
    kinds = optional(record, buys, as_texts) or []
    copies = optional(record, "copies", _whole)
    gold = optional(record, "gold", _gold)
    return ShopRecord(
        id=_id(record.get("id"), "id"),
        room=rooms[0],
        keeper=text_at(record, "keeper"),
        wares=_ids(record.get("items"), "items"),
        buys=mud.kinds_of(kinds) if is_mud else [kind.upper() for kind in kinds],
        asks=_percent(record, asks),
        pays=_percent(record, pays),
        character_class=optional(record, "class", as_key) or "shopkeeper",
        gold=PURSE if gold is None else gold,
        copies=WARES if copies is None else copies,
    )


def _id(value: Any, *path: str) -> str:
    """Returns the id of a room, an object or a shop: a string, or a number, which stands for its digits."""
    if value is None:
        raise InvalidInput("is missing", *path)
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise InvalidInput("must be a string or a whole number", *path)
    key = as_key(str(value).strip(), *path)
    if not key:
        raise InvalidInput("must not be empty", *path)
    return key


def _ids(value: Any, *path: str) -> list[str]:
    return [_id(one, *path, str(place)) for place, one in enumerate(as_list(value, *path))]


def _one_line(text: str) -> str:
    """Returns the text without the line breaks and indents of files with lines of a fixed width."""
    return " ".join(text.split())


def _regions(record: Record) -> list[str]:
    regions = [region.upper() for region in optional(record, "regions", as_texts) or []]
    for place, region in enumerate(regions):
        if region not in REGIONS:
            raise InvalidInput(f"must be one of {', '.join(REGIONS)}", "regions", str(place))
    return regions


def _number(value: Any, low: int, high: int, *path: str) -> float:
    number = as_number(value, *path)
    if not low <= number <= high:
        raise InvalidInput(f"must be from {low:,} to {high:,}", *path)
    return number


def _whole(value: Any, *path: str, low: int = 0, high: int = 1_000_000) -> int:
    number = _number(value, low, high, *path)
    if number != int(number):
        raise InvalidInput("must be a whole number", *path)
    return int(number)


def _small(value: Any, *path: str) -> int:
    return _whole(value, *path, low=-100, high=100)


def _gold(value: Any, *path: str) -> int:
    return _whole(value, *path, high=_MOST_GOLD)


def _pounds(value: Any, *path: str) -> float:
    return _number(value, 0, _MOST_POUNDS, *path)


def _percent(record: Record, name: str) -> int:
    """Returns a factor in percent: 2.25 is 225. Computed in decimals, as it is written."""
    if record.get(name) is None:
        raise InvalidInput("is missing", name)
    _number(record[name], 0, _MOST_PERCENT // 100, name)
    return int((Decimal(str(record[name])) * 100).to_integral_value())
