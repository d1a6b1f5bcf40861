"""What a character wears and wields: references to items that it carries and that are in no container.

Each write is one guarded update of the character. It returns the character, and raises NotFound (the character),
ItemGone, WrongItem, Conflict.
"""

from __future__ import annotations

from collections.abc import Callable

from bson import ObjectId

from portico.resolvers.documents import Document

from . import items
from .action_refusals import ItemGone, WrongItem
from .turn_runs import Acting
from .turns import Plan, act

LEFT, RIGHT, BOTH = "LEFT", "RIGHT", "BOTH"
_TWO = 2


async def wear(acting: Acting, *, item_id: ObjectId, region: str) -> Document:
    """Puts an item on at a region of the body where it fits. Several items can be worn at a region."""

    def change(character: Document) -> Document:
        item = _require_at_hand(character, item_id)
        if region not in item["regions"]:
            raise WrongItem(f"{item['name']} cannot be worn there.")
        worn = character["armor"]
        return {"armor": {**worn, region: [*worn.get(region, ()), item_id]}}

    return await _change(acting, change)


async def wield(acting: Acting, *, item_id: ObjectId, hand: str) -> Document:
    """Takes a weapon into a free hand; a two-handed one into both."""

    def change(character: Document) -> Document:
        item = _require_at_hand(character, item_id)
        if item["hands"] is None:
            raise WrongItem(f"{item['name']} is no weapon.")
        if (item["hands"] == _TWO) != (hand == BOTH):
            raise WrongItem(f"{item['name']} takes {'both hands' if item['hands'] == _TWO else 'one hand'}.")
        held = character["weapons"]
        needed = (LEFT, RIGHT, BOTH) if hand == BOTH else (hand, BOTH)
        if any(held.get(one) is not None for one in needed):
            raise WrongItem("The hand is not free. Unequip what it holds first.")
        return {"weapons": {**held, hand: item_id}}

    return await _change(acting, change)


async def unequip(acting: Acting, *, item_id: ObjectId) -> Document:
    """Takes off what is worn, or lets go of what is wielded. It stays in the inventory."""

    def change(character: Document) -> Document:
        item = _require_item(character, item_id)
        if item_id not in equipped(character):
            raise WrongItem(f"{item['name']} is neither worn nor wielded.")
        armor = {region: [one for one in worn if one != item_id] for region, worn in character["armor"].items()}
        return {
            "armor": {region: worn for region, worn in armor.items() if worn},
            "weapons": {hand: one for hand, one in character["weapons"].items() if one != item_id},
        }

    return await _change(acting, change)


def equipped(character: Document) -> set[ObjectId]:
    """Returns the ids of the items that the character wears and wields."""
    worn = {item_id for region in character["armor"].values() for item_id in region}
    return worn | {item_id for item_id in character["weapons"].values() if item_id is not None}


def require_free(character: Document, item_id: ObjectId) -> list[Document]:
    """Returns an item of the inventory with its contents. Raises ItemGone, WrongItem (it is worn or wielded)."""
    item = _require_item(character, item_id)
    if item_id in equipped(character):
        raise WrongItem(f"{item['name']} is worn or wielded. Unequip it first.")
    return items.with_contents(character["items"], item_id)


def _require_item(character: Document, item_id: ObjectId) -> Document:
    item = items.find(character["items"], item_id)
    if item is None:
        raise ItemGone(str(item_id))
    return item


def _require_at_hand(character: Document, item_id: ObjectId) -> Document:
    """Returns an item of the inventory that can be equipped. Raises ItemGone, WrongItem."""
    item = _require_item(character, item_id)
    if item["inside"] is not None:
        raise WrongItem(f"{item['name']} is inside another item. Take it out first.")
    if item_id in equipped(character):
        raise WrongItem(f"{item['name']} is already worn or wielded.")
    return item


async def _change(acting: Acting, change: Callable[[Document], Document]) -> Document:
    async def plan(character: Document) -> Plan:
        return Plan(None, changes=change(character))

    return await act(acting, plan)
