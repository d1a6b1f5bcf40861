"""Errors of an outage in the log: one line for each cause and interval, however many requests fail."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from pymongo.errors import NetworkTimeout, OperationFailure, PyMongoError

from portico.resolvers.elections import met_election

from .logs import logger

INTERVAL_SECONDS = 10.0
EVENTS = {"UNAVAILABLE": "database unavailable", "TIMEOUT": "timed out"}
# The server's code if the index of a full-text search is missing, because an import builds it at its end.
_NO_TEXT_INDEX = 27
# The text of an error about the topology describes every server.
_LONGEST_REASON = 200


def fault_code(cause: BaseException) -> str:
    """Returns the code of a fault: UNAVAILABLE and TIMEOUT if it is part of an outage, or else INTERNAL."""
    # A timeout of server selection means that no server is available, not that a server is slow.
    if met_election(cause) and not isinstance(cause, NetworkTimeout):
        return "UNAVAILABLE"
    if isinstance(cause, OperationFailure) and cause.code == _NO_TEXT_INDEX:
        return "UNAVAILABLE"
    is_late = isinstance(cause, TimeoutError) or (isinstance(cause, PyMongoError) and cause.timeout)
    return "TIMEOUT" if is_late else "INTERNAL"


def log_fault(event: str, cause: BaseException, **fields: Any) -> None:
    """Logs a fault with its traceback. A fault of an outage is only counted, and logged once in an interval.

    Call this in a running event loop.
    """
    code = fault_code(cause)
    if code in EVENTS:
        _of_loop.setdefault(asyncio.get_running_loop(), _Outages()).count(code, cause, fields)
    else:
        logger().error(event, **fields, exc_info=cause)


@dataclass(slots=True)
class _Count:
    """The occurrences since the last line, and the fields of the latest."""

    number: int = 0
    fields: dict[str, Any] = field(default_factory=dict)


class _Outages:
    """Logs the first error of a cause at once, and then how many occurred in each interval until there are none."""

    def __init__(self) -> None:
        self._counts: dict[tuple[str, str], _Count] = {}

    def count(self, code: str, cause: BaseException, fields: dict[str, Any]) -> None:
        cause_name = type(cause).__name__
        fields["reason"] = str(cause)[:_LONGEST_REASON]
        count = self._counts.get((code, cause_name))
        if count is None:
            self._log(code, cause_name, _Count(1, fields))
        else:
            count.number += 1
            count.fields = fields

    def _log(self, code: str, cause_name: str, count: _Count) -> None:
        logger().error(EVENTS[code], error=cause_name, occurrences=count.number, **count.fields)
        self._counts[code, cause_name] = _Count()
        asyncio.get_running_loop().call_later(INTERVAL_SECONDS, self._end_interval, code, cause_name)

    def _end_interval(self, code: str, cause_name: str) -> None:
        count = self._counts.pop((code, cause_name))
        if count.number:
            self._log(code, cause_name, count)


# The timers belong to an event loop.
_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _Outages] = WeakKeyDictionary()
