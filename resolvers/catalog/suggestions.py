"""Products and categories for a text that a person types.

Many objects can have each of several words, and few or none can have all of them. MongoDB would read all objects of one
word to find these. So with several words, each is counted first, up to a bound. The rarest one leads: of the objects
that have it, a bounded number is considered. So nothing is lost if one of the words is rare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.text import words
from portico.resolvers.typed_text import plain

from .categories import CATEGORIES
from .product_terms import word_terms
from .products import PRODUCTS

# The most products and categories that are compared.
_CONSIDERED = 100
# With several words: up to how many objects each word is counted, and how many of the rarest one are considered.
_COUNTED, _WALKED = 250, 1_000
_NEWEST: Mapping[str, int] = MappingProxyType({"issue_date": -1, "_id": -1})


class Match(NamedTuple):
    """An object that matches a typed text: its key, its title, and the text that matches."""

    key: Any
    title: str
    match: str


async def find_products(db: Database, typed: Sequence[Sequence[str]], *, first: int) -> list[Match]:
    """Finds products that have one of the words for each typed word, in the title or in the names of people.

    Those whose titles match come first, then the newest. Considers the 100 newest; with several words, of the 1,000
    newest that have the rarest word.
    """
    if not typed or not all(typed):
        return []
    conditions: list[Document] = [{"keywords": {"$in": word_terms(found)}} for found in typed]
    people = {f"details.{name}": 1 for name in ("artist", "actors", "directors")}
    found = await _find(db, PRODUCTS, conditions, {"sku": 1, "title": 1, **people}, _NEWEST)
    matches = [_match(product, typed) for product in found]
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
    conditions: list[Document] = [{"words": {"$in": list(found)}, "pending": None} for found in typed]
    rows = await _find(db, CATEGORIES, conditions, {"name": 1})
    rows.sort(key=lambda row: (len(row["name"]), plain(row["name"])))
    return [Match(row["_id"], row["name"], row["name"]) for row in rows[:first]]


async def _find(
    db: Database,
    spec: CollectionSpec[Any],
    conditions: Sequence[Document],
    shown: Projection,
    order: Mapping[str, int] = MappingProxyType({}),
) -> list[Any]:
    """Returns objects that match all conditions, at most 100, the first ones in this order."""
    rest = list(conditions)
    lead = rest.pop(await _rarest(db, spec, conditions) if len(rest) > 1 else 0)
    stages: list[Document] = [{"$match": lead}, *([{"$sort": order}] if order else [])]
    if rest:
        stages += [{"$limit": _WALKED}, {"$match": {"$and": rest}}]
    stages += [{"$limit": _CONSIDERED}, {"$project": shown}]
    return await (await db[spec.name].aggregate(stages)).to_list()


async def _rarest(db: Database, spec: CollectionSpec[Any], conditions: Sequence[Document]) -> int:
    """Returns the position of the condition that the fewest objects match, counted up to a bound. One command."""
    parts: list[list[Document]] = [
        [{"$match": one}, {"$limit": _COUNTED}, {"$count": "rows"}, {"$set": {"part": {"$literal": number}}}]
        for number, one in enumerate(conditions)
    ]
    unions = [{"$unionWith": {"coll": spec.name, "pipeline": part}} for part in parts[1:]]
    counted = await (await db[spec.name].aggregate([*parts[0], *unions])).to_list()
    rows = {one["part"]: one["rows"] for one in counted}
    return min(range(len(conditions)), key=lambda number: rows.get(number, 0))
