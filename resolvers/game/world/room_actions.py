"""What characters do with their room: moving, picking up and dropping, giving, buying and selling.

Each function carries out one turn; see `turns`. It returns the character (`move` also the room that it has left), and
raises what the turn raises besides the errors that it lists: NotFound (the character), LimitReached (pounds, items or
characters), Conflict.
"""

from __future__ import annotations

import contextlib
from typing import NamedTuple

from bson import ObjectId

from portico.resolvers.documents import Document
from portico.resolvers.errors import Conflict, DomainError, NotFound

from . import equipment, gift_records, items, locations, room_turns
from .action_refusals import InsufficientGold, ItemGone, NoSuchExit, WrongItem, not_in_room
from .gifts import collect
from .room_turns import BUY, DROP, GIVE, PICK_UP, PUT_IN, SELL, STAY, TAKE_OUT
from .turn_runs import MOVE, Acting
from .turns import Plan, act

# The key of a character of a player, or of a shopkeeper.
CharacterKey = ObjectId | str


class Moved(NamedTuple):
    """A character that has moved, and the room that it has left. A repeated step no longer knows the room."""

    character: Document
    left: ObjectId | None


async def move(acting: Acting, *, direction: str) -> Moved:
    """Takes an exit. An exit that leads back into the same room changes nothing.

    Raises:   NoSuchExit.
    """
    left: ObjectId | None = None

    async def plan(character: Document) -> Plan:
        nonlocal left
        here = character["location"]
        left = here["_id"]
        found = next((way["to"] for way in here["exits"] if way["direction"] == direction), None)
        if found is None:
            raise NoSuchExit
        if found == here["_id"]:
            return Plan(STAY)
        await require_place(acting, found)
        return Plan(MOVE, {"to": found})

    return Moved(await act(acting, plan), left)


async def require_place(acting: Acting, room_id: ObjectId) -> None:
    """Refuses to go to a room that is full before anything is written. The room itself decides."""
    for is_fresh in (False, True):
        room = await acting.rooms.glance(acting.db, room_id, is_fresh=is_fresh)
        if room is not None and sum("absent" not in one for one in room["characters"]) < locations.MAX_CHARACTERS:
            return
    if room is None:
        raise NoSuchExit
    raise room_turns.full()


async def pick_up(acting: Acting, *, item_id: ObjectId) -> Document:
    """Picks up an item from the floor, with its contents.

    Raises:   ItemGone, WrongItem (it is inside another one).
    """

    async def plan(_character: Document) -> Plan:
        return Plan(PICK_UP, {"item": item_id})

    return await act(acting, plan, recalls=True)


async def drop(acting: Acting, *, item_id: ObjectId) -> Document:
    """Lays an item of the inventory on the floor, with its contents.

    Raises:   ItemGone, WrongItem (it is worn or wielded).
    """

    async def plan(character: Document) -> Plan:
        return Plan(DROP, handed=equipment.require_free(character, item_id))

    return await act(acting, plan, recalls=True)


async def give(acting: Acting, *, item_id: ObjectId, to: CharacterKey) -> Document:
    """Gives an item of the inventory, with its contents, to another character in the room. It has it at once.

    Raises:   ItemGone, WrongItem (it is worn or wielded; the other one cannot be given anything), NotFound (the other).
    """
    if to == acting.character:
        raise WrongItem("A character cannot give anything to itself.")

    async def plan(character: Document) -> Plan:
        if isinstance(to, str):
            await _require_keeper(acting, character, to)
            raise WrongItem("A shopkeeper takes no gifts. Sell the item.")
        handed = equipment.require_free(character, item_id)
        gift = await gift_records.planned(acting.db, character, to, handed[0])
        return Plan(GIVE, {"to": to, **gift}, handed)

    given = await act(acting, plan)
    assert isinstance(to, ObjectId)
    # If others keep the taker busy for too long, a job hands the gift over.
    with contextlib.suppress(Conflict):
        await collect(acting.db, acting.rooms, given["location"]["_id"], to, now=acting.now)
    return given


