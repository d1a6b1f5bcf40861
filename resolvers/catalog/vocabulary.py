"""The words of titles, people and names of categories, and how typed words find them.

People type beginnings of words, without accents and with typos. Products are indexed by whole words (`product_terms`).
So a typed word is first looked up here, and the result is a few of the words that products have.

A word has one document, however many products have it. `plain` is the word without accents and apostrophes, and finds
it by its beginning. `near` has the plain word with each letter left out: two words differ by one typo (a letter that is
missing, too much, another one, or swapped with its neighbor) only if they, or what is left of them without one letter,
have one in common. So one index finds all candidates, and a comparison keeps the right ones.

Words are stored **before** a product that has them. So a crash leaves at most words that nothing has, which find
nothing; words are never deleted. Words of products from before this collection existed are collected by a job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NotRequired

from bson import ObjectId
from pymongo import ASCENDING, IndexModel
from pymongo.errors import BulkWriteError

from portico.resolvers.documents import (
    LENIENT,
    UPGRADE_FAILED,
    CollectionSpec,
    Database,
    Document,
    Versioned,
)
from portico.resolvers.import_outcomes import rejected_rows
from portico.resolvers.texts import prefix_range
from portico.resolvers.typed import TypedDict
from portico.resolvers.typed_text import is_typo, plain, shortened, typed_words
from portico.resolvers.writes.sweeps import DAMAGED, SweepFailed

# The most words that a typed word finds.
MAX_FOUND = 64
# The lookups of all typed words of an operation share this number of words that they read. Each reads at least 8.
_READ, _LEAST_READ = 8_192, 8
_LOOKUPS_A_COMMAND = 100
# The documents of a collection whose words one run collects.
AT_ONCE = 500
_DUPLICATE = 11000
# Returns the words of a document.
WordsOf = Callable[[Mapping[str, Any]], set[str]]


class WordDocument(Versioned):
    """A word; `_id` is the folded word."""

    _id: str
    plain: str
    near: list[str]


class WalkDocument(TypedDict):
    """How far the job has collected the words of a collection, in the order of `_id`."""

    _id: str
    after: NotRequired[ObjectId]
    is_done: bool


# Both are small, and are not sharded.
WORDS = CollectionSpec(
    "catalog_words",
    document=WordDocument,
    indexes=[IndexModel([("plain", ASCENDING)]), IndexModel([("near", ASCENDING)])],
)
WALKS = CollectionSpec("catalog_word_walks", document=WalkDocument)


async def store_words(db: Database, found: Iterable[str]) -> int:
    """Stores words that are not known yet. Idempotent. Returns how many.

    Writes:   catalog_words; inserts.
    """
    wanted = set(found)
    if not wanted:
        return 0
    query = {"_id": {"$in": sorted(wanted)}}
    known = {one["_id"] for one in await WORDS.of(db).find(query, {"_id": 1}, batch_size=len(wanted) + 1).to_list()}
    new: list[Any] = [
        {"_id": word, "plain": (simple := plain(word)), "near": shortened(simple)} for word in sorted(wanted - known)
    ]
    if not new:
        return 0
    try:
        await WORDS.of(db).insert_many(new, ordered=False)
    except BulkWriteError as error:
        # Another writer has stored it.
        if any(row["code"] != _DUPLICATE for row in rejected_rows(error)):
            raise
    return len(new)


async def find_words(db: Database, texts: Sequence[str]) -> dict[str, list[list[str]]]:
    """Returns for each typed text and each of its words the words that it stands for, at most 64. Looks up a hundred by
    one command.

    The last word of a text stands for all words that begin with it. A word that finds nothing stands for words that
    differ by one typo.
    """
    asked = {text: typed_words(text) for text in texts}
    wanted = {(word, word == found[-1]) for found in asked.values() for word in found}
    lookups: dict[tuple[str, bool, bool], Document] = {}
    for word, is_last in wanted:
        lookups[word, is_last, False] = {"plain": prefix_range(word) if is_last else word}
        if near := shortened(word):
            lookups[word, is_last, True] = {"$or": [{"plain": {"$in": near}}, {"near": {"$in": [word, *near]}}]}
    rows: dict[int, list[WordDocument]] = {}
    for row in await _look_up(db, list(lookups.values())):
        rows.setdefault(row["part"], []).append(row)
    found_by = {key: rows.get(number, []) for number, key in enumerate(lookups)}
    return {
        text: [_chosen(word, found_by, is_last=word == found[-1]) for word in found] for text, found in asked.items()
    }


async def _look_up(db: Database, queries: Sequence[Document]) -> list[Any]:
    """Returns the words that the queries find, each with the number of its query."""
    # A typed word has more words beside it than it stands for.
    most = max(min(4 * MAX_FOUND, _READ // max(len(queries), 1)), _LEAST_READ)
    parts: list[list[Document]] = [
        [{"$match": query}, {"$limit": most}, {"$project": {"plain": 1, "part": {"$literal": number}}}]
        for number, query in enumerate(queries)
    ]
    found: list[Any] = []
    for start in range(0, len(parts), _LOOKUPS_A_COMMAND):
        first, *others = parts[start : start + _LOOKUPS_A_COMMAND]
        unions = [{"$unionWith": {"coll": WORDS.name, "pipeline": part}} for part in others]
        found += await (await db[WORDS.name].aggregate([*first, *unions])).to_list()
    return found


def _chosen(word: str, found: Mapping[tuple[str, bool, bool], Sequence[WordDocument]], *, is_last: bool) -> list[str]:
    exact = found.get((word, is_last, False), ())
    rows = exact or [one for one in found.get((word, is_last, True), ()) if is_typo(word, one["plain"])]
    # The order of what an index finds is not that of the lengths, and with several indexes none at all.
    shortest = sorted(rows, key=lambda one: (len(one["plain"]), one["_id"]))
    return [one["_id"] for one in shortest[:MAX_FOUND]]


async def collect_words(db: Database, spec: CollectionSpec[Any], field: str, read: WordsOf) -> int:
    """Stores the words of the next documents of a collection, once for all documents. Returns how many are new.

    A damaged document is not read again. An edit stores its words, and so does `portico doctor --repair`.

    Args:     field: what `read` reads.  read: returns the words of a document.
    Raises:   SweepFailed: some documents are damaged. The words of the others are stored.
    Writes:   catalog_words, then catalog_word_walks.
    """
    walk = await WALKS.of(db).find_one({"_id": spec.name})
    if walk is not None and walk["is_done"]:
        return 0
    is_old: Document = {"$or": [{"schema_version": None}, {"schema_version": {"$lt": spec.version}}]}
    is_old[UPGRADE_FAILED] = {"$ne": spec.version}
    if await db[spec.name].find_one(is_old, {"_id": 1}) is not None:
        # Its words are not in the document yet.
        return 0
    behind: Document = {"_id": {"$gt": walk["after"]}} if walk is not None and "after" in walk else {}
    collection = db[spec.name].with_options(codec_options=LENIENT)
    batch = await collection.find(behind, {field: 1}, sort=[("_id", ASCENDING)], limit=AT_ONCE).to_list()
    found, failures = _words_of(spec, batch, read)
    new = await store_words(db, found)
    position: Document = {"is_done": len(batch) < AT_ONCE, **({"after": batch[-1]["_id"]} if batch else {})}
    await db[WALKS.name].update_one({"_id": spec.name}, {"$set": position}, upsert=True)
    if failures:
        raise SweepFailed.of(failures, new)
    return new


def _words_of(
    spec: CollectionSpec[Any], documents: Iterable[Document], read: WordsOf
) -> tuple[set[str], list[Exception]]:
    """Returns the words of the documents, and the errors of those whose words cannot be read."""
    found: set[str] = set()
    failures: list[Exception] = []
    for document in documents:
        try:
            found |= read(document)
        except DAMAGED as error:
            error.add_note(f"In {spec.name}: {document['_id']!r}")
            failures.append(error)
    return found, failures
