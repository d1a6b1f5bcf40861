"""Collects the words of products and categories that are older than the vocabulary, and checks that all are known."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from typing import Any

from portico.resolvers.declarations import Job
from portico.resolvers.documents import CollectionSpec, Database
from portico.resolvers.problems import Problem

from .categories import CATEGORIES
from .product_terms import words_in
from .products import PRODUCTS
from .vocabulary import WALKS, WORDS, WordsOf, collect_words, store_words


def _words_of_name(category: Mapping[str, Any]) -> set[str]:
    return {word for word in category.get("words") or () if isinstance(word, str)}


_ALL: Sequence[tuple[CollectionSpec[Any], str, str, WordsOf]] = (
    (PRODUCTS, "sku", "keywords", words_in),
    (CATEGORIES, "slug", "words", _words_of_name),
)


async def collect(db: Database) -> int:
    """Stores the words of up to 500 products and 500 categories, until all have been read. Returns how many
    words are new.

    It waits until all of them are upgraded.

    Raises:   SweepFailed: some documents are damaged. The words of the others are stored.
    """
    return await Job.in_sequence(*(partial(collect_words, db, spec, field, read) for spec, _, field, read in _ALL))


async def find_unknown_words(db: Database) -> AsyncIterator[Problem]:
    """Yields products and categories with words that searches do not know."""
    for spec, name, field, read in _ALL:
        walk = await WALKS.of(db).find_one({"_id": spec.name})
        if walk is not None and walk["is_done"]:
            found = spec.of(db).find({}, {name: 1, field: 1})
            async for problem in Problem.all_in(
                found, partial(_unknown, db, name, read), Problem.named(spec.name, name)
            ):
                yield problem


async def _unknown(
    db: Database, name: str, read: WordsOf, documents: list[Mapping[str, Any]]
) -> AsyncIterator[Problem]:
    wanted = sorted({word for document in documents for word in read(document)})
    known = {one["_id"] async for one in WORDS.of(db).find({"_id": {"$in": wanted}}, {"_id": 1})}
    for document in documents:
        if missing := read(document) - known:
            again = partial(_store, db, missing)
            yield Problem(f"{document.get(name)}", f"searches do not know {len(missing)} of its words", again)


async def _store(db: Database, missing: set[str]) -> None:
    await store_words(db, missing)
