"""Combines what happens in a room at a time: many steps, one update; many changes, one refresh of the copies.

A room's document is a point of contention, because everything in the room is decided there. If each caller read the
document, changed it and wrote it back, most of them would have to try again. In a process they cooperate instead: each
room has a queue (`writes/combining`). All steps that wait are applied in memory, to the state that the process
remembers, and one update writes the result. The guard is the `revision` of that state. If it misses, another process
has written the room: the task reads the room and applies the steps again. Each caller gets the state that was written,
with the outcome of its turn in its entry of the roster.

A step that cannot be applied fails alone. If that is because of a fault, the room refuses it, so that its turn ends and
its character can act again. A caller that is cancelled leaves its step in the queue: the step is part of a turn that
somebody finishes anyway. A step that nobody waits for goes out with the next update of the room, or a moment later.

**Copies.** An update that players can see marks the room as stale until the copies are refreshed. If each character
in the room takes a turn by this update, it marks nothing: the last step of each turn makes the copy, and until then the
slot of the character is the mark.

A remembered state is a fact: it comes from an acknowledged write or from a majority read. After an error of a write,
whose outcome is unknown, the state is forgotten.

**Who may enter.** A step of a turn that is over must change nothing. The character's entry proves that, except when it
enters a room: the entry of a turn that is over may be gone again. So a step to ENTER needs a proof that the character
still had the turn under way at a moment after the state was read. Then a process that has finished the turn in the
meantime has written the room, and the guard misses. Writes of this process keep a chain of states together, for which
the moment of the first one counts; the turns whose entries were dropped within the chain are remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count

from bson import ObjectId
from bson.errors import InvalidDocument
from pymongo import WriteConcern
from pymongo.errors import DocumentTooLarge, WriteError
from pymongo.read_concern import ReadConcern

from portico.resolvers.documents import Collection, Database, Document
from portico.resolvers.elections import met_election
from portico.resolvers.errors import Conflict
from portico.resolvers.lru import Lru
from portico.resolvers.writes.combining import Combiner, take_first
from portico.resolvers.writes.marks import was_applied
from portico.resolvers.writes.retries import attempts
from portico.resolvers.writes.settler import Settler
from portico.resolvers.writes.waiting_once import Notes

from . import room_turns
from .characters import AWAKE, CHARACTERS
from .locations import LOCATIONS, copy_of
from .room_queues import Reader, Room, StillOurs, WaitingStep, no_turn
from .room_turns import NotHere, keeps_outcome
from .turn_ends import TurnEnds

# Rooms that a process remembers, and characters. A room is usually below 100 kB, a character without its copy smaller.
_REMEMBERED = 200
# Steps in one update. It bounds how long the event loop computes without a break.
_MOST_STEPS = 100
# Turns whose entries were dropped within a chain.
_MOST_DROPPED = 1_000
# How long a step that nobody waits for waits for others, in seconds.
_LINGER = 0.025
# How often a step looks for the character's entry in a fresh state. More than once, because a read after an election
# can show a state of a moment ago.
_LOOKS = 3
# Errors that one of several steps can cause, e.g. because the document would be too large.
_OWN_ERRORS = (DocumentTooLarge, InvalidDocument, OverflowError, WriteError)
# After these steps, the character's own copy stays as it is.
_WITHOUT_COPY = room_turns.FOLLOW_UPS | {room_turns.REST, room_turns.REMOVE}
# The fields that a step can change.
_CHANGING = ("items", "characters", "keepers")


class TurnOver(Exception):
    """The character's turn is over: another process has finished it."""


# Is called with the error and the step of each turn that is refused because of a fault.
Report = Callable[[Exception, Document], None]


