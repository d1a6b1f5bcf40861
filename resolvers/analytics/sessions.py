"""Sessions of users, and their roll-ups by hour, day, ISO week, month and year.

Both are kept for good: a session that arrives a year late recomputes its hour from all sessions of the hour, then the
day from its hours, week and month from their days, and the year from its months.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple, NotRequired

from bson import Int64, ObjectId
from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Document, Versioned

from .batches import hashed_id
from .periods import start_of

Level = Literal["HOUR", "DAY", "WEEK", "MONTH", "YEAR"]
# Each level is computed after those that it is computed from. Weeks and months are computed together.
STEPS: Sequence[Sequence[Level]] = (("HOUR",), ("DAY",), ("WEEK", "MONTH"), ("YEAR",))
LEVELS: Sequence[Level] = [level for step in STEPS for level in step]
_ABOVE: Mapping[Level, Sequence[Level]] = {"HOUR": ("DAY",), "DAY": ("WEEK", "MONTH"), "MONTH": ("YEAR",)}

PENDING = "pending_since"
MAX_USER_ID = 255
MAX_LENGTH = timedelta(days=31)
MICROSECONDS = 1_000_000


class SessionDocument(Versioned):
    """A session. Its `_id` is from its `eventId`; random without one."""

    _id: ObjectId
    # Any text.
    user_id: str
    # When it began.
    at: datetime
    # The `_id` of the roll-up of its hour.
    hour: ObjectId
    # Int64 microseconds: whole numbers, so that sums are the same in any order.
    length: int
    # When it was recorded; absent after all its roll-ups include it.
    pending_since: NotRequired[datetime]


class RollUpDocument(Versioned):
    """A roll-up. Its `_id` is from user, level and start."""

    _id: ObjectId
    user_id: str
    level: Level
    start: datetime
    # The `_id` of each roll-up above: hours, days and months name the roll-ups that are computed from them.
    parents: list[ObjectId]
    # Int64; `total` is microseconds.
    sessions: int
    total: int
    # Random, a new one for each update.
    revision: ObjectId


SESSIONS = CollectionSpec(
    "analytics.sessions",
    document=SessionDocument,
    indexes=[
        # Covers what an hour is computed from, also on a sharded cluster, which needs the shard key.
        IndexModel([("hour", ASCENDING), ("length", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([(PENDING, ASCENDING)], sparse=True),
        IndexModel(
            [("user_id", ASCENDING), (PENDING, ASCENDING)], partialFilterExpression={PENDING: {"$exists": True}}
        ),
    ],
    # An `eventId` is unique over all users only if it is the shard key.
    shard_key={"_id": "hashed"},
)
ROLL_UPS = CollectionSpec(
    "analytics.session_roll_ups",
    document=RollUpDocument,
    indexes=[
        IndexModel([("user_id", ASCENDING), ("level", ASCENDING), ("start", ASCENDING)]),
        IndexModel([("parents", ASCENDING)]),
    ],
    shard_key={"user_id": 1},
)


class Period(NamedTuple):
    """A period of a user."""

    user_id: str
    level: Level
    start: datetime

    @classmethod
    def at(cls, user_id: str, level: Level, time: datetime) -> Period:
        """Returns the period that contains the time."""
        return cls(user_id, level, start_of(level, time))

    @property
    def key(self) -> ObjectId:
        """The `_id` of its roll-up."""
        return hashed_id(f"{self.level} {self.start.isoformat()} {self.user_id}")

    @property
    def parents(self) -> list[ObjectId]:
        """The `_id` of each roll-up that is computed from this one."""
        above = _ABOVE.get(self.level, ())
        return [Period.at(self.user_id, level, self.start).key for level in above]

    def fields(self, sessions: int, total: int) -> Document:
        """Returns its roll-up with these values, without `_id` and revision."""
        named: Document = {"user_id": self.user_id, "level": self.level, "start": self.start, "parents": self.parents}
        return {**named, "sessions": Int64(sessions), "total": Int64(total)}


def periods_of(user_id: str, time: datetime) -> list[Period]:
    """Returns the periods of all levels that contain the time, in the order of `LEVELS`."""
    return [Period.at(user_id, level, time) for level in LEVELS]


def period_of(roll_up: Mapping[str, Any]) -> Period:
    """Returns the period of a roll-up, with its start taken down to that of a period."""
    return Period.at(roll_up["user_id"], roll_up["level"], roll_up["start"])
