"""Lines of log files: the common and the combined log format of Apache and nginx, and JSON.

    192.0.2.1 - ada [09/Mar/2026:12:00:00 +0100] "GET /jazz HTTP/1.1" 200 512 "-" "Mozilla/5.0"

The common format ends after the size. What follows the client's program is ignored, e.g. the last field of the format
`main` of nginx.

Source: https://httpd.apache.org/docs/2.4/mod/mod_log_config.html and
https://nginx.org/en/docs/http/ngx_http_log_module.html.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import orjson

from portico.gateway.imports.fields import Record, as_instant, as_text, object_of, optional, text_at
from portico.resolvers.analytics.log_recording import LogEvent
from portico.resolvers.errors import InvalidInput

# Where a format writes this, it has no value.
NONE = "-"
_UNKNOWN = "neither JSON nor in the combined or the common log format"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TIME = re.compile(
    r"(\d\d)/([A-Z][a-z]{2})/(\d{4}):(\d\d):(\d\d):(\d\d)(?:\.(\d{1,6})\d*)? ([+-])(\d\d)([0-5]\d)", re.ASCII
)
# A quoted text, in which a backslash escapes what follows it. The quantifiers never backtrack.
_QUOTED = r'"((?:[^"\\]++|\\.)*+)"'
# The parts of a line in their order. A user can have blanks; the other names before it cannot.
_PARTS: Sequence[tuple[str, str]] = (
    ("host", r"\s*(\S+) "),
    ("identity", r"\S+ "),
    ("user", r"(-|(?!- )[^\[]+?) (?=\[)"),
    ("time", r"\[([^\]]{1,40})\] "),
    ("request", f"{_QUOTED} "),
    ("status", r"(\d{3}) "),
    ("size", r"(\d{1,16}|-)(?=\s)"),
)
_CLIENT: Sequence[tuple[str, str]] = (("referrer", f" {_QUOTED}"), ("user agent", rf" {_QUOTED}(?=\s)"))
_COMMON = re.compile("".join(pattern for _, pattern in _PARTS), re.ASCII)
_COMBINED = re.compile("".join(pattern for _, pattern in _CLIENT), re.ASCII)
# Requests of HTTP/0.9 have no version.
_REQUEST = re.compile(r"([A-Za-z][\w-]{0,31}) (?:(\S.*) HTTP/\d(?:\.\d)?|(/\S*))", re.ASCII)
# Control characters stay escaped: they would disturb whatever shows them.
_ESCAPED = re.compile(rb"\\(?:([\"\\])|x([2-689a-fA-F][0-9a-fA-F]|7[0-9a-eA-E]))")

_OWN = {
    "eventId",
    "host",
    "user",
    "time",
    "method",
    "path",
    "status",
    "responseSize",
    "referrer",
    "userAgent",
}


def event_of_line(line: bytes) -> LogEvent:
    """Returns the request of one line, whose event id is None unless the line says one.

    Raises InvalidInput, with the reason, and with the path of the value if the line is JSON.
    """
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"not UTF-8: byte 0x{line[error.start]:02x}, at byte {error.start + 1}") from None
    return _event_of_json(text) if text.lstrip().startswith("{") else _event_of_text(text + "\n")


def _event_of_text(line: str) -> LogEvent:
    """Returns the request of a line in the common or the combined format, which ends with a line feed."""
    found = _COMMON.match(line)
    if found is None:
        raise InvalidInput(_describe(line, _PARTS, 0))
    host, user, time, request, status, size = found.groups()
    client: Sequence[str] = (NONE, NONE)
    if line[found.end() :].strip():
        combined = _COMBINED.match(line, found.end())
        if combined is None:
            raise InvalidInput(_describe(line, _CLIENT, found.end()))
        client = combined.groups()
    method, path = _method_and_path(request)
    referrer, user_agent = map(_unescaped, client)
    return LogEvent(
        host=_unescaped(host),
        user=_known(_unescaped(user)),
        time=_parse_time(time),
        method=method,
        path=path,
        status=int(status),
        response_size=0 if size == NONE else int(size),
        referrer=_known(referrer),
        user_agent=_known(user_agent),
    )


def _describe(line: str, parts: Sequence[tuple[str, str]], start: int) -> str:
    """Returns which part of a line is the first one that is not valid."""
    for name, pattern in parts:
        found = re.compile(pattern, re.ASCII).match(line, start)
        if found is None:
            start = len(line) - len(line[start:].lstrip(" "))
            wrong = "has no closing quote" if line.startswith('"', start) else "is not valid"
            return f"{_UNKNOWN}: the {name} {wrong}, at character {start + 1}"
        start = found.end()
    return _UNKNOWN


def _method_and_path(request: str) -> tuple[str, str]:
    """Returns the method and the path of the first line of a request.

    If that is no line of HTTP, e.g. because a client sent TLS to a port without it, the method is `-`, and the path is
    what the client sent.
    """
    found = _REQUEST.fullmatch(request)
    if found is None:
        return NONE, _unescaped(request) or NONE
    return found[1], _unescaped(found[2] or found[3])


def _unescaped(text: str) -> str:
    r"""Returns the text without the escapes of the web server. Bytes that are not UTF-8 stay escaped, as `\\xe9`."""
    if "\\" not in text:
        return text
    found = _ESCAPED.sub(lambda escape: escape[1] or bytes.fromhex(escape[2].decode()), text.encode())
    return found.decode(errors="backslashreplace")


def _known(text: str) -> str | None:
    return None if text in {"", NONE} else text


def _parse_time(text: str, *path: str) -> datetime:
    """Returns the time of a log, e.g. `09/Mar/2026:12:00:00 +0100`, in UTC. Milliseconds are kept."""
    found = _TIME.fullmatch(text)
    if found is None or found[2] not in _MONTHS:
        raise InvalidInput(f"the time must be like 09/Mar/2026:12:00:00 +0100; got {text[:40]!r}", *path)
    day, month, year, hour, minute, second, fraction, sign, hours, minutes = found.groups()
    offset = timedelta(hours=int(hours), minutes=int(minutes))
    milliseconds = int((fraction or "").ljust(3, "0")[:3])
    try:
        zone = timezone(offset if sign == "+" else -offset)
        local = datetime(
            int(year),
            _MONTHS.index(month) + 1,
            int(day),
            int(hour),
            int(minute),
            int(second),
            milliseconds * 1000,
            tzinfo=zone,
        )
        return local.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        raise InvalidInput(f"there is no such time: {text[:40]!r}", *path) from None


def _event_of_json(line: str) -> LogEvent:
    """Returns the request of a JSON object: the fields of `LogEventInput`, or those of a converted Apache log.

    The second format has `ip`, `bytes` and `agent` instead of `host`, `responseSize` and `userAgent`, writes `-` or
    null for no value, and may have other fields, which are ignored.
    """
    try:
        given: Any = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise InvalidInput(f"not JSON: {error.msg}, at character {error.pos + 1}") from None
    record = object_of(given, None)
    if "ip" not in record:
        return _event_of_record(object_of(record, _OWN))
    renamed = {"host": "ip", "responseSize": "bytes", "userAgent": "agent"}
    names = {name: renamed.get(name, name) for name in _OWN - {"eventId"}}
    return _event_of_record({name: record.get(given) for name, given in names.items() if record.get(given) != NONE})


def _event_of_record(record: Record) -> LogEvent:
    time = text_at(record, "time")
    return LogEvent(
        event_id=optional(record, "eventId", as_text),
        host=text_at(record, "host"),
        user=optional(record, "user", as_text),
        time=_parse_time(time, "time") if "/" in time else as_instant(time, "time"),
        method=_or_default(optional(record, "method", as_text), "GET"),
        path=text_at(record, "path"),
        status=_or_default(optional(record, "status", _as_whole), 200),
        response_size=_or_default(optional(record, "responseSize", _as_whole), 0),
        referrer=optional(record, "referrer", as_text),
        user_agent=optional(record, "userAgent", as_text),
    )


def _or_default(value: Any, default: Any) -> Any:
    return default if value is None else value


def _as_whole(value: Any, *path: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidInput("must be a whole number", *path)
    return value
