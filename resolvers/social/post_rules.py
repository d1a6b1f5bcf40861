"""Rules for what members write: texts, links, places and polls."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portico.resolvers.documents import Document
from portico.resolvers.errors import InvalidInput
from portico.resolvers.texts import require_line, require_text
from portico.resolvers.urls import require_web_url

# Characters.
LONGEST_POST = 100_000
LONGEST_COMMENT = 10_000
LONGEST_OPTION = 200
LONGEST_PLACE = 200
MIN_OPTIONS, MAX_OPTIONS = 2, 10
# Degrees.
MAX_LATITUDE, MAX_LONGITUDE = 90.0, 180.0
KINDS = STATUS, LINK, PHOTO, CHECKIN, POLL = "status", "link", "photo", "checkin", "poll"
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")


def require_post_text(value: str, *path: str) -> str:
    """Returns the text with line feeds as line ends, and without surrounding white space.

    Raises InvalidInput if it has more than 100,000 characters, or `require_text` refuses it.
    """
    return require_text(_LINE_ENDS.sub("\n", value), *path, longest=LONGEST_POST)


def require_comment_text(value: str) -> str:
    """Does the same as `require_post_text` for a comment of up to 10,000 characters."""
    return require_text(_LINE_ENDS.sub("\n", value), "text", longest=LONGEST_COMMENT)


def require_detail(kind: str, detail: Mapping[str, Any]) -> Document:
    """Returns the detail of a post of this kind, as it is stored.

    Args:     detail: {text} and, by kind: {url}; {photo}, the key of a photo that the author may see; {place, latitude,
              longitude}; {options}.
    Raises:   InvalidInput. Only a status and a poll need a text.
    """
    with InvalidInput.collect() as check:
        return {name: check(rule, detail[name], "detail", kind, name) for name, rule in _RULES[kind].items()}


def _optional_text(value: str, *path: str) -> str:
    return require_post_text(value, *path) if value.strip() else ""


def _place(value: str, *path: str) -> str:
    return require_line(value, *path, longest=LONGEST_PLACE)


def _degrees(most: float) -> Callable[..., float]:
    def check(value: float, *path: str) -> float:
        # This comparison refuses NaN, too.
        if not -most <= value <= most:
            text = f"The {path[-1]} must be between {-most:.0f} and {most:.0f} degrees."
            raise InvalidInput(text, *path, code=InvalidInput.OUT_OF_RANGE, least=-int(most), most=int(most))
        return float(value)

    return check


def _options(values: Sequence[str], *path: str) -> list[str]:
    if not MIN_OPTIONS <= len(values) <= MAX_OPTIONS:
        text = f"A poll has {MIN_OPTIONS} to {MAX_OPTIONS} options; got {len(values):,}."
        code = InvalidInput.TOO_FEW if len(values) < MIN_OPTIONS else InvalidInput.TOO_MANY
        raise InvalidInput(text, *path, code=code, least=MIN_OPTIONS, most=MAX_OPTIONS)
    with InvalidInput.collect() as check:
        found = [
            check(require_line, value, *path, str(number), longest=LONGEST_OPTION)
            for number, value in enumerate(values)
        ]
    for number, text in enumerate(found):
        if text in found[:number]:
            raise InvalidInput("Two options have the same text.", *path, str(number), code=InvalidInput.DUPLICATE)
    return found


def _photo(value: Any, *_path: str) -> Any:
    return value


_RULES: Mapping[str, Mapping[str, Callable[..., Any]]] = {
    STATUS: {"text": require_post_text},
    LINK: {"text": _optional_text, "url": require_web_url},
    PHOTO: {"text": _optional_text, "photo": _photo},
    CHECKIN: {
        "text": _optional_text,
        "place": _place,
        "latitude": _degrees(MAX_LATITUDE),
        "longitude": _degrees(MAX_LONGITUDE),
    },
    POLL: {"text": require_post_text, "options": _options},
}
