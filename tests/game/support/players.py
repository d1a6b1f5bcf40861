"""Players that act at once."""

from __future__ import annotations

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.writes.marks import random_operation_id
from tests.support.harness import SettableClock


def acting_for(
    db: Database, rooms: Rooms, character: Document, clock: SettableClock, *, owner: str | None = None
) -> Acting:
    """Returns what an action of this character needs, in a process that remembers these rooms."""
    return Acting(db, rooms, character["_id"], owner, clock.now(), random_operation_id())


class Players:
    """Players of several processes: each character acts in the process of its number."""

    def __init__(self, db: Database, clock: SettableClock, processes: int = 2) -> None:
        self.db = db
        self.clock = clock
        self.processes = [Rooms() for _ in range(processes)]

    def acting(self, character: Document, number: int = 0) -> Acting:
        return acting_for(self.db, self.processes[number % len(self.processes)], character, self.clock)
