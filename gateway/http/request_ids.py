"""The id of a request, and the trace that it belongs to, as its caller names them.

Source: W3C Trace Context, level 1, section 3.2 (`traceparent`).
"""

from __future__ import annotations

import re
from random import Random

from starlette.datastructures import Headers
from structlog.contextvars import bind_contextvars

MAX_ID_LENGTH = 128
TRACE_HEADERS = ("x-request-id", "traceparent", "tracestate")
# Ids must differ, but need not be secret. The system's own generator takes ten times as long.
_NEW_IDS = Random()  # noqa: S311 - no secret
_REQUEST_ID = re.compile(rf"[A-Za-z0-9._~:/+=@-]{{1,{MAX_ID_LENGTH}}}", re.ASCII)
# A later version may have more after the flags. Version ff, and ids of zeros, are not valid.
_TRACE_PARENT = re.compile(
    r"(?!ff)(?P<version>[0-9a-f]{2})-(?!0{32})(?P<trace>[0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?P<more>-.{0,200})?",
    re.ASCII,
)


def request_id_of(headers: Headers) -> str:
    """Returns the caller's `X-Request-Id`; without a valid one, the trace id of `traceparent`, or else a new id.

    While the current task runs, its log entries have the trace id as `trace_id`.
    """
    trace = _trace_id_of(headers)
    if trace is not None:
        bind_contextvars(trace_id=trace)
    given = headers.get("x-request-id")
    if given is not None and _REQUEST_ID.fullmatch(given):
        return given
    return trace or new_request_id()


def new_request_id() -> str:
    """Returns an id for a request without one."""
    return f"{_NEW_IDS.getrandbits(128):032x}"


def has_own_id(headers: Headers) -> bool:
    """Returns whether a request has headers that are other ones in each request."""
    return any(name in headers for name in TRACE_HEADERS)


def _trace_id_of(headers: Headers) -> str | None:
    given = headers.getlist("traceparent")
    found = _TRACE_PARENT.fullmatch(given[0]) if len(given) == 1 else None
    if found is None or (found["version"] == "00" and found["more"]):
        return None
    return found["trace"]
