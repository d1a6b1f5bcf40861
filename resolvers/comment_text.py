"""The texts that a comment may have."""

from __future__ import annotations

import re
import unicodedata

from .errors import InvalidInput
from .text import require_text

# Characters.
LONGEST = 10_000
MAX_LINES = 500
# Marks above and below one letter. Vietnamese needs two, cantillated Hebrew four; towers of them cover what is around.
MAX_MARKS = 6
_FIRST_MARK = "\u0300"
_LINE_ENDS = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
# Control characters; those that turn the direction of a whole line; halves of characters; what is no character.
_UNWANTED = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


def require_comment_text(value: str) -> str:
    """The text with line feeds at the ends of its lines, and without blanks around it.

    Raises InvalidInput where it is empty, longer than 10,000 characters or 500 lines, or holds what would spoil more
    than itself: control characters, or more than six marks on one letter.
    """
    text = require_text(_LINE_ENDS.sub("\n", value), "text", longest=LONGEST)
    if has_unwanted(text):
        raise InvalidInput("Text holds a control character.", "text")
    if text.count("\n") >= MAX_LINES:
        raise InvalidInput(f"Text has {text.count(chr(10)) + 1:,} lines; {MAX_LINES} are allowed.", "text")
    if has_tower(text):
        raise InvalidInput(f"Text has more than {MAX_MARKS} marks on one letter.", "text")
    return text


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
