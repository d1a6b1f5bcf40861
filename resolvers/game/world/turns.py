"""Turns: how an action of a character and the room agree without a transaction, and without a lease.

Whatever a character does with its room is one turn:

1. **The character.** One guarded update takes the slot `action`, raises `turn`, and moves what the character hands
   over, items and gold, into the slot.
2. **The room.** A pure function of the room and the action decides (`room_turns`). It records the number of the turn
   in the character's entry of the roster, together with what the character gets, or with why the turn was refused.
   Then `took` is what was handed over.
3. **The character.** One guarded update adds what the entry says, stores a copy of the room that shows the outcome,
   marks the operation as applied unless it was refused, and frees the slot.

    free --1--> action (turn n) --2--> the room's entry has turn n --3--> free

The outcome is fixed after step 2. So a turn of one room that is about the character's own things is answered then, and
step 3 follows after the answer, together with those of others or with step 1 of the next turn; see `turn_ends`. Readers
show what the room has decided; see `character_reads`.

A move has two rooms: the old room notes that the character is `leaving`, the new room enters it or refuses, and after
step 3 the old room drops the entry; see `moving`. A character that rests or is deleted leaves its room in the same way.

Every interleaving is correct, even if processes stop or are suspended between any two steps:

* Anybody can carry out steps 2 and 3 at any time. Step 2 is fenced by the turn in the entry, step 3 by the operation
  and the turn in the slot. The turn is the fence, because a refused operation can take the slot again.
* A call that finds the slot taken finishes that turn first. So does a job, if nobody else does.
* Step 1 is guarded by the turn that was read. So the room of the action is the room of the character. Characters are
  read with the read concern `majority`. Otherwise a failover could roll back a turn that was read, and another turn
  could get its number.
* The next turn of a character need not read it if this process has carried out its latest one: the character as step 1
  has left it and the acknowledged entry make up all of its own things, and only turns change them. If the character
  has taken another turn meanwhile, the guard of step 1 misses. A refusal is never based on what is remembered. Others
  change the copy of the room, so a turn that depends on the copy reads the character.
* Of a turn of one room, step 1 waits for the primary alone if step 2 implies it: see `waiting_once`.
* Step 3 and step 1 of the next turn can be one update. Its guard is the slot, so it is the same as step 3 and right
  after it step 1, without anything in between.
* An item is in one place at any time: on the floor, with a shopkeeper, among the gifts in a roster, with a character;
  in the slot, if the entry has an earlier turn; or in `took`, if the entry has the turn of the slot. The same holds
  for gold.
* A step to enter a room needs a proof that the turn is not over; see `rooms`.

So a character without a slot is whole: its copy of the room has every turn that its items have, and an item is never
in both or in neither. So is a character with what its room has decided. An answer is such a state. It shows a later
copy only if the character has done nothing in it.

Copies of the room: a turn that changes what players see is answered after the copies are refreshed. A refresh only
replaces older copies. Step 3 replaces the character's own copy if it is older than the state that was decided. So a
character that is alone in its room needs no refresh; see `rooms`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, DomainError, NotFound
from portico.resolvers.together import both
from portico.resolvers.writes.marks import trim_marks, was_applied
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.waiting_once import Notes

from . import gift_records, moving, presence
from .action_refusals import InsufficientGold, error_of
from .characters import CHARACTERS, majority_reading
from .locations import copy_of
from .presence import WAKE
from .room_turns import BUY, ENTER, OF_ONE_ROOM, REMOVE, REST, TIDY
from .rooms import Rooms, TurnOver
from .turn_ends import Ending
from .turn_runs import MOVE, Acting, TurnRun, change_character, end_now

# A slot that was read proves nothing: a former primary may have answered.
NO_PROOF = 0


@dataclass(frozen=True)
class Plan:
    """What a character is about to do, as its document allows.

    Args:     kind: of the action; None for a change of nothing but the character's own things.
              facts: what the room must know, as in a step of `room_turns`; `to` for a move.
              handed: the items that the character hands over, and `gold` the gold pieces.
              changes: the fields of the character that change at once.
    """

    kind: str | None
    facts: Document = field(default_factory=dict)
    handed: Sequence[Document] = ()
    gold: int = 0
    changes: Document = field(default_factory=dict)


Planning = Callable[[Document], Awaitable[Plan]]


async def act(acting: Acting, plan: Planning, *, recalls: bool = False) -> Document:
    """Carries out what `plan` works out from the character, once for the operation.

    Args:     recalls: whether the plan needs only the character's own things, and its room's `_id`: see above.
    Returns:  the character, after the turn.
    Raises:   NotFound (the character), what `plan` raises, why the room refused; Conflict.
    Writes:   game.characters and game.locations; a turn.
    """
    known = acting.rooms.recall(acting.character, acting.owner, acting.operation_id)
    recalled = known if recalls else None
    async for _ in attempts(steps=4):
        is_recalled, character = recalled is not None, recalled or await _require(acting)
        recalled = None
        if "action" in character:
            await _finish_as(acting, character, NO_PROOF)
            continue
        if was_applied(character, acting.operation_id):
            # The call that has finished it may not have refreshed the copies.
            await acting.rooms.refresh(acting.db, character["location"]["_id"])
            return character
        if presence.rests(character):
            await _wake(acting, character)
            continue
        try:
            chosen = await plan(character)
        except DomainError:
            if is_recalled:
                continue
            raise
        ended = await _take_turn(acting, character, chosen)
        if ended is not None:
            if recalls:
                acting.rooms.remember(ended)
            return ended
    raise Conflict("Other calls act for the character. Try again.")


async def _take_turn(acting: Acting, character: Document, chosen: Plan) -> Document | None:
    """Begins and ends a turn. Returns the character after it; None if the action is still to come, or may be."""
    checked = acting.rooms.moment()
    former = await acting.rooms.ends.take(acting.character, character["turn"])
    if former is not None and chosen.kind is None:
        await _end_former(acting, former)
        former = None
    with Notes() as notes:
        with acting.rooms.ends.sending(former):
            beginning = begin(acting, character, chosen, former)
            begun = await (notes.noting(beginning) if chosen.kind in OF_ONE_ROOM else beginning)
        # The change is made if the action has no room to decide about it.
        if begun is None or chosen.kind is None:
            ended = begun
        else:
            ended = await _finish_as(acting, begun, checked, may_answer=True, notes=notes)
    return None if ended is None else {**ended, "applied": await trim_marks(acting.db, CHARACTERS, ended)}


async def _require(acting: Acting) -> Document:
    query: Document = {"_id": acting.character, "location": {"$exists": True}}
    if acting.owner is not None:
        query["owner"] = acting.owner
    former = await acting.rooms.ends.take(acting.character)
    found: Document | None = None if former is None else await _end_former(acting, former)
    if found is None:
        found = await majority_reading(acting.db).find_one(query)
    if found is None or acting.owner not in {None, found["owner"]}:
        raise NotFound("Character", str(acting.character))
    return found


async def _end_former(acting: Acting, former: Ending) -> Document | None:
    """Sends the last step of the turn before. Returns the character after it; None if that turn is over."""
    with acting.rooms.ends.sending(former):
        ended = await end_now(former)
    former.forget()
    return ended


async def _wake(acting: Acting, character: Document) -> None:
    """Lets a character that rests enter a room. Raises LimitReached (all rooms are full)."""
    waking, facts, changes = await presence.waking(acting, character)
    checked = acting.rooms.moment()
    if begun := await begin(waking, character, Plan(WAKE, facts, changes=changes)):
        await _finish_as(waking, begun, checked)


async def begin(acting: Acting, character: Document, chosen: Plan, former: Ending | None = None) -> Document | None:
    """Takes the slot, or makes the change.

    Args:     former: the last step of the turn before, if the slot still has it. The update takes that step as well.
    Returns:  the character after that; None if it has changed since.
    """
    guard = {"_id": character["_id"], "turn": character["turn"], "action": {"$exists": False}}
    update: Document = {"$inc": {"turn": 1}}
    if chosen.kind is None:
        update |= {"$set": chosen.changes, "$push": {"applied": acting.operation_id}}
        return await change_character(acting.db, guard, update)
    action: Document = {
        "id": acting.operation_id,
        "turn": character["turn"] + 1,
        "kind": chosen.kind,
        "room": character["location"]["_id"],
        "since": acting.now,
        **chosen.facts,
    }
    handed = [item["_id"] for item in chosen.handed]
    begun = {**character, **chosen.changes, "turn": action["turn"], "action": action}
    if handed:
        action["items"] = list(chosen.handed)
        begun["items"] = [item for item in character["items"] if item["_id"] not in handed]
        update["$pull"] = {"items": {"_id": {"$in": handed}}}
    if chosen.gold:
        action["gold"] = chosen.gold
        begun["gold"] = character["gold"] - chosen.gold
        update["$inc"] = {"turn": 1, "gold": -chosen.gold}
    update["$set"] = {"action": action, **chosen.changes}
    # For each `find_one_and_update`, MongoDB also stores the whole document, in case the driver sends it again.
    if former is None:
        taken = await acting.db[CHARACTERS.name].update_one(guard, update)
    else:
        changes = {**update["$set"], "turn": action["turn"]}
        also = _as_stage(changes, handed=handed, gold=chosen.gold)
        taken = await acting.db[CHARACTERS.name].update_one(former.slot, [*former.update, also])
    return begun if taken.matched_count else None


def _as_stage(changes: Document, *, handed: Sequence[ObjectId], gold: int) -> Document:
    """Returns the stage of a pipeline that makes the changes, and takes these items and this gold."""
    stage = {name: {"$literal": value} for name, value in changes.items()}
    stage["items"] = {"$filter": {"input": "$items", "cond": {"$not": [{"$in": ["$$this._id", list(handed)]}]}}}
    stage["gold"] = {"$subtract": ["$gold", gold]}
    return {"$set": stage}


async def _finish_as(
    acting: Acting, character: Document, checked: int, *, may_answer: bool = False, notes: Notes | None = None
) -> Document | None:
    """Finishes the turn of the character. Returns the character if the turn was this operation's.

    Raises:   why the turn of this operation was refused.
    """
    action = character["action"]
    try:
        ended = await finish(acting.db, acting.rooms, character, checked=checked, may_answer=may_answer, notes=notes)
    except TurnOver:
        # Another process has finished it. The mark says how it ended.
        return None
    if action["id"] != acting.operation_id:
        return None
    if ended.refused is None:
        return ended.character
    error = error_of(ended.refused)
    if action["kind"] == BUY and isinstance(error, InsufficientGold):
        # The price has changed. The next attempt knows it.
        return None
    raise error


@dataclass(frozen=True)
class Ended:
    """A turn that has ended: the character, None if it was removed; why it was refused, None if it was not."""

    character: Document | None
    refused: Document | None


async def finish(
    db: Database,
    rooms: Rooms,
    character: Document,
    *,
    checked: int,
    may_answer: bool = False,
    notes: Notes | None = None,
) -> Ended:
    """Finishes the turn that the character has under way. Anybody can do that at any time.

    Args:     character: with its slot.
              checked: a moment of `rooms` before this process took the slot; `NO_PROOF` if it has read the slot.
              may_answer: whether the last step may be left for after the answer; see `turn_ends`.
              notes: of the slot, if it waits for the primary alone.
    Raises:   TurnOver (another process has finished it), LookupError (the room does not know the character).
    Writes:   game.locations, game.gifts, game.characters; steps 2 and 3 of a turn.
    """
    action, version = character["action"], character.get("location", {}).get("version", 0)
    kind, run = action["kind"], TurnRun(db, rooms, character["_id"], action, checked, version, notes)
    if kind == MOVE:
        return Ended(*await moving.finish_move(run))
    if kind in (ENTER, WAKE):
        return await _finish_entry(run, character)
    if kind in (REST, REMOVE):
        return Ended(*await presence.finish_exit(run))
    entry = run.entry(room := await run.step(action["room"], kind))
    if may_answer and kind in OF_ONE_ROOM and rooms.ends.leave(run.ending(entry, entry["refused"], room)):
        after = run.ended(character, entry, room)
        return Ended(run.with_copy(after, await run.refreshed(room)), entry["refused"])

    async def end() -> Document:
        await gift_records.store(db, character, entry["refused"])
        ended = await run.end(entry, entry["refused"], room)
        rooms.forget_turn(room["_id"], run.character, run.turn)
        return ended

    # If the copies are refreshed first, the slot still tells that the turn is under way.
    after, now = await both(end(), run.refreshed(room))
    return Ended(run.with_copy(after, now), entry["refused"])


async def _finish_entry(run: TurnRun, character: Document) -> Ended:
    """Enters a character into the first of its rooms that is not full. If all are, a new one is removed."""
    own = {"name": character["name"], "load": 0, "count": 0} | presence.carried(run.action)
    refused, tried = None, list[ObjectId]()
    after: Document | None = None
    for room_id in run.action["rooms"]:
        room = await run.step(room_id, ENTER, entry=own)
        refused = run.entry(room)["refused"]
        if refused is None:
            copy = copy_of(room)
            older = {**run.slot, **presence.with_older_copy(copy)}
            await run.db[CHARACTERS.name].update_one(older, {"$set": {"location": copy}})
            # The slot stays until the room is refreshed, because it is the mark for the job.
            await run.rooms.refresh(run.db, room_id)
            after = await run.end(run.entry(room), None, room)
            break
        tried.append(room_id)
    if after is None and run.action["kind"] == WAKE:
        after = await presence.sleep_on(run)
    elif after is None and not (await run.db[CHARACTERS.name].delete_one(run.slot)).deleted_count:
        raise TurnOver
    for room_id in tried:
        await run.step(room_id, TIDY)
    return Ended(after, refused)


async def help_along(db: Database, rooms: Rooms, character_id: ObjectId) -> Document | None:
    """Finishes the turn that the character has under way, if any. Returns the character; None if there is none.

    Raises:   Conflict (it takes one turn after the other).
    """
    async for _ in attempts(steps=3):
        found: Document | None = await majority_reading(db).find_one({"_id": character_id})
        if found is None or "action" not in found:
            return found
        try:
            await finish(db, rooms, found, checked=NO_PROOF)
        except TurnOver:
            continue
    raise Conflict("The character is busy. Try again.")
