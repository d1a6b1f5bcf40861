"""Members of the social network. The collection and its reads.

A document:

    _id         the subject of the member's token
    name
    profile     {about, location, website, birth_year, interests}
    circles     [name]: the circles of the member. A superset: a circle exists if it has a member
    is_merged   True if the author has too many followers for fan-out. Set before the first follower is marked
    renamed     {op, at} while copies of the name may be outdated
    applied     the repeatable operations that changed it
    joined

Who follows whom, and who has blocked whom, is in `relations`.

Source: MongoDB Applied Design Patterns, ch. 8. There, a member's document embeds circles and followers, and would grow
without bound.
"""

from __future__ import annotations

from collections.abc import Sequence

from pymongo import ASCENDING, IndexModel

from portico.resolvers.documents import CollectionSpec, Database, Document, Projection
from portico.resolvers.errors import NotFound
from portico.resolvers.keyed import find_by_keys

MEMBERS = CollectionSpec(
    "social.members",
    indexes=[IndexModel([("renamed.at", ASCENDING)], partialFilterExpression={"renamed.at": {"$exists": True}})],
    shard_key={"_id": "hashed"},
)

# The kind of a member's global id.
USER = "User"


# Marks a member of whom only the subject and a name are shown.
IS_HIDDEN = "is_hidden"


def hidden(subject: str, name: str) -> Document:
    """Returns what a member sees of one whom they have blocked, and who has blocked them: no more than this name."""
    return {"_id": subject, "name": name, "profile": {}, IS_HIDDEN: True}


async def find_by_ids(db: Database, ids: Sequence[str], projection: Projection | None = None) -> dict[str, Document]:
    """Returns the members with these subjects, by subject. Leaves out subjects that have not joined. One command."""
    return await find_by_keys(db, MEMBERS, list(dict.fromkeys(ids)), projection=projection)


async def require(db: Database, subject: str, projection: Projection | None = None) -> Document:
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
) -> tuple[Document, Document]:
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
