"""Recording sessions. Each is stored with the mark that roll-ups lack it, so no crash leaves one that no job finds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime

from bson import Int64

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import require_filled

from .batches import id_of_event, insert_new, is_filled, is_time, require_time
from .sessions import MAX_LENGTH, MAX_USER_ID, MICROSECONDS, PENDING, SESSIONS, Period

_LONGEST = int(MAX_LENGTH.total_seconds())


def session_of(*, event_id: str | None, user_id: str, at: datetime, length: float) -> Document:
    """Returns a session to record.

    Args:     length: seconds, 0 to 31 days; rounded to the microsecond.
    Raises:   InvalidInput.
    """
    # Almost all sessions are valid, and calls of checks take most of the time.
    if not (is_filled(user_id, MAX_USER_ID) and is_time(at) and 0 <= length <= _LONGEST):
        _check(event_id, user_id, at, length)
    return {
        "_id": id_of_event("session", event_id),
        "user_id": user_id,
        "at": at,
        "length": _microseconds(length),
        "hour": Period.at(user_id, "HOUR", at).key,
    }


def _check(event_id: str | None, user_id: str, at: datetime, length: float) -> None:
    """Raises InvalidInput for all values that are invalid."""
    with InvalidInput.collect() as check:
        check(id_of_event, "session", event_id)
        check(require_user_id, user_id)
        check(require_time, at, "at")
        check(_microseconds, length)


def require_user_id(user_id: str) -> str:
    """Returns the id of a user unchanged. Raises InvalidInput if it is empty or too long, or contains a NUL."""
    return require_filled(user_id, "user_id", longest=MAX_USER_ID)


def _microseconds(length: float) -> Int64:
    if not (math.isfinite(length) and 0 <= length <= _LONGEST):
        text = f"The length must be between 0 and {_LONGEST:,} seconds; got {length:,}."
        raise InvalidInput(text, "length", code=InvalidInput.OUT_OF_RANGE, least=0, most=_LONGEST)
    return Int64(round(length * MICROSECONDS))


async def record_sessions(db: Database, sessions: Sequence[Document], *, now: datetime) -> int:
    """Records sessions, without those whose `eventId` was recorded before. Returns how many are recorded now: all.

    Args:     sessions: from `session_of`.
    Writes:   analytics.sessions; one insert of all.
    """
    await insert_new(db, SESSIONS, [{**session, PENDING: now} for session in sessions])
    return len(sessions)
