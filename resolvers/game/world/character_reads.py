"""Reads of characters as players see them: with what their rooms have decided.

A call is answered when the room has decided its turn, and the character gets the outcome a moment later; see
`turn_ends`. Until then it has a slot. So a reader that meets a slot reads the room after the character:

* If the entry has an earlier turn, the room has not decided. The character is shown as it is stored.
* If the entry has the turn of the slot, the character is shown with what the entry gives, and with the room as it is.
  One read of the room shows both, so an item is never on the floor and with the character.
* If the entry has a later turn, or says that this one is `over`, or is gone, then the turn has ended since the
  character was read. So the character is read again. It may be deleted by then.

A character without a slot costs no more.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

from bson import ObjectId
from pymongo import ASCENDING

from portico.resolvers import keyed
from portico.resolvers.documents import Database, Document, Projection
from portico.resolvers.paging import Listing, Page
from portico.resolvers.parts import as_part

from . import locations, room_turns
from .characters import CHARACTERS, CharacterDocument

# How often a character is read whose turns keep ending.
_READS = 4
_SLOT = ("action.turn", "action.kind", "action.room")
_ENTRY = ("characters._id", "characters.turn", "characters.over")
_COPY = (
    *("name", "description", "exits", "items", "version", "keepers.number", "keepers.name"),
    *("characters.name", "characters.leaving", "characters.absent"),
)
# What a turn of one room changes, and what to read of the room to show it.
_CHANGING = {"items": ("characters.took",), "gold": ("characters.gold",), "location": _COPY}


async def find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None = None
) -> dict[ObjectId, CharacterDocument]:
    """Returns the characters with these ids that have entered the world."""
    return await as_part(db, lambda db: _find_by_ids(db, ids, projection))


async def _find_by_ids(
    db: Database, ids: Sequence[ObjectId], projection: Projection | None
) -> dict[ObjectId, CharacterDocument]:
    query = {"_id": {"$in": list(ids)}, "location": {"$exists": True}}
    found = await CHARACTERS.of(db).find(query, _with_slot(projection), batch_size=len(ids) + 1).to_list()
    return {character["_id"]: character for character in await _show_decided(db, found, projection)}


async def find_by_owner(db: Database, owner: str, projection: Projection | None = None) -> list[CharacterDocument]:
    """Returns the player's characters that have entered the world, by number."""
    return await as_part(db, lambda db: _find_by_owner(db, owner, projection))


async def _find_by_owner(db: Database, owner: str, projection: Projection | None) -> list[CharacterDocument]:
    query, order = {"owner": owner, "location": {"$exists": True}}, [("number", ASCENDING)]
    found = await CHARACTERS.of(db).find(query, _with_slot(projection), sort=order).to_list()
    return await _show_decided(db, found, projection)


async def find_pages(
    db: Database, listings: Sequence[Listing], /, *, projection: Projection | None, **given: Any
) -> list[Page[CharacterDocument]]:
    """Returns a page of each listing. See `keyed.find_pages`."""
    pages = await keyed.find_pages(db, CHARACTERS, listings, projection=_with_slot(projection), **given)
    for listing in listings:
        # The cursors are made of what is read last.
        projection = listing.projected(projection)
    shown = await _show_decided(db, [one for page in pages for one in page.documents], projection)
    left = {one["_id"] for one in shown}
    for page in pages:
        _leave_out(page, left)
    return pages


def _leave_out(page: Page[CharacterDocument], left: Container[ObjectId]) -> None:
    """Drops the rows of deleted characters from a page. The next page begins where it would with them."""
    if all(one["_id"] in left for one in page.documents):
        return
    if page.has_next and page.end is None:
        page.end = page.listing.sort.key_of(page.documents[-1])
    page.documents = [one for one in page.documents if one["_id"] in left]


def _changing(projection: Projection | None) -> set[str]:
    """Returns the fields of characters that are read and that a turn of one room changes."""
    return set(_CHANGING) if projection is None else {path.partition(".")[0] for path in projection} & _CHANGING.keys()


def _with_slot(projection: Projection | None) -> Projection | None:
    if projection is None or not _changing(projection):
        return projection
    return {**projection, **dict.fromkeys(_SLOT, 1)}


async def _show_decided(db: Database, found: Sequence[Any], projection: Projection | None) -> list[Any]:
    """Makes characters show what their rooms have decided. Changes the documents.

    Returns the characters without those that are deleted now.
    """
    gone = set[ObjectId]()
    of_rooms = dict.fromkeys((*_ENTRY, *(path for name in _changing(projection) for path in _CHANGING[name])), 1)
    acting = [one for one in found if one.get("action", {}).get("kind") in room_turns.OF_ONE_ROOM]
    for reads in range(_READS):
        if not acting:
            break
        if reads:
            gone |= await _read_again(db, acting, projection)
            acting = [one for one in acting if one["_id"] not in gone]
        ids = {one["action"]["room"] for one in acting if "action" in one}
        rooms = await locations.find_by_ids(db, list(ids), of_rooms)
        acting = [one for one in acting if not _is_shown(one, rooms)]
    return [one for one in found if one["_id"] not in gone]


async def _read_again(db: Database, outdated: Sequence[Any], projection: Projection | None) -> set[ObjectId]:
    """Replaces what the documents say by what is stored now. Returns the ids of the characters that are deleted."""
    query = {"_id": {"$in": [one["_id"] for one in outdated]}, "location": {"$exists": True}}
    found: Sequence[Any] = await CHARACTERS.of(db).find(query, _with_slot(projection)).to_list()
    again = {one["_id"]: one for one in found}
    for one in outdated:
        if newer := again.get(one["_id"]):
            one.clear()
            one.update(newer)
    return {one["_id"] for one in outdated} - again.keys()


def _is_shown(character: Document, rooms: Mapping[ObjectId, Document]) -> bool:
    """Shows what the room has decided. Returns False if the character was read before its turn ended."""
    action: Document = character.get("action", {})
    if action.get("kind") not in room_turns.OF_ONE_ROOM:
        return True
    room = rooms.get(action["room"])
    entry = None if room is None else room_turns.entry_of(room, character["_id"])
    if room is None or entry is None:
        return False
    if entry["turn"] < action["turn"]:
        return True
    if entry["turn"] > action["turn"] or entry.get("over") == action["turn"]:
        return False
    del character["action"]
    # A damaged value stays as it is, so that the query names it.
    if isinstance(character.get("items"), list):
        character["items"] = [*character["items"], *entry["took"]]
    if isinstance(character.get("gold"), int):
        character["gold"] += entry["gold"]
    if "location" in character:
        character["location"] = locations.copy_of(room)
    return True
