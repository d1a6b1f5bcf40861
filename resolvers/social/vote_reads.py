"""Reads of the votes of polls."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portico.resolvers.documents import Database, Document, DocumentId

from .posts import VOTES


async def find_votes(db: Database, posts: Sequence[DocumentId], *, viewer: str | None) -> dict[DocumentId, Document]:
    """Returns the votes of each poll: {votes: [count by option], own: the viewer's option or None}. One command.

    Leaves out polls without votes.
    """
    own: Any = {"$filter": {"input": "$voters", "cond": {"$eq": ["$$this.id", {"$literal": viewer}]}}}
    stages: list[Document] = [
        {"$match": {"post": {"$in": list(posts)}}},
        {"$project": {"post": 1, "votes": 1, "own": own if viewer is not None else []}},
    ]
    found: dict[DocumentId, Document] = {}
    for slot in await (await db[VOTES.name].aggregate(stages)).to_list():
        poll = found.setdefault(slot["post"], {"votes": [], "own": None})
        counts = slot.get("votes") or []
        longest = max(len(poll["votes"]), len(counts))
        poll["votes"] = [_at(poll["votes"], place) + _at(counts, place) for place in range(longest)]
        for vote in slot.get("own") or ():
            poll["own"] = vote["option"]
    return found


def _at(counts: Sequence[int], place: int) -> int:
    return counts[place] if place < len(counts) else 0
