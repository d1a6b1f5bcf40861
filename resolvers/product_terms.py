"""The terms of a product: everything it can be found by exactly, in one array under one index for each order.

A term is a kind, a separator and a folded value, e.g. `genre␟jazz`. The source keeps free properties as name-value
pairs under one index for the same reason ("index all the things"); here the other filters join them, so that each
combination of a filter and a sort is one walk along an index.
"""

from __future__ import annotations

from typing import Any

from .documents import Document
from .text import fold, words

ALBUM = "Audio Album"
FILM = "Film"

EVERY = "*"
_SEPARATOR = "\x1f"


def term(kind: str, *values: object) -> str:
    return _SEPARATOR.join((kind, *(str(value) for value in values)))


def type_term(product_type: str) -> str:
    """One of the three types of the schema."""
    return term("type", {ALBUM: "AUDIO_ALBUM", FILM: "FILM"}.get(product_type, "GENERAL"))


def property_term(name: str, value: str) -> str:
    return term("property", fold(name), fold(value))


def stock_term(*, in_stock: bool) -> str:
    return term("stock", "in" if in_stock else "out")


def terms_of(product: Document) -> list[str]:
    """Every term of the product, each once. Needs its type, title, details, properties and category_ids."""
    details: dict[str, Any] = product["details"]
    found = [EVERY, type_term(product["type"]), stock_term(in_stock=bool(product.get("in_stock")))]
    found += [term("category", category_id) for category_id in product["category_ids"]]
    found += [term("word", word) for word in words(product["title"])]
    found += [property_term(pair["name"], pair["value"]) for pair in product["properties"]]
    if product["type"] in {ALBUM, FILM}:
        found += [term("genre", fold(genre)) for genre in details.get("genres", ())]
        found += [term("actor", fold(actor)) for actor in details.get("actors", ())]
        if details.get("artist"):
            found.append(term("artist", fold(details["artist"])))
    return list(dict.fromkeys(found))
