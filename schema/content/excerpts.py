"""Excerpts of texts, and how long it takes to read them."""

from __future__ import annotations

DEFAULT_EXCERPT, MIN_EXCERPT, MAX_EXCERPT = 200, 20, 500
# An excerpt is made from so many characters of a text.
BEGINNING = 4_000
_WORDS_A_MINUTE = 200


def shortened(text: str, length: int) -> str:
    """Returns the text, or at most `length` characters of it with `…` at the end, if possible after a whole word."""
    if len(text) <= length:
        return text
    kept = text[: length - 1]
    words, _, _ = kept.rpartition(" ")
    return f"{(kept if text[length - 1] == ' ' else words or kept).rstrip()}…"


def minutes_to_read(text: str) -> int:
    """Returns the minutes that it takes to read the text, at 200 words a minute; at least 1."""
    return max(1, -(-len(text.split()) // _WORDS_A_MINUTE))
