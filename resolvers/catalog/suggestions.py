"""Products and categories for a text that a person types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portico.resolvers.documents import Database, Document
from portico.resolvers.text import words
from portico.resolvers.typed_text import plain

from .categories import CATEGORIES
from .product_terms import word_terms
from .products import PRODUCTS

# The most products and categories that are compared.
_CONSIDERED = 100


class Match(NamedTuple):
    """An object that matches a typed text: its key, its title, and the text that matches."""

    key: Any
    title: str
    match: str


async def find_products(db: Database, typed: Sequence[Sequence[str]], *, first: int) -> list[Match]:
    """Finds products that have one of the words for each typed word, in the title or in the names of people.

    Those whose titles match come first, then the newest. Considers the 100 newest.
    """
    if not typed or not all(typed):
        return []
    query: Document = {"$and": [{"keywords": {"$in": word_terms(found)}} for found in typed]}
    people = {f"details.{name}": 1 for name in ("artist", "actors", "directors")}
    order = [("issue_date", -1), ("_id", -1)]
    found = PRODUCTS.of(db).find(query, {"sku": 1, "title": 1, **people}, sort=order, limit=_CONSIDERED)
    matches = [_match(product, typed) for product in await found.to_list()]
    return sorted(matches, key=lambda one: one.match != one.title)[:first]


def _match(product: Mapping[str, Any], typed: Sequence[Sequence[str]]) -> Match:
    """Returns the text of a product that has most of the typed words: the title, or a person."""
    details = product.get("details") or {}
    texts = [product["title"], details.get("artist") or "", *details.get("actors", ()), *details.get("directors", ())]
    wanted = {word for found in typed for word in found}
    best = max(texts, key=lambda text: len(wanted & set(words(text))))
    return Match(product["sku"], product["title"], best)


async def find_categories(db: Database, typed: Sequence[Sequence[str]], *, first: int) -> list[Match]:
    """Finds categories whose names have one of the words for each typed word, short names first."""
    if not typed or not all(typed):
        return []
    query: Document = {"$and": [{"words": {"$in": list(found)}} for found in typed], "pending": None}
    rows = await CATEGORIES.of(db).find(query, {"name": 1}, limit=_CONSIDERED).to_list()
    rows.sort(key=lambda row: (len(row["name"]), plain(row["name"])))
    return [Match(row["_id"], row["name"], row["name"]) for row in rows[:first]]
