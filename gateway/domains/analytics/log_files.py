"""The importer of log files.

A line becomes one event, however often its file is imported, also after the file has grown or was renamed. A line has
no id of its own, so its event's id is derived from the name of the source, the line, and the number of equal lines
before it: two equal lines in a file are two requests.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import replace
from operator import itemgetter
from typing import Any

from portico.gateway.imports.runs import Importer
from portico.resolvers.analytics.log_imports import import_events
from portico.resolvers.analytics.log_recording import LogEvent, checked_event
from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.schema.errors import camel_case

from .log_lines import event_of_line

# A line is forgotten when it was not seen for so many lines. Lines have times, so equal ones are close to each other.
_COMPARED = 200_000
_SOURCE = Importer.Option(
    "source",
    str | None,
    "What wrote the log, e.g. the name of a server. The same line from two sources is two requests. Default: one "
    "source for all files.",
    "NAME",
)


def logs(source: str = "") -> Importer:
    """Returns the importer of the log files of this source."""
    return Importer(
        _read,
        itemgetter("_id"),
        import_events,
        is_parallel=True,
        has_resources=True,
        options=(_SOURCE,),
        configure=logs,
        parser=lambda: LogFile(source),
        formats="log files of Apache or nginx, or JSON Lines",
    )


class LogFile:
    """Parses the lines of one file, in order. An instance is called with a line."""

    def __init__(self, source: str) -> None:
        self._source = source.encode()
        self._line = 0
        # For each line that was seen lately, how often, and where last. The one seen last is at the end.
        self._seen: OrderedDict[bytes, tuple[int, int]] = OrderedDict()

    def __call__(self, line: bytes) -> LogEvent:
        """Returns the request of the line, with an event id. Raises InvalidInput."""
        line = line.rstrip(b"\r\n")
        event = event_of_line(line)
        return event if event.event_id is not None else replace(event, event_id=self._event_id(line))

    def _event_id(self, line: bytes) -> str:
        digest = hashlib.blake2b(self._source + b"\n" + line, digest_size=16).digest()
        self._line += 1
        before, _ = self._seen.pop(digest, (0, 0))
        self._seen[digest] = before + 1, self._line
        oldest, (_, seen_at) = next(iter(self._seen.items()))
        if seen_at <= self._line - _COMPARED:
            del self._seen[oldest]
        return f"line {digest.hex()} {before}"


def _read(event: Any) -> Document:
    """Returns the document of a request. Raises InvalidInput."""
    try:
        return checked_event(event, not_before=None)
    except InvalidInput as error:
        raise InvalidInput(error.message, *map(camel_case, error.path)) from None
