"""Members of the social network. The collection and its reads.

Who follows whom, and who has blocked whom, is in `relations`.

Source: MongoDB Applied Design Patterns, ch. 8. There, a member's document embeds circles and followers, and would grow
without bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NotRequired

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import NotFound
from portico.resolvers.typed import TypedDict
from portico.resolvers.writes.marks import Repeatable

from .names import searched


class Profile(TypedDict):
    """What a member says about themselves."""

    about: NotRequired[str]
    location: NotRequired[str]
    website: NotRequired[str]
    birth_year: NotRequired[int]
    interests: NotRequired[list[str]]


class Change(TypedDict):
    """The mark of a change whose copies may be outdated."""

    op: str
    at: datetime


class MemberDocument(Repeatable):
    """A member. Its `_id` is the subject of the member's token."""

    _id: str
    name: str
    # The name as it is sorted, and a key for each word as it is searched: see `names`.
    name_key: str
    name_keys: list[str]
    # What finds the name by a typo.
    name_near: list[str]
    profile: Profile
    # The names of the circles of the member. A superset: a circle exists if it has a member.
    circles: list[str]
    # True if the author has too many followers for fan-out. Set before the first follower is marked.
    is_merged: NotRequired[bool]
    # Copies of the name may be outdated.
    renamed: NotRequired[Change]
    joined: datetime


# The index of the words in names.
NAME_KEYS = "name_keys_1"


def upgrade_member(document: Document) -> Document:
    """Upgrades a document of version 1, which has no keys of the name, or of version 2, which finds it by no typo."""
    return {**document, **searched(document["name"])}


MEMBERS = CollectionSpec(
    "social.members",
    document=MemberDocument,
    indexes=[
        IndexModel([("renamed.at", ASCENDING)], partialFilterExpression={"renamed.at": {"$exists": True}}),
        IndexModel([("name_key", ASCENDING), ("_id", ASCENDING)]),
        IndexModel([("name_keys", ASCENDING)], name=NAME_KEYS),
        IndexModel([("name_near", ASCENDING)]),
        # The members of an older version.
        IndexModel([("schema_version", ASCENDING)]),
    ],
    shard_key={"_id": "hashed"},
    version=3,
    upgrade=upgrade_member,
)

# The kind of a member's global id.
USER = "User"


# Marks a member of whom only the subject and a name are shown.
IS_HIDDEN = "is_hidden"


def hidden(subject: str, name: str) -> MemberDocument:
    """Returns what a member sees of one whom they have blocked, and who has blocked them: no more than this name."""
    shown: Any = {"_id": subject, "name": name, "profile": {}, IS_HIDDEN: True}
    member: MemberDocument = shown
    return member


async def find_by_ids(
    db: Database, ids: Sequence[str], projection: Projection | None = None
) -> dict[str, MemberDocument]:
    """Returns the members with these subjects, by subject. Leaves out subjects that have not joined. One command."""
    return await MEMBERS.find_by_keys(db, list(dict.fromkeys(ids)), projection=projection)


async def require(db: Database, subject: str, projection: Projection | None = None) -> MemberDocument:
    """Returns the member that the caller is. Raises NotFound if the caller has not joined."""
    found = (await find_by_ids(db, [subject], projection)).get(subject)
    if found is None:
        raise not_joined(subject)
    return found


def not_joined(subject: str) -> NotFound:
    """Returns the error for a caller who is not a member."""
    return NotFound(USER, subject, "You are not a member yet. Call `join` first.")


async def require_both(
    db: Database, subject: str, other: str, projection: Projection | None = None
) -> tuple[MemberDocument, MemberDocument]:
    """Returns the member that the caller is, and another member, by one command.

    It does not check whether the other member has blocked the caller: see `relations`.

    Raises:   NotFound (the caller has not joined, or there is no such member).
    """
    found = await find_by_ids(db, [subject, other], projection)
    if subject not in found:
        raise not_joined(subject)
    if other not in found:
        raise NotFound(USER, other)
    return found[subject], found[other]
