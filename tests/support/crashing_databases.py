"""Databases of a process that crashes at one place after the other."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator

from portico.gateway.mongo.faults import FaultyDatabase
from portico.resolvers.documents import Database


class CrashingDatabases:
    """The database, which crashes after each number of changes, up to the first that does not crash.

    Args:        stops: the numbers of changes; by default all.
    Attributes:  stop: the latest number.  has_crashed: whether the latest database has crashed.
    """

    def __init__(self, db: Database, stops: Iterable[int] | None = None) -> None:
        self._db = db
        self._stops = itertools.count() if stops is None else stops
        self._faulty, self.stop = FaultyDatabase(db, None), -1

    @property
    def has_crashed(self) -> bool:
        return self._faulty.has_crashed

    def __iter__(self) -> Iterator[Database]:
        for stop in self._stops:
            self.stop = stop
            self._faulty, database = FaultyDatabase.around(self._db, stop)
            yield database
            if not self.has_crashed:
                return
