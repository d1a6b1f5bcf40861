"""Products and categories for a text that a person types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from portico.resolvers.documents import Database, Document
from portico.resolvers.texts import words
from portico.resolvers.typed_text import plain

from .categories import CATEGORIES
from .product_terms import word_terms
from .products import PRODUCTS

# The most products and categories that are compared.
_CONSIDERED = 100
# The most that are read to find those that have several words.
_READ = 500


class Match(NamedTuple):
    """An object that matches a typed text: its key, its title, and the text that matches."""

    key: Any
    title: str
    match: str


async def find_products(db: Database, typed: Sequence[Sequence[str]], *, first: int) -> list[Match]:
    """Finds products that have one of the words for each typed word, in the title or in the names of people.

    Those whose titles match come first, then the newest. Considers the 100 newest. With several typed words, it looks
    for them among the newest products of each: 500 for all words together.
    """
    if not typed or not all(typed):
        return []
    people = {f"details.{name}": 1 for name in ("artist", "actors", "directors")}
    shown = {"sku": 1, "title": 1, "issue_date": 1, **people}
    conditions: list[Document] = [{"keywords": {"$in": word_terms(found)}} for found in typed]
    rows = await _rows(db, PRODUCTS.name, conditions, [{"$sort": {"issue_date": -1, "_id": -1}}], shown)
    matches = [_match(product, typed) for product in rows[:_CONSIDERED]]
    return sorted(matches, key=lambda one: one.match != one.title)[:first]


async def _rows(
    db: Database, collection: str, conditions: Sequence[Document], order: Sequence[Document], shown: Document
) -> list[Document]:
    """Returns documents that fulfil all conditions, each once and in order, by one command.

    MongoDB cannot stop after a number of documents that fulfil one condition and not the others. So each condition
    finds an equal share of the first ones, and the others choose among these.
    """
    kept: list[Document] = [{"$limit": _CONSIDERED}, {"$project": shown}]
    if len(conditions) == 1:
        parts = [[{"$match": conditions[0]}, *order, *kept]]
    else:
        limit = {"$limit": _READ // len(conditions)}
        chosen = {"$match": {"$and": list(conditions)}}
        parts = [[{"$match": one}, *order, limit, chosen, *kept] for one in conditions]
    unions = [{"$unionWith": {"coll": collection, "pipeline": part}} for part in parts[1:]]
    found = await (await db[collection].aggregate([*parts[0], *unions, *(order if unions else [])])).to_list()
    return list({row["_id"]: row for row in found}.values())


def _match(product: Mapping[str, Any], typed: Sequence[Sequence[str]]) -> Match:
    """Returns the text of a product that has most of the typed words: the title, or a person."""
    details = product.get("details") or {}
    texts = [product["title"], details.get("artist") or "", *details.get("actors", ()), *details.get("directors", ())]
    wanted = {word for found in typed for word in found}
    best = max(texts, key=lambda text: len(wanted & set(words(text))))
    return Match(product["sku"], product["title"], best)


async def find_categories(db: Database, typed: Sequence[Sequence[str]], *, first: int) -> list[Match]:
    """Finds categories whose names have one of the words for each typed word, short names first. Considers as many as
    of products.
    """
    if not typed or not all(typed):
        return []
    conditions: list[Document] = [{"words": {"$in": list(found)}, "pending": None} for found in typed]
    rows = await _rows(db, CATEGORIES.name, conditions, [], {"name": 1})
    rows.sort(key=lambda row: (len(row["name"]), plain(row["name"])))
    return [Match(row["_id"], row["name"], row["name"]) for row in rows[:first]]
