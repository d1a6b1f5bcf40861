"""Items, wherever they are."""

from collections.abc import Iterable

import strawberry

from portico.resolvers.documents import Document
from portico.resolvers.game.world.items import POUND
from portico.resolvers.game.world.items import Item as ItemDocument
from portico.schema.fields import Source, computed, stored
from portico.schema.kinds import Kind
from portico.schema.scalars import BigInt

# The name in the ids of items. Items are no nodes: they are read with the place where they are.
ITEM = "Item"


def trees_of(items: Iterable[Source]) -> list[Document]:
    """Returns the items of a flat list that are in no other item, each with those inside it in `contents`."""
    found: list[Document] = [{**item, "contents": []} for item in items]
    by_id = {item["_id"]: item for item in found}
    for item in found:
        if (holder := by_id.get(item["inside"])) is not None:
            holder["contents"].append(item)
    return [item for item in found if item["inside"] not in by_id]


def description_of(item: ItemDocument) -> str:
    """Returns the text for display, e.g. `+3 wizard's hat` or `12 arrows`."""
    parts = (
        str(item["quantity"]) if item["quantity"] > 1 else "",
        f"{item['bonus']:+d}" if item.get("bonus") else "",
        item["description"],
    )
    return " ".join(part for part in parts if part)


@strawberry.type(description="A thing in the world. It is in exactly one place at a time.")
class Item:
    id: strawberry.ID = computed(lambda item: Kind.encode_id(ITEM, item["_id"]), "_id", description="It never changes.")
    name: str = stored(description="Up to 200 characters.")
    quantity: int = stored(description="At least 1. The item moves as a whole.")
    bonus: int | None = stored(description="The enchantment; null for none.")
    description: str = computed(
        description_of, "quantity", "bonus", "description", description="For display, e.g. `+3 wizard's hat`."
    )
    weight: float = computed(
        lambda item: item["weight"] / POUND, "weight", description="Pounds; not for what is inside."
    )
    # A shopkeeper's item has a price of its own.
    price: BigInt | None = computed(
        lambda item: item.get("price", item["cost"]),
        "price",
        "cost",
        description="Gold pieces; in a shopkeeper's inventory, what it asks for it. Null for what cannot be bought.",
    )
    # Each item is in one place, so the contents at all levels are not more than the items of the inventory.
    contents: "list[Item] | None" = computed(
        lambda item: None if item["capacity"] is None else item["contents"],
        "capacity",
        "contents",
        length=1,
        description="What is inside. Null for what cannot hold anything.",
    )