async def buy(acting: Acting, *, keeper_key: CharacterKey, item_id: ObjectId) -> Document:
    """Buys an item of a shopkeeper in the room, at the price that the shopkeeper asks then.

    Raises:   ItemGone, InsufficientGold, WrongItem (it is not for sale), NotFound (the shopkeeper).
    """

    async def plan(character: Document) -> Plan:
        for is_fresh in (False, True):
            keeper = await _require_keeper(acting, character, keeper_key, is_fresh=is_fresh)
            try:
                _, price = room_turns.ware(keeper, item_id)
                if price > character["gold"]:
                    raise InsufficientGold(price, character["gold"])
            except DomainError:
                # A remembered room may be old.
                if is_fresh:
                    raise
            else:
                break
        return Plan(BUY, {"keeper": keeper["number"], "item": item_id}, gold=price)

    return await act(acting, plan, recalls=True)


async def sell(acting: Acting, *, keeper_key: CharacterKey, item_id: ObjectId) -> Document:
    """Sells an item of the inventory to a shopkeeper in the room, for what the shopkeeper pays then.

    Raises:   ItemGone, WrongItem (it is worn, wielded or not empty, or the shopkeeper does not buy its kind),
              InsufficientGold (of the shopkeeper), NotFound (the shopkeeper).
    """

    async def plan(character: Document) -> Plan:
        keeper = await _require_keeper(acting, character, keeper_key)
        return Plan(SELL, {"keeper": keeper["number"]}, equipment.require_free(character, item_id))

    return await act(acting, plan, recalls=True)


async def take_out(acting: Acting, *, container_id: ObjectId, item_id: ObjectId) -> Document:
    """Takes an item, with its contents, out of a container that the character carries, or that is in the room.

    Raises:   ItemGone (the container, or the item in it).
    """

    async def plan(character: Document) -> Plan:
        own = character["items"]
        if items.find(own, container_id) is None:
            return Plan(TAKE_OUT, {"container": container_id, "item": item_id})
        taken = items.with_contents(own, item_id)
        if not taken or taken[0]["inside"] != container_id:
            raise ItemGone(str(item_id))
        return Plan(None, changes={"items": [*items.without(own, taken), *items.placed(taken, None)]})

    return await act(acting, plan, recalls=True)


async def put_in(acting: Acting, *, container_id: ObjectId, item_id: ObjectId) -> Document:
    """Puts an item of the inventory, with its contents, into a container that is carried too, or that is in the room.

    Raises:   ItemGone, WrongItem (it is worn or wielded; the container holds nothing, or is inside the item).
    """

    async def plan(character: Document) -> Plan:
        own = character["items"]
        handed = equipment.require_free(character, item_id)
        if items.find(handed, container_id) is not None:
            raise WrongItem("An item cannot be put into itself.")
        if items.find(own, container_id) is None:
            return Plan(PUT_IN, {"container": container_id}, handed)
        rest = items.without(own, handed)
        room_turns.require_fit(rest, container_id, handed)
        return Plan(None, changes={"items": [*rest, *items.placed(handed, container_id)]})

    return await act(acting, plan, recalls=True)


async def _require_keeper(
    acting: Acting, character: Document, key: CharacterKey, *, is_fresh: bool = False
) -> Document:
    """Returns a shopkeeper of the room as it was a moment ago; if `is_fresh`, as it is now. Raises NotFound."""
    room_id = character["location"]["_id"]
    try:
        found, number = locations.parse_keeper_key(str(key))
    except ValueError:
        raise NotFound("Character", str(key), "The id is not that of a shopkeeper.") from None
    if found == room_id:
        for read in dict.fromkeys((is_fresh, True)):
            room = await acting.rooms.glance(acting.db, room_id, is_fresh=read)
            keeper = None if room is None else room_turns.keeper_of(room, number)
            if keeper is not None:
                return keeper
    raise not_in_room(str(key))
