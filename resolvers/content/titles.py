"""Finds sections, pages and entries by the beginnings of the words of their titles, or by one typo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database, Document
from portico.resolvers.texts import prefix_range
from portico.resolvers.typed_text import matches, near

from .nodes import ENTRY, NODES, PAGE, SECTION, is_visible

# The most nodes that are considered for one text.
MAX_CONSIDERED = 500
_FOUND = frozenset({SECTION, PAGE, ENTRY})


async def find_titled(
    db: Database, typed: Sequence[str], *, until: datetime | None, first: int
) -> Sequence[Mapping[str, Any]]:
    """Returns nodes whose titles have a word that begins with each typed word, those with short titles first.

    If it finds none, words may differ by one typo. It considers the first 500 nodes with a word that begins with the
    longest typed one, and the first 500 with a word that is like it.

    Args:     typed: plain words.  until: of what is visible later, nothing is found; None for everything.
    Returns:  nodes with their `_id` and `title`. One command, or none.
    """
    if not typed:
        return []
    longest = max(typed, key=len)
    rows = await _considered(db, {"words": {"$elemMatch": prefix_range(longest)}}, near([longest]))
    nodes = [node for node in rows if node["type"] in _FOUND and is_visible(node, until)]
    found = [node for node in nodes if all(any(word.startswith(one) for word in node["words"]) for one in typed)]
    found = found or [node for node in nodes if matches(typed, node["words"])]
    return sorted(found, key=lambda node: (len(node["title"]), node["title"], node["_id"]))[:first]


async def _considered(db: Database, beginning: Document, similar: Sequence[str]) -> list[Document]:
    """Returns the first nodes with this beginning of a word, and the first with a word like it, each once."""
    kept: list[Document] = [
        {"$limit": MAX_CONSIDERED},
        {"$project": {"title": 1, "words": 1, "type": 1, "visible_from": 1}},
    ]
    stages = [{"$match": beginning}, *kept]
    if similar:
        like = [{"$match": {"near": {"$in": list(similar)}}}, *kept]
        stages.append({"$unionWith": {"coll": NODES.name, "pipeline": like}})
    rows = await (await db[NODES.name].aggregate(stages)).to_list()
    return list({row["_id"]: row for row in rows}.values())
