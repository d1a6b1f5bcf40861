"""Inventories of any size: a document for each stack, so many of one kind of item. The collection and its reads.

An inventory has no document of its own, so it costs nothing until something is in it, and no write of one stack delays
a write of another. What shows a stack is in it, so a page is one scan of one index.

Source: the model of an item a row, found by owner, inventory, category and item id, is that of game back ends on
key-value stores. Names, prefixes and conserved trades are added.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal, NamedTuple, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.texts import MAX_AUTHOR, check_length, fold, prefix_range, require_line, require_text, trimmed
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

# The largest integer that a JSON number represents exactly.
MAX_QUANTITY = 2**53 - 1
# The sums of all grants and of all that was consumed. The database can store 2^63 - 1.
MAX_COUNTED = 2**60
MAX_INVENTORY_NAME = 64
MAX_CATEGORY = 100
MAX_ITEM_ID = 200
MAX_NAME = 200
MAX_DESCRIPTION = 10_000
MAX_IMAGE = 2_000
# The owners that begin with this are shops and NPCs. All others are the subjects of players.
NPC_PREFIX = "npc:"
# What everybody may look into.
OPEN_INVENTORIES = ("shop", "npc")
_MAX_PREFIX = 200
# Two slashes at the start of a path would name another site.
_IMAGE = re.compile(r"(?:https?:/)?/[^/\s\\][^\s\\]*")
_ID = re.compile(r"[0-9a-f]{40}")
_NOT_EMPTY: Document = {"quantity": {"$gt": 0}}
# What a new stack copies from the stack of another owner.
DISPLAY = ("name", "name_key", "description", "image")

_PLACE = [("owner", ASCENDING), ("inventory", ASCENDING)]


def _listed(*paths: str) -> IndexModel:
    """Returns an index of the stacks that lists show. A condition keeps those out that are empty."""
    keys = [*_PLACE, *((path, ASCENDING) for path in (*paths, "_id"))]
    return IndexModel(keys, partialFilterExpression=_NOT_EMPTY)


class Note(TypedDict):
    """A settlement in flight, see `exchanges`."""

    key: str
    # What it adds to the quantity.
    delta: int
    at: datetime
    record: ObjectId
    round: int | None


class StackDocument(Repeatable):
    """A stack. Its `_id` is derived from owner, inventory, category and item id."""

    _id: str
    # The subject of a player, or `npc:` and the name of an NPC or a shop.
    owner: str
    # The name of one of the owner's inventories, e.g. `bag`.
    inventory: str
    # What kind of item it is, e.g. `weapon`.
    category: str
    # The item within the category.
    item_id: str
    # For display.
    name: str
    description: str | None
    image: str | None
    # The name, folded for searches in any case.
    name_key: str
    # At least 0. A stack that has become empty stays, but no list shows it.
    quantity: int
    # The sum of all grants, ever, and of all that was consumed; each at most 2^60.
    granted: int
    consumed: int
    notes: NotRequired[list[Note]]
    # Set by an import, which grants once.
    imported: NotRequired[bool]


STACKS = CollectionSpec(
    "game.stacks",
    document=StackDocument,
    indexes=[
        _listed("category", "item_id"),
        _listed("name_key"),
        _listed("category", "name_key"),
        IndexModel([("notes.at", ASCENDING)], partialFilterExpression={"notes.at": {"$exists": True}}),
    ],
    shard_key={"_id": "hashed"},
)

SortName = Literal["CATEGORY", "NAME"]
_SORTS: dict[SortName, Sort] = {
    "CATEGORY": Sort((("category", 1), ("item_id", 1))),
    "NAME": Sort((("name_key", 1),)),
}


class Place(NamedTuple):
    """An inventory."""

    owner: str
    name: str


class Wanted(NamedTuple):
    """So many of an item."""

    category: str
    item_id: str
    quantity: int


class Viewer(NamedTuple):
    """Who reads or writes. `subject` is None for an anonymous caller."""

    subject: str | None
    is_game_master: bool

    def owns(self, owner: str) -> bool:
        """Returns whether the viewer may act for this owner. No player owns what belongs to a shop or an NPC."""
        if self.is_game_master:
            return True
        return self.subject is not None and owner == self.subject and not owner.startswith(NPC_PREFIX)

    def sees(self, place: Place) -> bool:
        return self.owns(place.owner) or place.name in OPEN_INVENTORIES


def stack_id(place: Place, category: str, item_id: str) -> str:
    """Returns the `_id` of a stack. Different stacks have different texts, and so different hashes."""
    text = json.dumps([place.owner, place.name, category, item_id])
    return hashlib.blake2b(text.encode(), digest_size=20).hexdigest()


def parse_id(text: str) -> str:
    """Parses the `_id` of a stack. Raises ValueError."""
    if not _ID.fullmatch(text):
        raise ValueError(text)
    return text


def listing(place: Place, *, category: str | None, name_prefix: str | None, sort: SortName) -> Listing:
    """Returns the stacks of an inventory. With a prefix, they are always sorted by name, as their index is.

    Raises InvalidInput for a prefix that is too long.
    """
    wanted: Document = {"owner": place.owner, "inventory": place.name, **_NOT_EMPTY}
    if category is not None:
        wanted["category"] = trimmed(category)
    if name_prefix:
        check_length(name_prefix, "name_prefix", longest=_MAX_PREFIX)
        # Folding removes the blank that ends a whole word.
        prefix = fold(name_prefix) + (" " if name_prefix[-1].isspace() and not name_prefix.isspace() else "")
        if prefix:
            wanted["name_key"] = prefix_range(prefix)
        sort = "NAME"
    return Listing(wanted, _SORTS[sort])


async def find_by_ids(db: Database, ids: Sequence[str], projection: Any = None) -> dict[str, Document]:
    """Returns the stacks with these ids, also empty ones. One command."""
    found = await db[STACKS.name].find({"_id": {"$in": list(ids)}}, projection, batch_size=len(ids) + 1).to_list()
    return {stack["_id"]: stack for stack in found}


def require_place(place: Place, *path: str) -> Place:
    """Returns the inventory with its names checked. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        owner = check(require_line, place.owner, *path, "owner", longest=MAX_AUTHOR)
        name = check(require_line, place.name, *path, "name", longest=MAX_INVENTORY_NAME)
    if (owner, name) != place:
        text = "The names of an owner and an inventory have no surrounding blanks."
        raise InvalidInput(text, *path, code=InvalidInput.WRONG_FORMAT)
    return place


