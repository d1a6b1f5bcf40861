"""How names of members are compared: in any case, with accents folded, each word by its beginning."""

from __future__ import annotations

from portico.resolvers.texts import without_accents, words
from portico.resolvers.typed import TypedDict
from portico.resolvers.typed_text import near, plain

# The words of a search; further ones are ignored.
MAX_WORDS = 8


class Searched(TypedDict):
    """What a member stores of the name."""

    name_key: str
    name_keys: list[str]
    name_near: list[str]


def searched(name: str) -> Searched:
    """Returns what a member stores of the name: the folded name, a key for each word that begins with this word, and
    what finds the words by a typo (`typed_text.near`).

    The words before the word follow at the end of the key. So keys that begin with the same word are in the order of
    names.
    """
    key = without_accents(name)
    found = words(key)
    keys = [" ".join([*found[place:], *found[:place]]) for place in range(len(found))]
    return {"name_key": key, "name_keys": keys or [key], "name_near": near(plain_words(name))}


def plain_words(name: str) -> list[str]:
    """Returns the plain words of a name, each once."""
    return list(dict.fromkeys(one for one in map(plain, words(name)) if one))


def words_of(text: str) -> list[str]:
    """Returns the words of a search, the longest first."""
    return sorted(words(without_accents(text))[:MAX_WORDS], key=len, reverse=True)
