"""Checks and normalizes text that people type."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from .errors import InvalidInput

__all__ = [
    "check_length",
    "fold",
    "prefix_range",
    "require_filled",
    "require_line",
    "require_slug",
    "require_text",
    "require_texts",
    "trimmed",
    "without_accents",
    "words",
]

_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")
_SLUG = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
MAX_SLUG = 200
# The longest author name that does not come from a token.
MAX_AUTHOR = 200
# Combining marks on one letter. Vietnamese needs two, cantillated Hebrew four; towers of marks cover the text around.
MAX_MARKS = 6
_FIRST_MARK = "\u0300"
# Control characters, overrides of the text direction, deprecated format characters, surrogates and noncharacters. The
# marks of one direction are harmless, and texts with Arabic or Hebrew need them.
_UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u206f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_BREAKS = re.compile(r"[\t-\r\u2028\u2029]")
# Invisible letters and symbols. Blanks, joiners and other format characters are found by their categories.
_UNSEEN = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_VARIATION_SELECTORS = re.compile("[\ufe00-\ufe0f\U000e0100-\U000e01ef]")


def fold(text: str) -> str:
    """Folds case, width, composition and blanks: `Jazz ` and `JAZZ` become `jazz`."""
    if text.isascii():
        return " ".join(text.lower().split())
    folded = unicodedata.normalize("NFKC", text).casefold()
    # Case folding decomposes some letters, so the text is normalized again.
    return " ".join(unicodedata.normalize("NFKC", folded).split())


def without_accents(text: str) -> str:
    """Returns the folded text without its accents."""
    parts = unicodedata.normalize("NFD", fold(text))
    return unicodedata.normalize("NFC", "".join(one for one in parts if not unicodedata.combining(one)))


def words(text: str) -> list[str]:
    """Returns the folded words of the text, each once, in order. A word can contain apostrophes."""
    folded = fold(text).replace("\u2019", "'")
    # Splitting is faster, and enough for most texts.
    found = folded.split() if folded.replace(" ", "").isalnum() else _WORD.findall(folded)
    return list(dict.fromkeys(found))


def prefix_range(prefix: str) -> dict[str, Any]:
    """Returns a filter for the strings that begin with the prefix: exact index bounds, nothing to escape."""
    upper = prefix
    while upper:
        last = ord(upper[-1])
        if last < sys.maxunicode:
            # Skip the surrogates, which no text contains.
            following = chr(0xE000 if last + 1 == 0xD800 else last + 1)  # noqa: PLR2004
            return {"$gte": prefix, "$lt": upper[:-1] + following}
        upper = upper[:-1]
    return {"$gte": prefix}


def require_text(value: str | None, *path: str, longest: int) -> str:
    """Returns the text without surrounding blanks.

    Raises InvalidInput if it is empty, too long or invisible, or contains characters that disturb the text around it:
    control characters, or more than six marks on one letter.
    """
    text = (value or "").strip()
    is_plain = text.isascii() and text.isprintable()
    if is_plain and 0 < len(text) <= longest:
        return text
    if not text:
        raise InvalidInput(f"{_label(path)} must not be empty.", *path, code=InvalidInput.EMPTY)
    check_length(text, *path, longest=longest)
    if not is_plain:
        _require_harmless(text, *path)
    return text


def require_line(value: str | None, *path: str, longest: int) -> str:
    """Returns a text of one line, such as a name, without surrounding blanks.

    Raises InvalidInput like `require_text`, and also for tabs and line breaks.
    """
    text = require_text(value, *path, longest=longest)
    if not text.isprintable() and _BREAKS.search(text):
        raise InvalidInput(f"{_label(path)} holds a tab or a line break.", *path, code=InvalidInput.FORBIDDEN_CHARACTER)
    return text


def shown_line(text: str, *, longest: int) -> str:
    """Returns a text from elsewhere in the form of `require_line`: without what that refuses, and cut to the length.

    It is empty if the text shows nothing.
    """
    line = " ".join(_UNWANTED.sub("", text).split())[:longest]
    if line.isascii():
        return line
    if has_tower(line):
        line = "".join(one for one in line if not unicodedata.category(one).startswith("M"))
    return line if any(map(_is_seen, line)) else ""


def is_line(text: str) -> bool:
    """Returns whether the text has one line, without characters that disturb the text around it."""
    return not (has_unwanted(text) or _BREAKS.search(text))


def require_texts(values: Sequence[str], *, longest: int) -> list[str]:
    """Returns the texts without surrounding blanks. Raises InvalidInput like `require_text`, without a path."""
    # Almost always all are plain, and then checked together.
    together = "".join(values)
    if together.isascii() and together.isprintable():
        texts = [value.strip() for value in values]
        if all(texts) and (len(together) <= longest or max(map(len, texts)) <= longest):
            return texts
    return [require_text(value, longest=longest) for value in values]


def trimmed(key: str) -> str:
    """Returns a key in the form in which `require_text` stores it, for reads by this key."""
    return key.strip()


def _require_harmless(text: str, *path: str) -> None:
    if has_unwanted(text):
        raise InvalidInput(f"{_label(path)} holds a control character.", *path, code=InvalidInput.FORBIDDEN_CHARACTER)
    if not any(map(_is_seen, text)):
        raise InvalidInput(f"{_label(path)} must not be empty: it shows nothing.", *path, code=InvalidInput.EMPTY)
    if has_tower(text):
        raise InvalidInput(
            f"{_label(path)} has more than {MAX_MARKS} marks on one letter.",
            *path,
            code=InvalidInput.FORBIDDEN_CHARACTER,
        )


def has_unwanted(text: str) -> bool:
    """Returns whether the text has control characters, or others that disturb the text around them."""
    return _UNWANTED.search(text) is not None


def has_tower(text: str) -> bool:
    """Returns whether a letter has more than six combining marks."""
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
    """Returns whether the character is visible by itself. Joiners are not, but are valid within words and emoji."""
    if character in _UNSEEN or _VARIATION_SELECTORS.match(character):
        return False
    return unicodedata.category(character) not in {"Cc", "Cf", "Zl", "Zp", "Zs"}


def check_length(text: str, *path: str, longest: int) -> str:
    """Returns the text unchanged. Raises InvalidInput if it is too long or contains a NUL."""
    if len(text) > longest:
        raise InvalidInput(
            f"{_label(path)} has {len(text):,} characters; {longest:,} are allowed.",
            *path,
            code=InvalidInput.TOO_LONG,
            most=longest,
        )
    if "\0" in text:
        raise InvalidInput(f"{_label(path)} holds a NUL character.", *path, code=InvalidInput.FORBIDDEN_CHARACTER)
    return text


def require_filled(text: str, *path: str, longest: int) -> str:
    """Returns the text unchanged. Raises InvalidInput if it is empty or too long, or contains a NUL."""
    if not text:
        raise InvalidInput(f"{_label(path)} must not be empty.", *path, code=InvalidInput.EMPTY)
    return check_length(text, *path, longest=longest)


def require_slug(value: str | None, *path: str) -> str:
    """Returns a slug for URLs: lower-case letters, digits, and single `-`, `_` or `.` between them."""
    slug = require_text(value, *path, longest=MAX_SLUG)
    if not _SLUG.fullmatch(slug):
        raise InvalidInput(
            f"{_label(path)} may hold lower-case letters a to z, digits, and single '-', '_' or '.' between them.",
            *path,
            code=InvalidInput.WRONG_FORMAT,
            pattern=_SLUG.pattern,
        )
    return slug


def _label(path: tuple[str, ...]) -> str:
    words = " ".join(part.replace("_", " ") for part in path if not part.isdigit()).split()
    # `ad.ad_unit_id` is the ad unit id.
    once = [word for word, before in zip(words, ["", *words], strict=False) if word != before]
    label = " ".join(once) or "the text"
    # Keys of the caller's own data, such as `aspectRatio`, keep their capitals.
    return label[0].upper() + label[1:]