def require_wanted(wanted: Wanted, *path: str) -> Wanted:
    """Returns the item with its quantity checked. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        category = check(require_line, wanted.category, *path, "category", longest=MAX_CATEGORY)
        item_id = check(require_line, wanted.item_id, *path, "item_id", longest=MAX_ITEM_ID)
        if not 1 <= wanted.quantity <= MAX_QUANTITY:
            text = f"`quantity` must be between 1 and 2^53 - 1; got {wanted.quantity}."
            check.refuse(
                InvalidInput(text, *path, "quantity", code=InvalidInput.OUT_OF_RANGE, least=1, most=MAX_QUANTITY)
            )
    return Wanted(category, item_id, wanted.quantity)


def display_of(name: str, description: str | None, image: str | None) -> Document:
    """Returns the fields that show an item. Raises InvalidInput."""
    with InvalidInput.collect() as check:
        shown = check(require_line, name, "name", longest=MAX_NAME)
        if description is not None:
            description = check(require_text, description, "description", longest=MAX_DESCRIPTION)
        if image is not None:
            image = check(_require_image, image)
    return {"name": shown, "name_key": fold(shown), "description": description, "image": image}


def _require_image(image: str) -> str:
    address = require_text(image, "image", longest=MAX_IMAGE)
    if not _IMAGE.fullmatch(address):
        text = "An image is an http or https address, or a path that begins with a slash."
        raise InvalidInput(text, "image", code=InvalidInput.WRONG_FORMAT)
    return address


def identity(place: Place, category: str, item_id: str) -> Document:
    """Returns the fields that never change, for a new stack."""
    return {"owner": place.owner, "inventory": place.name, "category": category, "item_id": item_id}


def may_be_granted(amount: int) -> Document:
    """Returns a guard: the stack has room for a grant of this amount, in its quantity and in the sum of its grants."""
    return {**has_room(amount), "granted": {"$lte": MAX_COUNTED - amount}}


def require_grantable(stack: Document, item_id: str, amount: int) -> None:
    """Requires that the stack has room for a grant, apart from what is in flight. Raises InvalidInput."""
    if stack["quantity"] + amount > MAX_QUANTITY:
        raise no_room(item_id, "quantity")
    if stack["granted"] + amount > MAX_COUNTED:
        raise InvalidInput(
            f"At most 2^60 items can be granted to a stack in all; {item_id!r} has got {stack['granted']:,}. "
            "Use another item id or another inventory.",
            "quantity",
            code=InvalidInput.OUT_OF_RANGE,
            most=MAX_COUNTED - stack["granted"],
        )


def require_consumable(stack: Document, item_id: str, amount: int) -> None:
    """Requires that this many more items can be consumed in all. Raises InvalidInput."""
    if stack["consumed"] + amount > MAX_COUNTED:
        raise InvalidInput(
            f"At most 2^60 items of a stack can be consumed in all; {item_id!r} has lost {stack['consumed']:,}. "
            "Move the items to another inventory and consume them there.",
            "stack",
            "quantity",
            code=InvalidInput.OUT_OF_RANGE,
            most=MAX_COUNTED - stack["consumed"],
        )


def no_room(item_id: str, *path: str) -> InvalidInput:
    return InvalidInput(
        f"The inventory would hold more than 2^53 - 1 of {item_id!r}.", *path, code=InvalidInput.OUT_OF_RANGE
    )


def has_room(amount: int) -> Document:
    """Returns a guard: the stack has room for the amount, and for everything in flight."""
    in_flight = {"$sum": {"$map": {"input": "$notes", "in": {"$abs": "$$this.delta"}}}}
    return {"$expr": {"$lte": [{"$add": ["$quantity", in_flight, amount]}, MAX_QUANTITY]}}
