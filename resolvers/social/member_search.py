"""Finds members by the beginnings of the words of their names, or by one typo, and lists all members by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from portico.resolvers.documents import Database, Document
from portico.resolvers.hints import with_hint
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.texts import prefix_range
from portico.resolvers.typed_text import matches, near, typed_words

from . import names
from .members import MEMBERS, NAME_KEYS

# A search goes no further along the index.
MAX_CONSIDERED = 1_000


def all_members() -> Listing:
    """Returns the listing of all members, by folded name."""
    return Listing({}, Sort((("name_key", 1),)), named={"members": "by name"})


async def find_by_name(db: Database, text: str, *, limit: int) -> list[str]:
    """Returns the subjects of members whose names have words that begin with the words of the text.

    They come in the order of the word that begins with the longest one of the text, and then of the name. With several
    words, it considers the first MAX_CONSIDERED members for the longest one. One command, or none.
    """
    wanted = names.words_of(text)
    return [] if not wanted else [one["_id"] for one in await _read(db, _named(wanted, limit), limit)]


class Found(NamedTuple):
    """The subjects of the members whose names match a typed text, and of those that match it with typos."""

    exact: list[str]
    near: list[str]


async def find_typed(db: Database, text: str, *, limit: int) -> Found:
    """Returns at most `limit` members as `find_by_name`, and as many whose words can differ by one typo, by name.

    For typos, it considers the first MAX_CONSIDERED members with a word that is like the longest typed one. One
    command, or none.
    """
    wanted, typed = names.words_of(text), typed_words(text)
    if not wanted or not typed:
        return Found([], [])
    stages = _named(wanted, limit)
    if similar := near([max(typed, key=len)]):
        shown = {"name": 1, "name_key": 1}
        like = [{"$match": {"name_near": {"$in": similar}}}, {"$limit": MAX_CONSIDERED}, {"$project": shown}]
        stages.append({"$unionWith": {"coll": MEMBERS.name, "pipeline": like}})
    rows = await _read(db, stages, limit + MAX_CONSIDERED)
    matching = [one for one in rows if "name" in one and matches(typed, names.plain_words(one["name"]))]
    matching.sort(key=lambda one: (one["name_key"], one["_id"]))
    return Found([one["_id"] for one in rows if "name" not in one], [one["_id"] for one in matching[:limit]])


def _named(wanted: Sequence[str], limit: int) -> list[Document]:
    """Returns the stages that find members by the beginnings of all words, the longest first."""
    stages: list[Document] = [_begins_with(wanted[0]), {"$limit": MAX_CONSIDERED}]
    return [*stages, *map(_begins_with, wanted[1:]), {"$limit": limit}, {"$project": {"_id": 1}}]


async def _read(db: Database, stages: Sequence[Document], most: int) -> list[Document]:
    async def read(**options: Any) -> list[Document]:
        # The hint gives the order, too: an index is walked in its own order.
        return await (await db[MEMBERS.name].aggregate(stages, batchSize=most + 1, **options)).to_list()

    return await with_hint(NAME_KEYS, read)


def _begins_with(word: str) -> Document:
    # Without `$elemMatch`, different keys could fulfil the two ends of the range.
    return {"$match": {"name_keys": {"$elemMatch": prefix_range(word)}}}
