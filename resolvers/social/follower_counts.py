"""Counts of followers, as a viewer may see them: a member who has blocked the viewer is in no count.

A count reads keys of the index of followers only, and not more of them than MAX_COUNTED and the blocks of the viewer.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

from portico.resolvers.documents import Database, Document

from . import relations
from .relations import RELATIONS

# A count goes no further.
MAX_COUNTED = 1_000
# A viewer whom more members have blocked gets no counts.
MAX_BLOCKS = 10_000
# Blocks during a count let it be repeated. With another one each time, the last count is taken.
_ATTEMPTS = 3
_COUNTS_A_COMMAND = 100
# The most bytes of the blocks in one command, which names them for each member. MongoDB takes 16 MB.
_BYTES_A_COMMAND = 8_000_000
# What a text in a list takes besides its own bytes: a type, a number as its key, a length, and two ends.
_BYTES_A_TEXT = 12
# Before every time at which somebody began to follow. The bound is exact in the index, so that no document is read.
_EVER = datetime(1, 1, 1, tzinfo=UTC)


async def count_followers(db: Database, members: Sequence[str], *, viewer: str | None) -> dict[str, int]:
    """Returns how many followers of each member the viewer can see, up to MAX_COUNTED.

    One command without a viewer, two for a viewer whom nobody has blocked, and otherwise four; more only for more than
    100 members, or very many blocks. The blocks are read after the counts, which are repeated if there are new ones, in
    _ATTEMPTS at most. Leaves out all members if more than MAX_BLOCKS have blocked the viewer.
    """
    hidden: set[str] = set()
    counts: dict[str, int] = {}
    for _ in range(_ATTEMPTS):
        counts = await _count(db, members, hidden)
        if viewer is None:
            return counts
        blocking = await relations.find_all_blocking(db, viewer, MAX_BLOCKS)
        if blocking is None:
            return {}
        if blocking <= hidden:
            return counts
        hidden = blocking
    return counts


async def _count(db: Database, members: Sequence[str], without: Collection[str]) -> dict[str, int]:
    found: dict[str, int] = dict.fromkeys(members, 0)
    names = sorted(without)
    at_once = _counts_a_command(names)
    for start in range(0, len(members), at_once):
        parts = [_part(member, names) for member in members[start : start + at_once]]
        unions: list[Document] = [{"$unionWith": {"coll": RELATIONS.name, "pipeline": part}} for part in parts[1:]]
        rows = await db[RELATIONS.name].aggregate([*parts[0], *unions], batchSize=len(parts) + 1)
        found |= {row["of"]: row["count"] for row in await rows.to_list()}
    return found


def _counts_a_command(without: Sequence[str]) -> int:
    size = sum(len(name.encode()) + _BYTES_A_TEXT for name in without)
    return max(1, min(_COUNTS_A_COMMAND, _BYTES_A_COMMAND // max(1, size)))


def _part(member: str, without: Sequence[str]) -> list[Document]:
    query: Document = {"of": member, "follower": {"$gt": _EVER}}
    if without:
        query["to"] = {"$nin": without}
    return [
        {"$match": query},
        # The order names the index: see `MemberListing`.
        {"$sort": {"to": 1, "follower": 1}},
        {"$limit": MAX_COUNTED},
        {"$count": "count"},
        {"$set": {"of": {"$literal": member}}},
    ]
