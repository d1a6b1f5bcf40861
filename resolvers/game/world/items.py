"""Items: embedded documents, each in exactly one place. No item has a document of its own.

A place keeps its items as a flat list, so that an item deep inside a container is found like any other.

Weights, costs and factors are integers: sums of them are exact, so that they never drift beyond a limit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.typed import TypedDict

# An item in a bag in a box in a chest is 4 deep. Clients need a fixed depth, because GraphQL selections are finite.
MAX_DEPTH = 4
MAX_NAME = 200
MAX_DESCRIPTION = 1_000
# Hundredths of a pound.
POUND = 100


class Item(TypedDict):
    """An item. Its `_id` is unique in the whole world and never changes."""

    _id: ObjectId
    # Up to 200 characters, and plain text of up to 1,000 characters.
    name: str
    description: str
    # 1 and more; the item moves as a whole.
    quantity: int
    # The enchantment; None for none.
    bonus: int | None
    # Hundredths of a pound, of the whole item without its contents.
    weight: int
    # Gold pieces, for the whole item; None if it cannot be bought or sold.
    cost: int | None
    # Upper case, e.g. WEAPON or ARMOR; shopkeepers buy by kind.
    kind: str
    # The armor regions where it can be worn, e.g. ["HEAD"]; empty for none.
    regions: list[str]
    # 1 or 2 for a weapon; None for other items.
    hands: int | None
    # Hundredths of a pound that it can hold, with everything inside; None if it holds nothing.
    capacity: int | None
    # The `_id` of the container that it is directly in; None if it is in none.
    inside: ObjectId | None


def find(items: Iterable[Document], item_id: ObjectId) -> Document | None:
    return next((item for item in items if item["_id"] == item_id), None)


def with_contents(items: Sequence[Document], item_id: ObjectId) -> list[Document]:
    """Returns the item and everything inside it, the item first; empty if it is not among these items."""
    top = find(items, item_id)
    if top is None:
        return []
    taken, inside = [top], {item_id}
    rest = [item for item in items if item["inside"] is not None]
    for _ in range(MAX_DEPTH):
        level = [item for item in rest if item["inside"] in inside]
        taken += level
        inside = {item["_id"] for item in level}
    return taken


def without(items: Iterable[Document], taken: Iterable[Document]) -> list[Document]:
    """Returns the items that are not among the taken ones."""
    ids = {item["_id"] for item in taken}
    return [item for item in items if item["_id"] not in ids]


def placed(taken: Sequence[Document], inside: ObjectId | None) -> list[Document]:
    """Returns an item with its contents, as `with_contents` does, after it was put into a container or on its own."""
    return [{**taken[0], "inside": inside}, *taken[1:]]


def weight_of(items: Iterable[Document]) -> int:
    """Returns the weight of the items in hundredths of a pound."""
    return sum(item["weight"] for item in items)


def depth_of(items: Sequence[Document], item_id: ObjectId) -> int:
    """Returns how deep the item lies: 1 for an item that is in no container."""
    by_id = {item["_id"]: item for item in items}
    depth, item = 1, by_id[item_id]
    while item["inside"] is not None and depth <= MAX_DEPTH:
        depth, item = depth + 1, by_id[item["inside"]]
    return depth


def height_of(taken: Sequence[Document]) -> int:
    """Returns how many levels an item with its contents has: 1 for an item that holds nothing."""
    return max(depth_of(placed(taken, None), item["_id"]) for item in taken)


def price_of(cost: int | None, percent: int) -> int | None:
    """Returns what a shopkeeper asks: the cost times the factor, rounded up. None if the item cannot be bought."""
    return None if cost is None else -(-cost * percent // 100)


def payment_of(cost: int | None, percent: int) -> int | None:
    """Returns what a shopkeeper pays: the cost times the factor, rounded down. None if the item cannot be sold."""
    return None if cost is None else cost * percent // 100
