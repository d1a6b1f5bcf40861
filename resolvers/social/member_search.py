"""Finds members by the beginnings of the words of their names, along one index, and lists all members by name."""

from __future__ import annotations

from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.hints import with_hint
from portico.resolvers.paging import Listing, Sort
from portico.resolvers.text import prefix_range

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
    if not wanted:
        return []
    stages: list[Document] = [_begins_with(wanted[0]), {"$limit": MAX_CONSIDERED}]
    stages += map(_begins_with, wanted[1:])
    stages += [{"$limit": limit}, {"$project": {"_id": 1}}]

    async def read(**options: Any) -> list[str]:
        # The hint gives the order, too: an index is walked in its own order.
        found = await db[MEMBERS.name].aggregate(stages, batchSize=limit + 1, **options)
        return [member["_id"] for member in await found.to_list()]

    return await with_hint(NAME_KEYS, read)


def _begins_with(word: str) -> Document:
    # Without `$elemMatch`, different keys could fulfil the two ends of the range.
    return {"$match": {"name_keys": {"$elemMatch": prefix_range(word)}}}
