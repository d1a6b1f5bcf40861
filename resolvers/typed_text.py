"""Text as people type it into a search box: beginnings of words, in any case, without accents, with typos."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from .texts import without_accents, words

# Further words of a text are ignored.
MAX_TYPED = 8
MAX_TEXT = 200
# A typo changes a short word to another one too easily, and a long word has too many neighbors.
_LEAST_LETTERS, _MOST_LETTERS = 4, 24
_WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


class Part(NamedTuple):
    """A part of a text, and whether it is what was typed."""

    text: str
    is_match: bool


def plain(word: str) -> str:
    return without_accents(word).replace("'", "")


def shortened(word: str) -> list[str]:
    """Returns the plain word with each letter left out; nothing for a short or a long word."""
    if not _LEAST_LETTERS <= len(word) <= _MOST_LETTERS:
        return []
    return list(dict.fromkeys(word[:place] + word[place + 1 :] for place in range(len(word))))


def near(found: Iterable[str]) -> list[str]:
    """Returns the plain words, and each of them with each letter left out; without short and long words.

    Two words differ by one typo only if they have one of these in common.
    """
    kept: dict[str, None] = {}
    for word in found:
        if short := shortened(word):
            kept |= dict.fromkeys((word, *short))
    return list(kept)


def matches(typed: Iterable[str], found: Iterable[str]) -> bool:
    """Returns whether each typed word is the beginning of one of the plain words, or differs from one by one typo."""
    known = list(found)
    return all(any(word.startswith(one) or (shortened(one) and is_typo(one, word)) for word in known) for one in typed)


def typed_words(text: str) -> list[str]:
    """Returns the plain words of a typed text, each once."""
    found = (one.replace("'", "") for one in words(without_accents(text)))
    return list(dict.fromkeys(one for one in found if one))[:MAX_TYPED]


def is_typo(typed: str, word: str) -> bool:
    """Returns whether the words differ by one letter that is missing, too much, or another one, or by two that are
    swapped.
    """
    start = 0
    while start < min(len(typed), len(word)) and typed[start] == word[start]:
        start += 1
    one, other = typed[start:], word[start:]
    if one[1:] == other[1:] or one[1:] == other or one == other[1:]:
        return True
    return one[:2] == other[1::-1] and one[2:] == other[2:]


def parts_of(text: str, typed: list[str]) -> list[Part]:
    """Splits a text into what matches one of the typed words, and the rest."""
    found: list[Part] = []
    end = 0
    for word in _WORD.finditer(text):
        length = _length_of_match(word[0], typed)
        if length:
            found += [Part(text[end : word.start()], is_match=False), Part(word[0][:length], is_match=True)]
            end = word.start() + length
    found.append(Part(text[end:], is_match=False))
    return [part for part in found if part.text]


def _length_of_match(word: str, typed: list[str]) -> int:
    """Returns how many letters of a word match: its beginning, or all of it if it differs by a typo or by accents that
    are letters of their own.
    """
    simple = plain(word)
    beginnings = [len(one) for one in typed if simple.startswith(one)]
    if beginnings:
        return max(beginnings) if len(simple) == len(word) else len(word)
    return len(word) if any(shortened(one) and is_typo(one, simple) for one in typed) else 0
