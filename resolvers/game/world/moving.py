"""A move: a turn of two rooms.

1. The old room notes that the character is `leaving`. From now on, it does not show it.
2. The new room enters the character, or refuses it because it is full.
3. The character gets its copy of the new room, and its slot is freed. At the same time, the copies of those in both
   rooms are refreshed. The new room is read once more after that, and refreshed if it has changed: a refresh by another
   process may have missed the character.
4. The old room drops the entry, which is the mark for the job.

If the new room refuses the character, the old room takes `leaving` back.

The answer need not wait for step 4. Players do not see the entry, and what the character does next replaces it or
leaves it alone, because the entry has the turn of the move. But until then it takes a place in its room, because a
character that is leaving may be sent back. So in a crowded room, the answer waits: otherwise, a player who reads a room
of 199 characters could be told that it is full.
"""

from __future__ import annotations

from portico.resolvers.documents import Document
from portico.resolvers.together import both

from .locations import MAX_CHARACTERS
from .room_turns import ENTER, LEAVE, RETURN
from .turn_runs import TurnRun

# Entries of a roster. As many characters again would have to enter while the room drops an entry.
_CROWDED = MAX_CHARACTERS // 2


async def finish_move(run: TurnRun) -> tuple[Document, Document | None]:
    """Finishes the move. Returns the character, and why the new room refused it; None if it did not."""
    old, new = run.action["room"], run.action["to"]
    left = await run.step(old, LEAVE)
    leaving = run.entry(left)
    own = {name: leaving[name] for name in ("name", "limit", "load", "count")}
    entered = await run.step(new, ENTER, entry=own)
    refused = run.entry(entered)["refused"]
    if refused is not None:
        return await _return(run, leaving, refused), refused
    after, _ = await both(run.end(leaving, None, entered), both(run.refreshed(entered), run.refreshed(left)))
    now = await run.rooms.refresh(run.db, new, shown=entered)
    await run.tidy(old, is_awaited=len(left["characters"]) > _CROWDED)
    return run.with_copy(after, now), None


async def _return(run: TurnRun, leaving: Document, refused: Document) -> Document:
    """Ends the move of a character that stays in its room. Returns the character."""
    returned = await run.step(run.action["room"], RETURN)
    after = await run.end(leaving, refused, returned)
    # The entry with the refusal may have replaced one that was a mark to refresh the old room.
    now = await run.rooms.refresh(run.db, returned["_id"])
    await run.tidy(run.action["to"], is_awaited=False)
    return run.with_copy(after, now)
