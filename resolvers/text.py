"""Text as people type it, made comparable."""

from __future__ import annotations

import re
import unicodedata

from .errors import InvalidInput

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_SLUG = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
# As part of an expression. What was published elsewhere keeps its address.
PERMALINK = r"[A-Za-z0-9]+(?:[-_.]+[A-Za-z0-9]+)*"
_PERMALINK = re.compile(PERMALINK)
MAX_SLUG = 200


def fold(text: str) -> str:
    """The text without regard to case, width and composition, blanks folded: `Jazz ` and `JAZZ` become `jazz`."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Folding takes some letters apart that normalizing puts together.
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def words(text: str) -> list[str]:
    """The words of the text, folded, each once, in order. An apostrophe within a word belongs to it."""
    return list(dict.fromkeys(match.group().replace("\u2019", "'") for match in _WORD.finditer(fold(text))))


def require_text(value: str | None, *path: str, longest: int) -> str:
    """The text without blanks around it. Raises InvalidInput where it is empty, too long, or holds a NUL."""
    text = (value or "").strip()
    if not text:
        raise InvalidInput(f"{_label(path)} must not be empty.", *path)
    return check_length(text, *path, longest=longest)


def check_length(text: str, *path: str, longest: int) -> str:
    """The text as it is. Raises InvalidInput where it is too long, or holds a NUL."""
    if len(text) > longest:
        raise InvalidInput(f"{_label(path)} has {len(text):,} characters; {longest:,} are allowed.", *path)
    if "\0" in text:
        raise InvalidInput(f"{_label(path)} holds a NUL character.", *path)
    return text


def require_slug(value: str | None, *path: str) -> str:
    """A slug for use in URLs: lower-case letters, digits, and single `-`, `_` or `.` between them."""
    slug = require_text(value, *path, longest=MAX_SLUG)
    if not _SLUG.fullmatch(slug):
        raise InvalidInput(
            f"{_label(path)} may hold lower-case letters a to z, digits, and single '-', '_' or '.' between them.",
            *path,
        )
    return slug


def require_permalink(value: str | None, *path: str) -> str:
    """A slug that may have come from elsewhere: capitals count, and several separators may stand together."""
    slug = require_text(value, *path, longest=MAX_SLUG)
    if not _PERMALINK.fullmatch(slug):
        raise InvalidInput(f"{_label(path)} may hold letters a to z, digits, and '-', '_' or '.' between them.", *path)
    return slug


def _label(path: tuple[str, ...]) -> str:
    return " ".join(part.replace("_", " ") for part in path if not part.isdigit()).capitalize() or "The text"
