"""Imports of stacks, such as the wares of a shop: each is granted once, and a later import changes what it shows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from pymongo.errors import DuplicateKeyError

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict
from portico.resolvers.import_outcomes import Outcome

from . import stacks
from .stacks import STACKS, Place, Wanted


@dataclass(frozen=True)
class StackRecord:
    """A stack as an import describes it."""

    place: Place
    category: str
    item_id: str
    name: str
    quantity: int
    description: str | None = None
    image: str | None = None

    @property
    def key(self) -> tuple[str, ...]:
        return (*self.place, self.category, self.item_id)


async def import_stack(db: Database, record: StackRecord, *, now: datetime) -> Outcome:  # noqa: ARG001 - as all imports
    """Creates the stack, or changes what it shows. Grants the quantity unless an earlier import has.

    Raises:   InvalidInput, Conflict (another writer was faster; the import tries again).
    Writes:   game.stacks; one insert or one guarded update.
    """
    place = stacks.require_place(record.place)
    wanted = stacks.require_wanted(Wanted(record.category, record.item_id, record.quantity))
    shown = stacks.display_of(record.name, record.description, record.image)
    key = stacks.stack_id(place, wanted.category, wanted.item_id)
    amounts = {"quantity": wanted.quantity, "granted": wanted.quantity}
    stack = await db[STACKS.name].find_one({"_id": key})
    if stack is None:
        identity = stacks.identity(place, wanted.category, wanted.item_id)
        new = {"_id": key, **identity, **shown, **amounts, "consumed": 0, "notes": [], "applied": []}
        try:
            await db[STACKS.name].insert_one({**new, "imported": True, "schema_version": STACKS.version})
        except DuplicateKeyError:
            raise Conflict("The stack has just been created.") from None
        return "created"
    changed = {name: value for name, value in shown.items() if stack[name] != value}
    if stack.get("imported"):
        if not changed:
            return "unchanged"
        await db[STACKS.name].update_one({"_id": key}, {"$set": changed})
        return "changed"
    stacks.require_grantable(stack, wanted.item_id, wanted.quantity)
    guard: Document = {"_id": key, "imported": None, **stacks.may_be_granted(wanted.quantity)}
    update = {"$set": {**changed, "imported": True}, "$inc": amounts}
    if not (await db[STACKS.name].update_one(guard, update)).matched_count:
        raise Conflict("The stack has just changed.")
    return "changed"
