"""Conditional requests and ranges: decides which parts of a resource to send, if any.

Source: RFC 9110, sections 13 and 14.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import NamedTuple

from starlette.datastructures import Headers

# If a request has more ranges, or asks for more bytes than the resource has, the whole resource is sent.
MAX_RANGES = 16
_RANGE = re.compile(r"(\d{0,18})-(\d{0,18})")
_TAG = re.compile(r'(W/)?("[\x21\x23-\x7e\x80-\xff]*")')


class Span(NamedTuple):
    """The bytes from `start` up to, but not including, `end`."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class NotSatisfiable(Exception):
    """No range contains a byte of the resource."""


def precondition_status(headers: Headers, method: str, *, tag: str, modified: datetime | None) -> int | None:
    """Returns 412 or 304 if a condition of the request demands it; None if the request is to be served.

    `tag` is the strong entity tag with its quotes. `modified` is UTC without a zone. With None, conditions on the
    time are ignored.
    """
    if_match, if_none_match = _joined(headers, "if-match"), _joined(headers, "if-none-match")
    if if_match is not None:
        if not _matches(if_match, tag, weakly=False):
            return 412
    elif _is_modified_since(headers.get("if-unmodified-since"), modified):
        return 412
    is_read = method in {"GET", "HEAD"}
    if if_none_match is not None:
        return (304 if is_read else 412) if _matches(if_none_match, tag, weakly=True) else None
    if is_read and _is_modified_since(headers.get("if-modified-since"), modified) is False:
        return 304
    return None


def _is_modified_since(text: str | None, modified: datetime | None) -> bool | None:
    """Returns whether the resource was modified after the date; None if either time is unknown."""
    date = _date(text)
    return None if date is None or modified is None else modified.replace(microsecond=0) > date


def _joined(headers: Headers, name: str) -> str | None:
    lines = headers.getlist(name)
    return ", ".join(lines) if lines else None


def _matches(condition: str, tag: str, *, weakly: bool) -> bool:
    if condition.strip() == "*":
        return True
    return any(found == tag and (weakly or not weak) for weak, found in _TAG.findall(condition))


def _date(text: str | None) -> datetime | None:
    """Returns the date in UTC, without its zone; None if there is none or it is invalid."""
    if text is None:
        return None
    try:
        found = parsedate_to_datetime(text)
        return found if found.tzinfo is None else found.astimezone(UTC).replace(tzinfo=None)
    except (ValueError, OverflowError):
        return None


def requested_spans(headers: Headers, length: int, *, tag: str, modified: datetime) -> list[Span] | None:
    """Returns the spans that a GET asks for, in their order; None if the whole resource is to be sent.

    Raises:   NotSatisfiable.
    """
    asked = _joined(headers, "range")
    if asked is None or not _if_range_holds(headers.get("if-range"), tag, modified):
        return None
    unit, equals, text = asked.partition("=")
    if unit.strip().lower() != "bytes" or not equals:
        return None
    spans = _spans([part.strip() for part in text.split(",") if part.strip()], length)
    if spans is None:
        return None
    if not spans:
        raise NotSatisfiable
    return None if sum(span.length for span in spans) > length else spans


def _if_range_holds(condition: str | None, tag: str, modified: datetime) -> bool:
    """Returns whether the part that the client already has is of the current version."""
    if condition is None:
        return True
    condition = condition.strip()
    if condition.endswith('"'):
        return condition == tag
    return _date(condition) == modified.replace(microsecond=0)


def _spans(asked: Sequence[str], length: int) -> list[Span] | None:
    """Returns the spans of the ranges that are not empty; None if a range is invalid, or there are too many."""
    if not asked or len(asked) > MAX_RANGES:
        return None
    spans = []
    for text in asked:
        found = _RANGE.fullmatch(text)
        if found is None or text == "-":
            return None
        first, last = found.groups()
        if not first:
            span = Span(max(length - int(last), 0), length)
        else:
            if last and int(last) < int(first):
                return None
            span = Span(int(first), min(int(last) + 1, length) if last else length)
        if span.start < span.end:
            spans.append(span)
    return spans