class Rooms:
    """The rooms as a process knows them, and the tasks that work for them. One for each process.

    Args:     report: is called for each turn that is refused because of a fault.
              settler: takes over what nobody waits for.

    `ends` has the last steps of turns that wait; see `turn_ends`.
    """

    def __init__(self, report: Report | None = None, settler: Settler | None = None) -> None:
        self._report = report
        self._settler = settler
        self._rooms: Lru[ObjectId, Room] = Lru(_REMEMBERED)
        self._characters: Lru[ObjectId, Document] = Lru(_REMEMBERED)
        self._steps = Combiner(self._commit_all, take=take_first(_MOST_STEPS), linger=lambda _room: _LINGER)
        self._readers = Combiner(self._refresh)
        self._moments = count(1)
        self.ends = TurnEnds(settler)

    def moment(self) -> int:
        """Returns the number of this moment. Later moments have higher numbers."""
        return next(self._moments)

    async def glance(self, db: Database, room_id: ObjectId, *, is_fresh: bool = False) -> Document | None:
        """Returns the room as it was a moment ago; None if it does not exist. If `is_fresh`, reads it."""
        room = self._of(room_id)
        if room.state is None or is_fresh:
            found = await _reading(db).find_one({"_id": room_id})
            is_newer = room.state is None or (found is not None and found["revision"] > room.state["revision"])
            if is_newer and self._steps.is_idle(room_id):
                room.begin_chain(found, self.moment())
            return found
        return room.state

    async def take_step(
        self,
        db: Database,
        room_id: ObjectId,
        step: Document,
        still_ours: StillOurs,
        checked: int,
        notes: Notes | None = None,
    ) -> Document:
        """Returns the room after the step; the entry of the character has the outcome.

        Args:     still_ours: returns whether the turn is under way, by a write.
                  checked: a moment before the turn was known to be under way.
                  notes: of the slot, if it waits for the primary alone.
        Raises:   TurnOver; LookupError (the room is missing); Conflict (other processes kept changing the room, or the
                  character's entry is missing).
        Writes:   game.locations; one update for all steps that wait.
        """
        # The caller forgets its notes if it is cancelled. Its step stays, and needs them.
        own = Notes(() if notes is None else [notes])
        waiting = WaitingStep(db=db, step=step, still_ours=still_ours, checked=checked, notes=own)
        self._steps.add(room_id, waiting)
        return await waiting.done

    async def follow_up(self, db: Database, room_id: ObjectId, step: Document) -> None:
        """Takes a step that follows a turn which is over. Does not wait for it if there is a settler.

        Writes:   game.locations; one update for all steps that wait.
        """
        waiting = WaitingStep(db=db, step=step, still_ours=no_turn, checked=0)
        is_left = self._settler is not None and self._settler.add_remainder(db, lambda: waiting.done)
        waiting.is_urgent = not is_left
        self._steps.add(room_id, waiting)
        if not is_left:
            await waiting.done

    async def refresh(
        self, db: Database, room_id: ObjectId, version: int | None = None, *, shown: Document | None = None
    ) -> Document:
        """Gives every character in the room a copy of its current state, except those that rest. Returns the state.

        Args:     version: what the copies must show at least. None for the state at a moment after this call.
                  shown: a state that all copies show. If the room is still the same, nothing is written.
        Writes:   game.characters; one update of many, for all callers that wait. Then the mark of the room, for which
                  nobody waits if there is a settler.
        """
        reader = Reader(db=db, version=version, shown=shown)
        self._readers.add(room_id, reader)
        return await reader.done

    def forget_turn(self, room_id: ObjectId, character: ObjectId, turn: int) -> None:
        """Lets the next update of the room empty `took` of a turn that is over."""
        self._of(room_id).over[character] = turn

    def remember(self, character: Document) -> None:
        """Remembers a character as an acknowledged write has left it in its room, without the copy of the room."""
        place = {name: character["location"][name] for name in ("_id", "version")}
        self._characters.put(character["_id"], {**character, "location": place})

    def recall(self, character: ObjectId, owner: str | None, operation_id: str) -> Document | None:
        """Returns what is remembered of a character, and forgets it.

        None if there is nothing, if it has another owner, or if the operation is done.
        """
        known = self._characters.pop(character)
        if known is None or was_applied(known, operation_id):
            return None
        return known if owner in {None, known["owner"]} else None

    async def close(self) -> None:
        """Waits for the tasks that work for rooms."""
        await self.ends.close()
        await self._steps.close()
        await self._readers.close()

    def _of(self, room_id: ObjectId) -> Room:
        room = self._rooms.get(room_id)
        if room is None:
            self._rooms.put(room_id, room := Room())
        return room

    async def _commit_all(self, room_id: ObjectId, batch: list[WaitingStep]) -> None:
        room = self._of(room_id)
        try:
            await self._commit(room_id, room, batch)
        except BaseException as error:
            # The outcome of a write may be unknown.
            room.begin_chain(None, 0)
            is_own = isinstance(error, _OWN_ERRORS) and not met_election(error)
            if is_own and len(batch) > 1:
                for waiting in batch:
                    await self._commit_all(room_id, [waiting])
                return
            if is_own and isinstance(error, Exception) and self._is_refused(batch[0], error):
                await self._commit_all(room_id, batch)
                return
            for waiting in batch:
                waiting.fail(error)
            if not isinstance(error, Exception):
                raise

    async def _commit(self, room_id: ObjectId, room: Room, batch: list[WaitingStep]) -> None:
        """Applies the steps and writes the room. Raises what the database raises; then nothing is remembered."""
        db = batch[0].db
        is_fresh = False
        async for _ in attempts(steps=3):
            batch = [waiting for waiting in batch if not waiting.has_failed]
            if room.state is None:
                room.begin_chain(await _reading(db).find_one({"_id": room_id}), self.moment())
                is_fresh = True
            if room.state is None:
                raise LookupError(f"the room {room_id} does not exist")
            applied = await self._applied(room, batch, is_fresh=is_fresh)
            if applied is not None:
                state, answered = applied
                if await self._is_stored(db, room, state, batch):
                    room.state = state
                    for waiting in answered:
                        waiting.answer(state)
                    return
            # Another process has written the room, or an entry is missing in a state that may be old.
            room.begin_chain(None, 0)
        raise Conflict("Too much happens in the room at once. Try again.")

    async def _is_stored(self, db: Database, room: Room, state: Document, batch: Sequence[WaitingStep]) -> bool:
        """Writes the room if the steps change it. Returns False if another process has written it."""
        notes = Notes(waiting.notes for waiting in batch)
        if state is not room.state:
            return await notes.deciding(self._write(db, room, state, [waiting.step for waiting in batch]))
        await notes.confirm()
        return True

    async def _applied(
        self, room: Room, batch: list[WaitingStep], *, is_fresh: bool
    ) -> tuple[Document, list[WaitingStep]] | None:
        """Applies the steps in memory. Returns the new state, and whose steps it has; None if an entry is missing."""
        state, answered = self._without_took(room), list[WaitingStep]()
        for waiting in batch:
            step = waiting.step
            if step["kind"] == room_turns.ENTER and not await self._may_enter(room, waiting):
                waiting.fail(TurnOver())
                continue
            try:
                state = self._decided(state, waiting, is_fresh=is_fresh)
            except NotHere:
                if not is_fresh:
                    return None
                if not await waiting.still_ours():
                    waiting.fail(TurnOver())
                    continue
                waiting.looks += 1
                if waiting.looks < _LOOKS:
                    return None
                waiting.fail(Conflict("The room does not know the character. Try again."))
            except Exception as error:  # noqa: BLE001 - one step must not make the others fail
                waiting.fail(error)
            else:
                answered.append(waiting)
        return state, answered

    def _decided(self, state: Document, waiting: WaitingStep, *, is_fresh: bool) -> Document:
        """Returns the state after the step. Raises NotHere, and what a step raises that the room cannot refuse."""
        try:
            return room_turns.decide(state, waiting.step)
        except NotHere:
            if is_fresh and waiting.step["kind"] in room_turns.FOLLOW_UPS:
                # The entry is gone, so nothing is left to do.
                return state
            raise
        except Exception as error:
            if not self._is_refused(waiting, error):
                raise
            return room_turns.decide(state, waiting.step)

    def _is_refused(self, waiting: WaitingStep, error: Exception) -> bool:
        """Lets the room refuse a step that failed by a fault, so that its turn ends. Returns whether it can."""
        step = waiting.step
        if step["kind"] not in room_turns.REFUSABLE or "failed" in step:
            return False
        waiting.step = {**step, "failed": f"{step['kind']} failed: {type(error).__name__}: {error}"}
        if self._report is not None:
            self._report(error, step)
        return True

    def _without_took(self, room: Room) -> Document:
        """Returns the state without what turns that are over have given to their characters."""
        state = room.state
        assert state is not None
        for character, turn in room.over.items():
            state = room_turns.forget(state, character, turn)
        return state

    async def _may_enter(self, room: Room, waiting: WaitingStep) -> bool:
        if room.dropped.get(waiting.step["character"], -1) >= waiting.step["turn"]:
            return False
        if waiting.checked <= room.since:
            waiting.checked = self.moment()
            return await waiting.still_ours()
        return True

    async def _write(self, db: Database, room: Room, new: Document, steps: Sequence[Document]) -> bool:
        """Writes the room if it still has the revision of the remembered state. Completes the new state."""
        old = room.state
        assert old is not None
        new["revision"] = old["revision"] + 1
        marks = room_turns.marks_of(new)
        new |= marks
        changes = {name: new[name] for name in _CHANGING if new[name] is not old[name]}
        changes |= {name: mark for name, mark in marks.items() if mark != old.get(name)}
        update: Document = {"$set": changes}
        if copy_of(new) != copy_of(old):
            new["version"] = changes["version"] = old["version"] + 1
            if _all_act(old, new, steps):
                new.pop("stale_since", None)
                update["$unset"] = {"stale_since": ""}
            else:
                new["stale_since"] = changes["stale_since"] = max(step["at"] for step in steps)
        changes["revision"] = new["revision"]
        guard = {"_id": old["_id"], "revision": old["revision"]}
        if not (await db[LOCATIONS.name].update_one(guard, update)).matched_count:
            return False
        # Turns can have ended while the update was on its way. Their `took` is still in the room.
        taken = {entry["_id"]: entry["turn"] for entry in new["characters"] if keeps_outcome(entry)}
        room.over = {character: turn for character, turn in room.over.items() if taken.get(character) == turn}
        kept = {entry["_id"] for entry in new["characters"]}
        for entry in old["characters"]:
            if entry["_id"] not in kept:
                room.dropped[entry["_id"]] = entry["turn"]
        if len(room.dropped) > _MOST_DROPPED:
            room.begin_chain(new, self.moment())
        return True

    async def _refresh(self, room_id: ObjectId, readers: list[Reader]) -> None:
        state = await self._refresh_once(room_id, self._of(room_id), readers)
        for reader in readers:
            reader.answer(state)

    async def _refresh_once(self, room_id: ObjectId, room: Room, readers: list[Reader]) -> Document:
        db = readers[0].db
        state = room.state
        if any(reader.version is None for reader in readers):
            found = await _reading(db).find_one({"_id": room_id}, {"version": 1})
            state = room.state
            wanted = found["version"] if found is not None else 0
            unchanged = [one.shown for one in readers if one.shown is not None and one.shown["version"] >= wanted]
            if len(unchanged) == len(readers):
                return unchanged[0]
        else:
            wanted = max(reader.version or 0 for reader in readers)
        if state is None or state["version"] < wanted:
            state = await _reading(db).find_one({"_id": room_id})
        if state is None:
            raise LookupError(f"the room {room_id} does not exist")
        copy = copy_of(state)
        older = {"location._id": room_id, "location.version": {"$lt": copy["version"]}, **AWAKE}
        await db[CHARACTERS.name].update_many(older, {"$set": {"location": copy}})
        await self._unmark(db, {"_id": room_id, "version": copy["version"]})
        if room.state is not None and room.state["version"] == copy["version"]:
            room.state = {name: value for name, value in room.state.items() if name != "stale_since"}
        return state

    async def _unmark(self, db: Database, refreshed: Document) -> None:
        """Removes the mark of a room with this version. While the mark is there, a job can refresh the copies again."""
        update = {"$unset": {"stale_since": ""}}
        later = {LOCATIONS.name: [(refreshed, update)]}
        if self._settler is None or not self._settler.add(db, later):
            on_primary = db[LOCATIONS.name].with_options(write_concern=WriteConcern(w=1))
            await on_primary.update_one(refreshed, update)


def _all_act(old: Document, new: Document, steps: Sequence[Document]) -> bool:
    """Returns whether each character in the room takes a turn by these steps whose last step gives it a copy.

    A turn that these steps decide is under way. A turn that the room has decided before may be over.
    """
    decided = {(entry["_id"], entry["turn"]) for entry in old["characters"]}
    acting = {(step["character"], step["turn"]) for step in steps if step["kind"] not in _WITHOUT_COPY} - decided
    return all((entry["_id"], entry["turn"]) in acting for entry in new["characters"] if "absent" not in entry)


def _reading(db: Database) -> Collection:
    """Returns the rooms with majority reads: what a step follows from is never rolled back."""
    return db[LOCATIONS.name].with_options(read_concern=ReadConcern("majority"))
