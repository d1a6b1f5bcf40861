"""Recording log events: one insert for a whole batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId
from pymongo import WriteConcern

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import check_length, require_filled

from .batches import id_of_event, insert_new, is_filled, is_time, require_time
from .log_events import LOG_EVENTS, UNCOUNTED
from .periods import start_of

# MongoDB's write concerns. Source: https://www.mongodb.com/docs/manual/reference/write-concern/
WRITE_CONCERNS: Mapping[str, WriteConcern] = {
    "NONE": WriteConcern(w=0),
    "ACKNOWLEDGED": WriteConcern(w=1),
    "MAJORITY": WriteConcern(w="majority", j=True),
}

MAX_NAME = 255
MAX_METHOD = 32
# Web servers refuse longer lines of a request. Source: `LimitRequestLine` and `LimitRequestFieldSize` of Apache, 8,190.
MAX_TEXT = 8_192
_STATUSES = range(100, 1_000)
_MAX_SIZE = 2**53 - 1


@dataclass(frozen=True)
class LogEvent:
    """A request, as a caller describes it. `time` is UTC, `response_size` is in bytes."""

    host: str
    time: datetime
    path: str
    user: str | None = None
    method: str = "GET"
    status: int = 200
    response_size: int = 0
    referrer: str | None = None
    user_agent: str | None = None
    event_id: str | None = None


def checked_event(event: LogEvent, *, not_before: datetime | None) -> Document:
    """Returns the document of an event. Raises InvalidInput.

    Args:     not_before: older events are refused, because they would be deleted at once; None for no such limit.
    """
    # An empty text counts as none.
    host, user, referrer, user_agent = event.host, event.user or None, event.referrer or None, event.user_agent or None
    if not _is_valid(event, not_before):
        _check(event, not_before)
    return {
        "_id": id_of_event("log event", event.event_id),
        "host": host,
        "user": user,
        "visitor": f"h:{host}" if user is None else f"u:{user}",
        "time": event.time,
        "method": event.method,
        "path": event.path,
        "status": event.status,
        "response_size": event.response_size,
        "referrer": referrer,
        "user_agent": user_agent,
        UNCOUNTED: start_of("DAY", event.time),
    }


def _is_valid(event: LogEvent, not_before: datetime | None) -> bool:
    """Returns whether `_check` finds nothing, besides the id. Almost all events are valid, and its calls take time."""
    return (
        is_time(event.time)
        and (not_before is None or event.time >= not_before)
        and event.status in _STATUSES
        and 0 <= event.response_size <= _MAX_SIZE
        and is_filled(event.host, MAX_NAME)
        and is_filled(event.method, MAX_METHOD)
        and is_filled(event.path, MAX_TEXT)
        and (not event.user or is_filled(event.user, MAX_NAME))
        and (not event.referrer or is_filled(event.referrer, MAX_TEXT))
        and (not event.user_agent or is_filled(event.user_agent, MAX_TEXT))
    )


def _check(event: LogEvent, not_before: datetime | None) -> None:
    """Raises InvalidInput for all values that are invalid."""
    with InvalidInput.collect() as check:
        check(_require_kept_time, event.time, not_before)
        check(_require_numbers, event)
        check(require_filled, event.host, "host", longest=MAX_NAME)
        check(require_filled, event.method, "method", longest=MAX_METHOD)
        check(require_filled, event.path, "path", longest=MAX_TEXT)
        for text, name, longest in (
            (event.user, "user", MAX_NAME),
            (event.referrer, "referrer", MAX_TEXT),
            (event.user_agent, "user_agent", MAX_TEXT),
        ):
            if text:
                check(check_length, text, name, longest=longest)
        check(id_of_event, "log event", event.event_id)


def _require_kept_time(time: datetime, not_before: datetime | None) -> None:
    require_kept(require_time(time, "time"), not_before)


def _require_numbers(event: LogEvent) -> None:
    out: Any = {"code": InvalidInput.OUT_OF_RANGE}
    with InvalidInput.collect() as check:
        if event.status not in _STATUSES:
            text = "Status must be between 100 and 999."
            check.refuse(InvalidInput(text, "status", **out, least=100, most=999))
        if not 0 <= event.response_size <= _MAX_SIZE:
            text = "Response size must be between 0 and 2^53 - 1."
            check.refuse(InvalidInput(text, "response_size", **out, least=0, most=_MAX_SIZE))


def require_kept(time: datetime, not_before: datetime | None) -> None:
    """Raises InvalidInput for a time so long ago that its event would be deleted at once."""
    if not_before is not None and time < not_before:
        raise InvalidInput("The time is too long ago: such events are deleted.", "time", code=InvalidInput.OUT_OF_RANGE)


def limit_of(now: datetime, days: float | None) -> datetime | None:
    """Returns the time of the oldest events that are kept; None if all are."""
    return None if days is None else now - timedelta(days=days)


async def record(db: Database, events: Sequence[Document], *, durability: str) -> set[ObjectId]:
    """Inserts events as `checked_event` returns them, except those that are recorded already.

    Args:     durability: one of `WRITE_CONCERNS`.
    Returns:  the `_id`s of the events that are new. With NONE, nobody knows, and all count as new.
    Writes:   one insert, which can be repeated.
    """
    return await insert_new(db, LOG_EVENTS, events, write_concern=WRITE_CONCERNS[durability])
