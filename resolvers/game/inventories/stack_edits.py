"""Grants and consumption of items, and moves between inventories of one owner."""

from __future__ import annotations

from datetime import datetime

from pymongo import ReturnDocument
from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, InvalidInput, NotFound
from portico.resolvers.writes.marks import is_repeatable, mark_applied, not_applied, trim_marks, was_applied
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.timer import Timer

from . import exchanges, stacks
from .exchanges import Line
from .new_records import insert_settled
from .stack_refusals import NotEnough
from .stacks import STACKS, Place, Viewer, Wanted
from .trade_records import MOVE, MOVED


async def grant(
    db: Database,
    *,
    to: Place,
    wanted: Wanted,
    name: str,
    description: str | None,
    image: str | None,
    operation_id: str,
) -> Document:
    """Makes items out of nothing, and puts them into an inventory. The stack shows what this grant says.

    Returns:  the stack.
    Raises:   InvalidInput, Conflict (others kept changing the stack).
    Writes:   game.stacks; one guarded update, or one insert.
    """
    with InvalidInput.collect() as check:
        check(stacks.require_place, to, "to")
        wanted = check(stacks.require_wanted, wanted)
        shown = check(stacks.display_of, name, description, image)
    key = stacks.stack_id(to, wanted.category, wanted.item_id)
    amounts = {"quantity": wanted.quantity, "granted": wanted.quantity}
    guard = {"_id": key, **stacks.may_be_granted(wanted.quantity), **not_applied(operation_id)}
    update = {"$inc": amounts, "$set": shown, **mark_applied(operation_id)}
    async for _ in attempts(steps=2):
        stack = await db[STACKS.name].find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
        if stack is not None:
            await trim_marks(db, STACKS, stack)
            return stack
        stack = await db[STACKS.name].find_one({"_id": key})
        if stack is not None and was_applied(stack, operation_id):
            return stack
        if stack is not None:
            stacks.require_grantable(stack, wanted.item_id, wanted.quantity)
        elif await _is_inserted(db, new := _new_stack(key, to, wanted, shown, operation_id)):
            return new
    raise Conflict("Other callers are changing the stack. Try again.")


async def _is_inserted(db: Database, stack: Document) -> bool:
    """Inserts the stack. Returns False if another call has done so."""
    try:
        await db[STACKS.name].insert_one(stack)
    except DuplicateKeyError:
        return False
    return True


def _new_stack(key: str, to: Place, wanted: Wanted, shown: Document, operation_id: str) -> Document:
    return {
        "_id": key,
        **stacks.identity(to, wanted.category, wanted.item_id),
        **shown,
        "quantity": wanted.quantity,
        "granted": wanted.quantity,
        "consumed": 0,
        "notes": [],
        "applied": [operation_id] if is_repeatable(operation_id) else [],
        "schema_version": STACKS.version,
    }


async def consume(
    db: Database,
    *,
    viewer: Viewer,
    source: Place,
    wanted: Wanted,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Uses items up.

    Args:     answering: how the call is answered.
    Returns:  the stack, which can be empty now.
    Raises:   NotFound (the viewer does not own the inventory), NotEnough, InvalidInput, Conflict (goods that were in
              flight did not come back).
    Writes:   game.stacks; one guarded update.
    """
    with InvalidInput.collect() as check:
        wanted = check(stacks.require_wanted, wanted, "stack")
        check(stacks.require_place, source, "from")
    _require_owned(viewer, source)
    timer = Timer(now)
    line = Line(source, wanted.category, wanted.item_id, -wanted.quantity)
    guard, update = _consumption(line.stack_id, wanted.quantity, operation_id)
    await answering.confirmed()
    async for _ in attempts():
        stack = await db[STACKS.name].find_one_and_update(guard, update, return_document=ReturnDocument.AFTER)
        if stack is not None:
            await trim_marks(db, STACKS, stack)
            return stack
        stack = (await stacks.find_by_ids(db, [line.stack_id])).get(line.stack_id)
        if stack is not None and was_applied(stack, operation_id):
            return stack
        if stack is not None:
            stacks.require_consumable(stack, wanted.item_id, wanted.quantity)
        await exchanges.explain_miss(db, [line], now=timer.now())
    raise Conflict("Other callers are using the stack. Try again.")


def _consumption(stack_id: str, quantity: int, operation_id: str) -> tuple[Document, Document]:
    """Returns the guard and the update that use items up."""
    guard = {
        "_id": stack_id,
        "quantity": {"$gte": quantity},
        "consumed": {"$lte": stacks.MAX_COUNTED - quantity},
        **not_applied(operation_id),
    }
    amounts = {"quantity": -quantity, "consumed": quantity}
    return guard, {"$inc": amounts, **mark_applied(operation_id)}


async def transfer_stack(
    db: Database,
    *,
    viewer: Viewer,
    source: Place,
    to: Place,
    wanted: Wanted,
    now: datetime,
    operation_id: str,
    answering: Answering = AT_ONCE,
) -> Document:
    """Moves items between two inventories of one owner; for a GAME_MASTER also from a name to the NPC of this name.

    Args:     answering: how the call is answered.
    Returns:  the stack that has received them.
    Raises:   NotFound (the viewer does not own the inventory), NotEnough, InvalidInput, Conflict (goods that were in
              flight did not come back).
    Writes:   game.stacks, game.trades; a settlement.
    """
    with InvalidInput.collect() as check:
        wanted = check(stacks.require_wanted, wanted, "stack")
        check(stacks.require_place, source, "from")
        check(stacks.require_place, to, "to")
    _require_owned(viewer, source)
    becomes_npc = viewer.is_game_master and to.owner == f"{stacks.NPC_PREFIX}{source.owner}"
    if source.owner != to.owner and not becomes_npc:
        text = "Both inventories must have the same owner. Use `offerTrade` for others."
        raise InvalidInput(text, "to", "owner", code=InvalidInput.NOT_ALLOWED)
    if source == to:
        raise InvalidInput("The items are in this inventory already.", "to", "name", code=InvalidInput.NOT_ALLOWED)
    debit, credit = exchanges.debits(source, [wanted])[0], exchanges.credits_of(to, [wanted])[0]
    found = await stacks.find_by_ids(db, [debit.stack_id, credit.stack_id], dict.fromkeys(stacks.DISPLAY, 1))
    if debit.stack_id not in found:
        raise NotEnough(wanted.item_id, 0)
    new = [] if credit.stack_id in found else [exchanges.new_stack(credit, found[debit.stack_id])]
    record, lines = _move_record(source, to, wanted, now), [debit, credit]
    await insert_settled(db, record, lines, new=new, now=now, operation_id=operation_id, answering=answering)
    return (await stacks.find_by_ids(db, [credit.stack_id]))[credit.stack_id]


def _move_record(source: Place, to: Place, wanted: Wanted, now: datetime) -> Document:
    return {
        "kind": MOVE,
        "state": MOVED,
        "from": {"owner": source.owner, "inventory": source.name},
        "to": {"owner": to.owner, "inventory": to.name},
        "owners": [to.owner],
        "offers": [wanted._asdict()],
        "wants": [],
        "created_at": now,
        "concluded_at": now,
    }


def _require_owned(viewer: Viewer, place: Place) -> None:
    if not viewer.owns(place.owner):
        raise NotFound("Inventory")
