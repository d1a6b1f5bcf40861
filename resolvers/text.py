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
# Of an author's name, where it does not come in a token.
MAX_AUTHOR = 200
# Marks above and below one letter. Vietnamese needs two, cantillated Hebrew four; towers of them cover what is around.
MAX_MARKS = 6
_FIRST_MARK = "\u0300"
# Control characters; those that turn the direction of a whole line; halves of characters; what is no character.
_UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
# Letters and signs that show nothing. Blanks, joiners and other marks of format have categories of their own.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def fold(text: str) -> str:
    """The text without regard to case, width and composition, blanks folded: `Jazz ` and `JAZZ` become `jazz`."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Folding takes some letters apart that normalizing puts together.
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def words(text: str) -> list[str]:
    """The words of the text, folded, each once, in order. An apostrophe within a word belongs to it."""
    return list(dict.fromkeys(match.group().replace("\u2019", "'") for match in _WORD.finditer(fold(text))))


def require_text(value: str | None, *path: str, longest: int) -> str:
    """The text without blanks around it.

    Raises InvalidInput where it is empty, too long, shows nothing, or holds what would spoil more than itself: control
    characters, or more than six marks on one letter.
    """
    text = (value or "").strip()
    if not text:
        raise InvalidInput(f"{_label(path)} must not be empty.", *path)
    check_length(text, *path, longest=longest)
    if not (text.isascii() and text.isprintable()):
        _require_harmless(text, *path)
    return text


def _require_harmless(text: str, *path: str) -> None:
    if has_unwanted(text):
        raise InvalidInput(f"{_label(path)} holds a control character.", *path)
    if not any(map(_is_seen, text)):
        raise InvalidInput(f"{_label(path)} must not be empty: it shows nothing.", *path)
    if has_tower(text):
        raise InvalidInput(f"{_label(path)} has more than {MAX_MARKS} marks on one letter.", *path)


def has_unwanted(text: str) -> bool:
    """Whether it holds control characters, or others that would spoil more than itself."""
    return _UNWANTED.search(text) is not None


def has_tower(text: str) -> bool:
    """Whether more than six marks are on one letter."""
    marks = 0
    for character in text:
        is_mark = character >= _FIRST_MARK and (
            unicodedata.combining(character) or unicodedata.category(character) == "Me"
        )
        marks = marks + 1 if is_mark else 0
        if marks > MAX_MARKS:
            return True
    return False


def _is_seen(character: str) -> bool:
    """Whether it shows anything by itself. Joiners do not, and still belong into words and pictures."""
    if character in _UNSEEN or _VARIATION_SELECTORS.match(character):
        return False
    return unicodedata.category(character) not in {"Cc", "Cf", "Zl", "Zp", "Zs"}


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
