"""Reads of the votes of polls."""

from __future__ import annotations

from collections.abc import Sequence

from portico.resolvers.documents import Database, Document, DocumentId

from .posts import VOTES
from .votes import SLOTS, slot_number


async def find_votes(db: Database, posts: Sequence[DocumentId], *, viewer: str | None) -> dict[DocumentId, Document]:
    """Returns the votes of each poll: {votes: [count by option], own: the viewer's option or None}. One command.

    Leaves out polls without votes. It looks for the viewer in one slot of a poll, and not among all voters.
    """
    shown: Document = {"post": 1, "votes": 1}
    if viewer is not None:
        own = {"$filter": {"input": "$voters", "cond": {"$eq": ["$$this.id", {"$literal": viewer}]}}}
        shown["own"] = {"$cond": [{"$eq": ["$_id.slot", slot_number(viewer)]}, own, "$$REMOVE"]}
    query = {"post": {"$in": list(posts)}}
    found: dict[DocumentId, Document] = {}
    for slot in await db[VOTES.name].find(query, shown, batch_size=len(posts) * SLOTS + 1).to_list():
        poll = found.setdefault(slot["post"], {"votes": [], "own": None})
        counts = slot.get("votes") or []
        longest = max(len(poll["votes"]), len(counts))
        poll["votes"] = [_at(poll["votes"], place) + _at(counts, place) for place in range(longest)]
        for vote in slot.get("own") or ():
            poll["own"] = vote["option"]
    return found


def _at(counts: Sequence[int], place: int) -> int:
    return counts[place] if place < len(counts) else 0
