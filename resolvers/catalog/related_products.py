"""Products that are bought together with a product, or have something in common with it: people, categories, genres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portico.resolvers.documents import Database, Document, Projection, upgrade_read

from .product_terms import term
from .products import PRODUCTS, ProductDocument

MAX_RELATED = 20
# The most products that are compared with a product because of its people, its categories, or its genres.
_CONSIDERED = 50
# The most values of a kind that count.
_MAX_VALUES = 10
# What counts for a product that is bought together with the other one, and more the more often it is.
_BOUGHT_WITH, _OFTEN = 4, 0.01
_PEOPLE, _CATEGORIES, _GENRES = (3, ("artist", "actor")), (2, ("category",)), (1, ("genre",))


@dataclass(frozen=True)
class Subject:
    """A product, with the search values that it may share with others."""

    sku: str
    people: tuple[str, ...]
    categories: tuple[str, ...]
    genres: tuple[str, ...]
    bought_with: tuple[str, ...]

    @staticmethod
    def of(product: Mapping[str, Any]) -> Subject:
        """Returns the subject of a product that was read with its `sku`, `terms`, `keywords` and `bought_with`."""
        values = [*product.get("terms", ()), *product.get("keywords", ())]

        def of_kind(kinds: Sequence[str]) -> tuple[str, ...]:
            beginnings = tuple(term(kind, "") for kind in kinds)
            return tuple(value for value in values if value.startswith(beginnings))[:_MAX_VALUES]

        people, categories, genres = (of_kind(kinds) for _, kinds in (_PEOPLE, _CATEGORIES, _GENRES))
        together = product.get("bought_with", {}).get("skus", ())[:MAX_RELATED]
        return Subject(product["sku"], people, categories, genres, tuple(together))


async def set_bought_with(db: Database, sku: str, skus: Sequence[str], *, revision: int | None) -> bool:
    """Stores what is bought together with the product, unless it has another revision than this by now.

    Args:     skus: at most 20, the most frequent first.  revision: None if nothing was stored yet.
    Returns:  whether it was stored.
    Writes:   products; one guarded update.
    """
    same = {"sku": sku, "bought_with.revision": revision}
    changes = {"bought_with": {"skus": list(skus), "revision": (revision or 0) + 1}}
    return bool((await db[PRODUCTS.name].update_one(same, {"$set": changes})).matched_count)


async def find_related(
    db: Database, subjects: Sequence[Subject], *, first: int, projection: Projection | None
) -> dict[Subject, list[ProductDocument]]:
    """Finds the products that have most in common with each subject, by one command.

    What is bought together counts most, then a common person, then a category, then a genre. Of equal products, the
    newest come first. Compares each subject with the products that are bought together with it, and with the 50 newest
    ones of its people, of its categories, and of its genres.
    """
    parts = {number: _stages(one, number, first, projection) for number, one in enumerate(subjects) if _is_rich(one)}
    if not parts:
        return {}
    start, *others = parts.values()
    unions = [{"$unionWith": {"coll": PRODUCTS.name, "pipeline": part}} for part in others]
    rows: list[Any] = await (await db[PRODUCTS.name].aggregate([*start, *unions])).to_list()
    numbers = [row.pop("part") for row in rows]
    found: dict[Subject, list[ProductDocument]] = {}
    for number, product in zip(numbers, await upgrade_read(db, PRODUCTS, rows, projection), strict=True):
        found.setdefault(subjects[number], []).append(product)
    return found


def _is_rich(subject: Subject) -> bool:
    return bool(subject.people or subject.categories or subject.genres or subject.bought_with)


def _stages(subject: Subject, number: int, first: int, projection: Projection | None) -> list[Document]:
    order: Document = {"issue_date": -1, "_id": -1}
    newest: list[Document] = [{"$sort": order}, {"$limit": _CONSIDERED + 1}]
    start, *others = [
        [{"$match": {path: {"$in": list(values)}}}, *newest]
        for path, values in (
            ("keywords", subject.people),
            ("terms", subject.categories),
            ("terms", subject.genres),
            ("sku", subject.bought_with),
        )
        if values
    ]
    unions = [{"$unionWith": {"coll": PRODUCTS.name, "pipeline": part}} for part in others]
    shared = [
        {"$multiply": [weight, {"$size": {"$setIntersection": [{"$ifNull": [f"${path}", []]}, list(values)]}}]}
        for (weight, _), path, values in (
            (_PEOPLE, "keywords", subject.people),
            (_CATEGORIES, "terms", subject.categories),
            (_GENRES, "terms", subject.genres),
        )
    ]
    together = {"$literal": list(subject.bought_with)}
    often = {"$multiply": [_OFTEN, {"$subtract": [MAX_RELATED, {"$indexOfArray": [together, "$sku"]}]}]}
    shared.append({"$cond": [{"$in": ["$sku", together]}, {"$add": [_BOUGHT_WITH, often]}, 0]})
    kept = [] if projection is None else [{"$project": {**projection, "sku": 1, "schema_version": 1, "part": 1}}]
    return [
        *start,
        *unions,
        {"$match": {"sku": {"$ne": subject.sku}}},
        {"$group": {"_id": "$_id", "product": {"$first": "$$ROOT"}}},
        {"$replaceWith": "$product"},
        {"$set": {"in_common": {"$add": shared}, "part": {"$literal": number}}},
        {"$sort": {"in_common": -1, **order}},
        {"$limit": first},
        {"$unset": "in_common"},
        *kept,
    ]
