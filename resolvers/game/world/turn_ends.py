"""The last steps of turns that their rooms have decided. They go out after the answers.

When the room has decided, the outcome of a turn is fixed: whoever finishes the turn gives the character the same. So
the call is answered then. What the character gets is sent a moment later, in one bulk with the last steps of others.
Until then the slot stays, which has these consequences:

* Readers of a character with a slot look at the entry of its room, and show what it gives: see `character_reads`.
* If the character acts again before, one update ends the turn and takes the slot for the next one. Its guard is the
  slot of the turn that ends, so it has the effect of step 3, and of step 1 of the next turn right after it. If that
  update fails or is cancelled, the last step waits again: nobody knows whether it has arrived, and if so, its guard
  misses.
* If the process stops before, the slot is the mark for the job, as after a crash between step 2 and step 3.
* The room may forget what the turn gives only after the last step is acknowledged. If the next turn takes it over,
  step 2 of that turn replaces what the entry says. A process that comes late to step 2 and finds it forgotten knows by
  `over` that another one has finished the turn, and reads the character again.

Only turns of one room that need nothing but the character's own things end in this way: a turn that moves a character
changes which copies of rooms are refreshed, and a gift is stored before its turn ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.writes.combining import Combiner, Waiting, take_first
from portico.resolvers.writes.settler import Settler

from .characters import CHARACTERS

# How long a last step waits for others, in seconds, and how many go out together. Each has a copy of a room.
_LINGER = 0.025
_MOST_TOGETHER = 50


@dataclass(eq=False, kw_only=True)
class Ending(Waiting[None]):
    """The last step of a turn.

    Args:     slot: its guard.  changes: the fields of the character that change, as expressions.
              forget: lets the room forget what the turn has given; called when the step is acknowledged.
    """

    character: ObjectId
    turn: int
    slot: Document
    changes: Document
    forget: Callable[[], None]
    is_urgent: bool = False
    is_sent: bool = field(default=False, init=False)

    @property
    def update(self) -> list[Document]:
        """The update that gives the character what the room has decided, and frees the slot."""
        changes: list[Document] = [{"$set": self.changes}] if self.changes else []
        return [*changes, {"$unset": "action"}]


class TurnEnds:
    """The last steps that wait in a process. Without a settler, none is left for after an answer."""

    def __init__(self, settler: Settler | None) -> None:
        self._settler = settler
        self._waiting: dict[ObjectId, Ending] = {}
        self._queue: Combiner[Database, Ending] = Combiner(
            self._send, take=take_first(_MOST_TOGETHER), linger=lambda _db: _LINGER
        )

    def leave(self, ending: Ending) -> bool:
        """Sends a last step a moment later. Returns False if the caller has to send it."""
        if self._settler is None or not self._settler.add_remainder(ending.db, lambda: ending.done):
            return False
        self._waiting[ending.character] = ending
        self._queue.add(ending.db, ending)
        return True

    async def take(self, character: ObjectId, turn: int | None = None) -> Ending | None:
        """Returns the last step of the character's turn that waits, which the caller sends now; None if none waits.

        The caller sends it within `sending`. One that is on its way has arrived when this returns.

        Args:     turn: takes only the last step of this turn.
        """
        ending = self._waiting.get(character)
        if ending is None or turn not in {None, ending.turn}:
            return None
        if ending.is_sent:
            await asyncio.wait({ending.done})
            return None
        del self._waiting[character]
        ending.answer(None)
        return ending

    @contextmanager
    def sending(self, ending: Ending | None) -> Iterator[None]:
        """Lets a last step that was taken wait again if its command fails or is cancelled."""
        try:
            yield
        except BaseException:
            # If one of a later turn waits, this one has arrived. If too many wait, it is left to the job.
            if ending is not None and ending.character not in self._waiting:
                self.leave(replace(ending))
            raise

    async def close(self) -> None:
        """Waits until all last steps are sent."""
        await self._queue.close()

    async def _send(self, db: Database, batch: list[Ending]) -> None:
        """Sends those that nobody has taken. What fails is left to the job, or to the next turn."""
        sent = [ending for ending in batch if not ending.done.done()]
        for ending in sent:
            ending.is_sent = True
        try:
            if sent:
                await CHARACTERS.change_all(db, [(ending.slot, ending.update) for ending in sent])
        finally:
            for ending in sent:
                if self._waiting.get(ending.character) is ending:
                    del self._waiting[ending.character]
        for ending in sent:
            ending.forget()
            ending.answer(None)
