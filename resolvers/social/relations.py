"""The social graph: what one member knows of another. The collection and its reads.

A document describes an ordered pair of members. It has what `of` has decided about `to`, and a copy of what `to` has
decided about `of`. So each member's side of the graph, circles and followers, is on one shard, and one read by key
returns everything that decides what `of` may see of `to`.

A change is acknowledged when both documents have it. A document is never deleted, so that versions only grow.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, NotRequired

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.hints import with_hint
from portico.resolvers.parts import as_part
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

from .members import Change

# The index of those who followed a member once.
FOLLOWERS_BEFORE = "followers_before"


class Pair(TypedDict):
    """The subjects of two members."""

    of: str
    to: str


class Following(TypedDict):
    """A time in which one followed another."""

    since: datetime
    until: datetime


class RelationDocument(Repeatable):
    """What `of` knows of `to`."""

    _id: Pair
    of: str
    to: str
    # The circles of `of` that contain `to`. `of` follows `to` if there is any.
    circles: NotRequired[list[str]]
    # Whether `of` has blocked `to`.
    blocks: NotRequired[bool]
    # The name of `to` when `of` blocked it; missing without a block, or if `to` had blocked `of` before.
    known_as: NotRequired[str]
    # Incremented by every change of `circles` or `blocks`.
    version: NotRequired[int]
    # When `of` began to follow `to`; missing while it does not. Then the latest times that it followed `to` before.
    since: NotRequired[datetime]
    followed_before: NotRequired[list[Following]]
    # The circles of `to` that contain `of`; since when `to` follows `of`, and did before; whether it has blocked `of`.
    in_circles: NotRequired[list[str]]
    follower: NotRequired[datetime]
    follower_before: NotRequired[list[Following]]
    blocked: NotRequired[bool]
    # The version of the other document that these four were copied from.
    copied: NotRequired[int]
    # True if `of` follows `to`, and `to` has too many followers for fan-out.
    is_merged: NotRequired[bool]
    # The other document may lack the current version.
    uncopied: NotRequired[Change]


class Decided(NamedTuple):
    """What one member has decided about another."""

    follows: bool = False
    has_blocked: bool = False


RELATIONS = CollectionSpec(
    "social.relations",
    document=RelationDocument,
    indexes=[
        IndexModel([("of", ASCENDING), ("to", ASCENDING)], unique=True),
        # The members of a circle, and the members whom `of` follows.
        IndexModel([("of", ASCENDING), ("circles", ASCENDING), ("to", ASCENDING)]),
        # The followers of `of`, who are the recipients of its posts.
        IndexModel(
            [("of", ASCENDING), ("to", ASCENDING), ("follower", ASCENDING)],
            partialFilterExpression={"follower": {"$exists": True}},
        ),
        # Those who followed `of` once, and stopped. A post that they followed its author for is delivered to them.
        IndexModel(
            [("of", ASCENDING), ("follower_before.until", ASCENDING)],
            name=FOLLOWERS_BEFORE,
            partialFilterExpression={"follower_before.until": {"$exists": True}},
        ),
        IndexModel(
            [("of", ASCENDING), ("blocks", ASCENDING), ("to", ASCENDING)], partialFilterExpression={"blocks": True}
        ),
        # The members who have blocked `of`.
        IndexModel(
            [("of", ASCENDING), ("blocked", ASCENDING), ("to", ASCENDING)], partialFilterExpression={"blocked": True}
        ),
        IndexModel(
            [("of", ASCENDING), ("is_merged", ASCENDING), ("to", ASCENDING)],
            partialFilterExpression={"is_merged": True},
        ),
        IndexModel([("uncopied.at", ASCENDING)], partialFilterExpression={"uncopied.at": {"$exists": True}}),
    ],
    shard_key={"of": 1, "to": 1},
)

_PAIRS, _CIRCLES = "of_1_to_1", "of_1_circles_1_to_1"
# The index of followers. A member can have many relations and few followers, so a read names it.
FOLLOWERS = "of_1_to_1_follower_1"
# The relations of one batch, where a read has no limit.
_BATCH = 10_000
# What decides what `of` may see of `to`.
DECIDING: Projection = {"of": 1, "to": 1, "circles": 1, "blocks": 1, "in_circles": 1, "blocked": 1}


def key_of(of: str, to: str) -> Document:
    """Returns the filter for the document of the ordered pair, with its shard key."""
    return {"_id": {"of": of, "to": to}, "of": of, "to": to}


async def find(
    db: Database, of: str, others: Sequence[str], projection: Projection | None = DECIDING
) -> dict[str, Document]:
    """Returns what the member `of` knows of these others, by their subjects. One command on one index.

    It leaves out others without a relation: they are in no circle of each other, and neither has blocked the other.
    """
    query = {"of": of, "to": {"$in": list(dict.fromkeys(others))}}
    found = await db[RELATIONS.name].find(query, projection, batch_size=len(others) + 1).to_list()
    return {relation["to"]: relation for relation in found}


async def find_one(db: Database, of: str, to: str, projection: Projection | None = None) -> Document | None:
    """Returns the document of the ordered pair; None if neither has ever decided anything about the other."""
    return await db[RELATIONS.name].find_one(key_of(of, to), projection)


async def find_pairs(
    db: Database, pairs: Iterable[tuple[str, str]], projection: Projection | None = None
) -> list[Document]:
    """Returns the documents of these ordered pairs. The filter names the shard key, and the keys come from `_id`."""
    ids = [{"of": of, "to": to} for of, to in dict.fromkeys(pairs)]
    ends = {end: {"$in": list({key[end] for key in ids})} for end in ("of", "to")}
    query = {"_id": {"$in": ids}, **ends}
    found = db[RELATIONS.name].find(query, projection, batch_size=len(ids) + 1, hint="_id_")
    return await found.to_list()


def behind(to: str | None) -> Document:
    """Returns the condition for relations behind the one to this member, in the order of `to`; with None, for all."""
    return {} if to is None else {"to": {"$gt": to}}


def follows(relation: Document) -> bool:
    """Returns whether `of` follows `to`: whether `to` is in any circle of `of`."""
    return bool(relation.get("circles"))


def has_block(relation: Document) -> bool:
    """Returns whether one of the two has blocked the other."""
    return bool(relation.get("blocks") or relation.get("blocked"))


async def find_followed(db: Database, of: str, most: int) -> list[str] | None:
    """Returns the members whom the member follows, without those with a block; None if there are more than `most`.

    One command on one index.
    """
    # Names of circles are texts. The bound keeps the read to relations with circles, of which the member can have few
    # among many.
    return await _find_others(db, {"of": of, "circles": {"$gt": ""}}, _CIRCLES, most)


async def is_followed(db: Database, member: str) -> bool:
    """Returns whether anybody has the member in a circle. One command on one index."""
    query = {"of": member, "follower": {"$exists": True}}

    async def read(**options: Any) -> list[Document]:
        return await db[RELATIONS.name].find(query, {"_id": 0, "to": 1}, limit=1, **options).to_list()

    return bool(await with_hint(FOLLOWERS, read))


async def find_followers(db: Database, of: str, most: int) -> list[str] | None:
    """Returns the members who have `of` in a circle, like `find_followed`."""
    return await _find_others(db, {"of": of, "follower": {"$exists": True}}, FOLLOWERS, most)


async def _find_others(db: Database, query: Document, index: str, most: int) -> list[str] | None:
    shown = {"_id": 0, "to": 1, "blocks": 1, "blocked": 1}

    async def read(**options: Any) -> list[Document]:
        found = db[RELATIONS.name].find(query, shown, limit=most + 1, batch_size=most + 2, **options)
        return await found.to_list()

    rows = await with_hint(index, read)
    return None if len(rows) > most else [relation["to"] for relation in rows if not has_block(relation)]


async def find_merged(db: Database, of: str) -> dict[str, list[str]]:
    """Returns those whom the member follows and who are merged on read, each with the circles that contain `of`.

    One command on one index.
    """
    query = {"of": of, "is_merged": True}
    shown = {"_id": 0, "to": 1, "in_circles": 1}
    found = await db[RELATIONS.name].find(query, shown, batch_size=_BATCH).to_list()
    return {relation["to"]: relation.get("in_circles") or [] for relation in found}


async def find_blocks(db: Database, of: str, most: int) -> list[str]:
    """Returns the members with a block in either direction, `most` of them. One command on two indexes."""
    query = {"of": of, "$or": [{"blocks": True}, {"blocked": True}]}
    found = db[RELATIONS.name].find(query, {"_id": 0, "to": 1}, limit=most, batch_size=most + 1)
    return [relation["to"] for relation in await found.to_list()]


async def find_blocks_among(db: Database, of: str, others: Iterable[str]) -> set[str]:
    """Returns those of the others with a block in either direction. One command on one index, or none."""
    keys = list(dict.fromkeys(others))
    if not keys:
        return set()
    query = {"of": of, "to": {"$in": keys}, "$or": [{"blocks": True}, {"blocked": True}]}

    async def read(**options: Any) -> list[Document]:
        found = db[RELATIONS.name].find(query, {"_id": 0, "to": 1}, batch_size=len(keys) + 1, **options)
        return await found.to_list()

    # A member can have very many blocks: the indexes of blocks would lead to all of them.
    return {relation["to"] for relation in await with_hint(_PAIRS, read)}


async def find_blocking(db: Database, of: str, others: Sequence[str]) -> set[str]:
    """Returns those of the others who have blocked the member `of`. One command on one index."""
    query = {"of": of, "to": {"$in": list(dict.fromkeys(others))}, "blocked": True}
    found = await db[RELATIONS.name].find(query, {"_id": 0, "to": 1}, batch_size=len(others) + 1).to_list()
    return {relation["to"] for relation in found}


async def find_all_blocking(db: Database, of: str, most: int) -> set[str] | None:
    """Returns the members who have blocked the member `of`; None if there are more than `most`. One command."""
    query = {"of": of, "blocked": True}
    found = await db[RELATIONS.name].find(query, {"_id": 0, "to": 1}, limit=most + 1, batch_size=most + 2).to_list()
    return None if len(found) > most else {relation["to"] for relation in found}


async def find_decided(db: Database, others: Sequence[str], *, viewer: str) -> dict[str, Decided]:
    """Returns what the viewer has decided about these others, by their subjects. One command."""

    async def read(db: Database) -> dict[str, Decided]:
        found = await find(db, viewer, others, {"_id": 0, "to": 1, "circles": 1, "blocks": 1})
        return {to: Decided(follows(found[to]), bool(found[to].get("blocks"))) for to in sorted(found)}

    return await as_part(db, read)


async def find_names_of_blocking(db: Database, of: str, others: Sequence[str]) -> dict[str, str]:
    """Returns those of the others who have blocked the member `of`, each with the name that the member may see.

    It is the name when the member blocked them, and otherwise the subject. One command on one index.
    """
    query = {"of": of, "to": {"$in": list(dict.fromkeys(others))}, "blocked": True}
    shown = {"_id": 0, "to": 1, "known_as": 1}
    found = await db[RELATIONS.name].find(query, shown, batch_size=len(others) + 1).to_list()
    return {relation["to"]: relation.get("known_as") or relation["to"] for relation in found}


async def find_blocked(db: Database, of: str, limit: int) -> list[str]:
    """Returns the first members whom the member has blocked, by subject."""
    wanted = {"of": of, "blocks": True}
    sort = [("blocks", ASCENDING), ("to", ASCENDING)]
    found = await db[RELATIONS.name].find(wanted, {"_id": 0, "to": 1}, sort=sort, limit=limit).to_list()
    return [relation["to"] for relation in found]
