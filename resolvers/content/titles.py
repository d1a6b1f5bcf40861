"""Finds sections, pages and entries by the beginnings of the words of their titles, along one index."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from portico.resolvers.documents import Database
from portico.resolvers.text import prefix_range

from .nodes import ENTRY, NODES, PAGE, SECTION, is_visible

# The most nodes that are considered for one text.
MAX_CONSIDERED = 500
_FOUND = frozenset({SECTION, PAGE, ENTRY})


async def find_titled(
    db: Database, typed: Sequence[str], *, until: datetime | None, first: int
) -> Sequence[Mapping[str, Any]]:
    """Returns nodes whose titles have a word that begins with each typed word, those with short titles first.

    With several words, it considers the first 500 nodes for the longest one.

    Args:     typed: plain words.  until: of what is visible later, nothing is found; None for everything.
    Returns:  nodes with their `_id` and `title`. One command, or none.
    """
    if not typed:
        return []
    longest = max(typed, key=len)
    shown = {"title": 1, "words": 1, "type": 1, "visible_from": 1}
    found = db[NODES.name].find({"words": {"$elemMatch": prefix_range(longest)}}, shown, limit=MAX_CONSIDERED)
    nodes = [
        node
        async for node in found
        if node["type"] in _FOUND
        and is_visible(node, until)
        and all(any(word.startswith(one) for word in node["words"]) for one in typed)
    ]
    return sorted(nodes, key=lambda node: (len(node["title"]), node["title"], node["_id"]))[:first]
