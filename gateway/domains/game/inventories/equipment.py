"""Imports the wares of a shop, in the format of Portico or in that of the equipment lists of the D&D 5e API."""

from __future__ import annotations

from functools import partial
from typing import Any

from portico.gateway.imports.fields import (
    Record,
    as_number,
    as_text,
    as_texts,
    key_at,
    object_of,
    optional,
    text_at,
)
from portico.gateway.imports.runs import Importer
from portico.resolvers.errors import InvalidInput
from portico.resolvers.game.inventories.stack_imports import StackRecord, import_stack
from portico.resolvers.game.inventories.stacks import Place

OWNER = "npc:outfitter"
INVENTORY = "shop"
# The lists say what an item is, and not how many of it a shop has.
IN_STOCK = 100
_OWN = {"category", "itemId", "name", "quantity", "description", "image"}
_OPTIONS = (
    Importer.Option("owner", str | None, f"The owner of the shop. Default: {OWNER}.", "NAME"),
    Importer.Option(
        "images",
        str | None,
        "The address before image paths that begin with a slash. Without it, such images are left out.",
        "URL",
    ),
)


def equipment(owner: str = OWNER, images: str = "") -> Importer:
    """Returns the importer of wares into the inventory `shop` of this owner."""
    read = partial(ware, owner=owner, images=images.rstrip("/"))
    return Importer(
        read,
        lambda record: record.key,
        import_stack,
        is_parallel=True,
        is_single=True,
        options=_OPTIONS,
        configure=equipment,
    )


def ware(given: Any, *, owner: str = OWNER, images: str = "") -> StackRecord:
    """Parses one record. Raises InvalidInput.

    * {"category", "itemId", "name", "quantity", "description"?, "image"?}
    * {"index", "name", "equipment_category": {"index"}, "desc"?, "image"?, …}: an item of an equipment list, of which
      the shop gets 100. Other fields are ignored.
    """
    place = Place(owner, INVENTORY)
    record = object_of(given, None)
    if "equipment_category" in record:
        return _listed(record, place, images)
    object_of(record, _OWN)
    quantity = as_number(record.get("quantity"), "quantity")
    if not float(quantity).is_integer():
        raise InvalidInput("must be a whole number", "quantity")
    return StackRecord(
        place,
        key_at(record, "category"),
        key_at(record, "itemId"),
        text_at(record, "name"),
        int(quantity),
        optional(record, "description", as_text),
        _image(record, images),
    )


def _listed(record: Record, place: Place, images: str) -> StackRecord:
    category = object_of(record["equipment_category"], None, "equipment_category")
    if "index" not in category:
        raise InvalidInput("is missing", "equipment_category", "index")
    texts: list[str] | None = optional(record, "desc", as_texts)
    description = "\n\n".join(text for text in texts or () if text.strip())
    return StackRecord(
        place,
        key_at(category, "index"),
        key_at(record, "index"),
        text_at(record, "name"),
        IN_STOCK,
        description or None,
        _image(record, images),
    )


def _image(record: Record, images: str) -> str | None:
    """Returns the address of the image; None if it has none, or only the path on another site."""
    image: str | None = optional(record, "image", as_text)
    if image is None or not image.startswith("/"):
        return image
    return f"{images}{image}" if images else None
