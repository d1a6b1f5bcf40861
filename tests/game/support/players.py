"""Players that act at once."""

from __future__ import annotations

from portico.resolvers.documents import Database, Document
from portico.resolvers.game.world.rooms import Rooms
from portico.resolvers.game.world.turn_runs import Acting
from portico.resolvers.writes.marks import random_operation_id
from tests.support.harness import SettableClock


class Players:
    """Players of several processes: each character acts in the process of its number."""

    def __init__(self, db: Database, clock: SettableClock, processes: int = 2) -> None:
        self.db = db
        self.clock = clock
        self.processes = [Rooms() for _ in range(processes)]

    def acting(self, character: Document, number: int = 0) -> Acting:
        rooms = self.processes[number % len(self.processes)]
        return Acting(self.db, rooms, character["_id"], None, self.clock.now(), random_operation_id())
