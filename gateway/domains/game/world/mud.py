"""What objects of MUD files mean for the game.

The files have the type, the values and the weight of an object. They lack where armor is worn and how many hands a
weapon takes, so words of the name decide that.

Source: the table `item_types` in `constants.c` of tbaMUD, and its building documentation (the values of a container).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from portico.gateway.imports.fields import Record, as_list, as_number
from portico.resolvers.errors import InvalidInput
from portico.resolvers.game.world.items import POUND

# The types by their numbers, which shops use.
_TYPES = (
    *("UNDEFINED", "LIGHT", "SCROLL", "WAND", "STAFF", "WEAPON", "FURNITURE", "FREE", "TREASURE", "ARMOR", "POTION"),
    *("WORN", "OTHER", "TRASH", "TRAP", "CONTAINER", "NOTE", "LIQ CONTAINER", "KEY", "FOOD", "MONEY", "PEN", "BOAT"),
    *("FOUNTAIN", "VEHICLE"),
)
_WORN = {"ARMOR", "WORN"}
_REGIONS = {
    "HEAD": {"helmet", "helm", "hat", "cap", "crown", "turban", "hood", "cowl", "mask", "spectacles", "hairpin"},
    "HANDS": {"glove", "gloves", "gauntlets", "ring", "bracers", "bracelet", "wristguard", "manacles"},
    "FEET": {"boots", "sandals", "shoes", "shoe", "slippers"},
}
_TWO_HANDED = {"halberd", "bow", "lance", "spear", "pike", "staff", "two-handed"}
_ARTICLE = re.compile(r"^(a|an|the|some)\s+", re.IGNORECASE)
_WORD = re.compile(r"[a-z]+(?:-[a-z]+)*")


def fields_of_object(record: Record, kind: str) -> dict[str, Any]:
    """Returns the fields of an item that the record describes by its values and its name. Raises InvalidInput."""
    values = [as_number(value, "values", str(place)) for place, value in enumerate(as_list(record["values"], "values"))]
    words = _WORD.findall(record["name"].lower())
    # A container's first value is the pounds that it can hold.
    capacity = round(values[0]) * POUND if kind == "CONTAINER" and values and values[0] >= 0 else None
    return {
        "description": _ARTICLE.sub("", record["name"].strip()),
        "regions": _regions_of(words) if kind in _WORN else [],
        "hands": (2 if _TWO_HANDED.intersection(words) else 1) if kind == "WEAPON" else None,
        "capacity": capacity,
    }


def _regions_of(words: Sequence[str]) -> list[str]:
    return next(([region] for region, found in _REGIONS.items() if found.intersection(words)), ["BODY"])


def kinds_of(types: Sequence[str]) -> list[str]:
    """Returns the kinds of items with these type numbers; a number may be followed by a keyword, which is ignored.

    Raises:   InvalidInput for an unknown number.
    """
    found = []
    for place, one in enumerate(types):
        number = one.split()[0] if one.split() else ""
        if not (number.isascii() and number.isdecimal() and int(number) < len(_TYPES)):
            raise InvalidInput(f"{one!r} is no type of a MUD", "buys_types", str(place))
        found.append(_TYPES[int(number)])
    return found
