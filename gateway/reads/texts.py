"""Says which documents a full-text search cannot find.

MongoDB splits a text into words, and ignores case and diacritics. A document that it finds has a word of the search.
Here, a document without any of these words anywhere in its texts is not found. So it does not matter where MongoDB lets
a word begin or end, or which fields are in the index.

In an index with a language, a document that is found has another word with the same stem. Nothing is known about these.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .paths import Paths

_BETWEEN = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class TextIndex:
    """The text index of a collection: its paths, and whether a search finds words as they are written only."""

    paths: Paths
    is_literal: bool = False


def words_of(wanted: Mapping[str, Any]) -> Sequence[str] | None:
    """Returns the words of a search of which a document must contain one; None if it is not known which.

    Those of phrases and those that must be missing are among them.
    """
    if wanted.keys() != {"$search"} or not isinstance(wanted["$search"], str):
        return None
    folded = _folded(wanted["$search"])
    words = None if folded is None else [word for word in _BETWEEN.split(folded) if word]
    return words or None


def may_contain(document: Any, words: Sequence[str] | None) -> bool:
    """Returns whether one of the words can be in a text of the document."""
    return words is None or any(_may_have(text, words) for text in _texts(document))


def _may_have(text: str, words: Sequence[str]) -> bool:
    folded = _folded(text)
    if folded is None:
        return True
    # A mark between letters may be no end of a word.
    together = _BETWEEN.sub("", folded)
    return any(word in together for word in words)


# Each search looks at the texts of a changed document in turn. These can be long, so few are kept.
@lru_cache(maxsize=64)
def _folded(text: str) -> str | None:
    """Returns the text in lower case without diacritics; None if it has letters of which the form is not known."""
    if text.isascii():
        return text.lower()
    folded = "".join(one for one in unicodedata.normalize("NFKD", text).casefold() if not unicodedata.combining(one))
    return None if any(one.isalnum() and not one.isascii() for one in folded) else folded


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for below in value.values() if isinstance(value, dict) else value:
            yield from _texts(below)
