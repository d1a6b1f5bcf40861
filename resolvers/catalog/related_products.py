"""Products that have something in common with a product: people, categories, genres."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from portico.resolvers.documents import SCHEMA_VERSION, Database, Document, Projection, upgrade_read

from .product_terms import term
from .products import PRODUCTS, ProductDocument

MAX_RELATED = 20
# The most products that are compared with a product because of its people, its categories, or its genres.
_CONSIDERED = 50
# The most values of a kind that count.
_MAX_VALUES = 10
_PEOPLE, _CATEGORIES, _GENRES = (3, ("artist", "actor")), (2, ("category",)), (1, ("genre",))


@dataclass(frozen=True)
class Subject:
    """A product, with the search values that it may share with others."""

    sku: str
    people: tuple[str, ...]
    categories: tuple[str, ...]
    genres: tuple[str, ...]

    @staticmethod
    def of(product: Mapping[str, Any]) -> Subject:
        """Returns the subject of a product that was read with its `sku`, `terms` and `keywords`."""
        values = [*product.get("terms", ()), *product.get("keywords", ())]

        def of_kind(kinds: Sequence[str]) -> tuple[str, ...]:
            beginnings = tuple(term(kind, "") for kind in kinds)
            return tuple(value for value in values if value.startswith(beginnings))[:_MAX_VALUES]

        return Subject(product["sku"], *(of_kind(kinds) for _, kinds in (_PEOPLE, _CATEGORIES, _GENRES)))


async def find_related(
    db: Database, subjects: Sequence[Subject], *, first: int, projection: Projection | None
) -> dict[Subject, list[ProductDocument]]:
    """Finds the products that have most in common with each subject, by one command.

    A common person counts most, then a category, then a genre. Of equal products, the newest come first. Compares each
    subject with the 50 newest products of its people, of its categories, and of its genres.
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
    return bool(subject.people or subject.categories or subject.genres)


def _stages(subject: Subject, number: int, first: int, projection: Projection | None) -> list[Document]:
    order: Document = {"issue_date": -1, "_id": -1}
    newest: list[Document] = [{"$sort": order}, {"$limit": _CONSIDERED + 1}]
    start, *others = [
        [{"$match": {path: {"$in": list(values)}}}, *newest]
        for path, values in (("keywords", subject.people), ("terms", subject.categories), ("terms", subject.genres))
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
    kept = [] if projection is None else [{"$project": {**projection, "sku": 1, SCHEMA_VERSION: 1, "part": 1}}]
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
