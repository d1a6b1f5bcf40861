"""Terms and keywords: the exact values by which products are found, as two indexed arrays.

A term is a kind, a separator and a folded value, e.g. `genre␟jazz`. The source stores free properties as name-value
pairs under one index for the same reason ("index all the things"). Here the other filters use this, too.

Many products share a term (type, genre, category). Terms are indexed in every sort order, so a page is one index scan,
however many products match. Few products share a keyword (words of the title, people, properties). Keywords are indexed
once, because every index entry costs a write, and a few matches are sorted quickly.

Every product has the term `*`. For several genres, or a category with its descendants, the server merges several scans
in order. A value ignores case, width and spaces. No input of a caller becomes part of a field path, an operator or a
regular expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from portico.resolvers.texts import fold, words
from portico.resolvers.typed import TypedDict

ALBUM = "Audio Album"
FILM = "Film"

EVERY = "*"
_SEPARATOR = "\x1f"


class SearchKeys(TypedDict):
    """The search values of a product."""

    # Those that many products share, and those that few share.
    terms: list[str]
    keywords: list[str]


def term(kind: str, *values: object) -> str:
    return _SEPARATOR.join((kind, *map(str, values)))


def _terms(kind: str, values: Iterable[str]) -> list[str]:
    """Returns the term of each value."""
    begin = kind + _SEPARATOR
    return [begin + value for value in values]


_TYPES = {ALBUM: term("type", "AUDIO_ALBUM"), FILM: term("type", "FILM")}
_GENERAL = term("type", "GENERAL")
_STOCK = {True: term("stock", "in"), False: term("stock", "out")}


def type_term(product_type: str) -> str:
    """Returns the term of one of the three types of the schema."""
    return _TYPES.get(product_type, _GENERAL)


def type_name_term(product_type: str) -> str:
    """Returns the term of the merchant's own type. For an album and a film, that of the schema's type is the same."""
    return _TYPES.get(product_type) or term("named", product_type)


def property_term(name: str, value: str) -> str:
    return f"property{_SEPARATOR}{fold(name)}{_SEPARATOR}{fold(value)}"


def stock_term(*, in_stock: bool) -> str:
    return _STOCK[in_stock]


def with_stock(terms: list[str], *, in_stock: bool) -> list[str]:
    """Returns the terms of a product with another state of its stock."""
    return [_STOCK[in_stock] if one == _STOCK[not in_stock] else one for one in terms]


_WORD_KINDS = ("word", "person")


def word_terms(words_of: Iterable[str]) -> list[str]:
    """Returns the keywords of products that have one of the words in their title or in the names of their people."""
    return [term(kind, word) for word in words_of for kind in _WORD_KINDS]


def words_in(*products: Mapping[str, Any]) -> set[str]:
    """Returns the words in the titles and in the names of the people of products, from their keywords."""
    # Products of a batch share many keywords.
    keywords = {one for product in products for one in product.get("keywords") or () if isinstance(one, str)}
    parts = (keyword.split(_SEPARATOR) for keyword in keywords)
    return {part[1] for part in parts if part[0] in _WORD_KINDS}


def search_keys(product: Mapping[str, Any]) -> SearchKeys:
    """Returns the terms and keywords of the product, each once.

    Args:     product: with its type, title, details, properties and category_ids.
    """
    details: dict[str, Any] = product["details"]
    kind = product["type"]
    terms = [EVERY, type_term(kind), type_name_term(kind), stock_term(in_stock=bool(product.get("in_stock")))]
    terms += _terms("category", map(str, product["category_ids"]))
    keywords = _terms("word", words(product["title"]))
    keywords += [property_term(pair["name"], pair["value"]) for pair in product["properties"]]
    if kind in {ALBUM, FILM}:
        terms += _terms("genre", map(fold, details.get("genres", ())))
        artist, actors = details.get("artist") or "", details.get("actors", ())
        keywords += _terms("actor", map(fold, actors))
        if artist:
            keywords.append(term("artist", fold(artist)))
        keywords += _terms("person", words(" ".join([artist, *actors, *details.get("directors", ())])))
    return {"terms": list(dict.fromkeys(terms)), "keywords": list(dict.fromkeys(keywords))}
