"""Finds and removes discussions without a subject, and comments without a discussion."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial

from bson import ObjectId

from portico.resolvers.attachments import Hosts
from portico.resolvers.documents import Database, Document, in_batches
from portico.resolvers.problems import Problem

from .discussion_removal import remove_comments
from .discussions import DISCUSSIONS, OPEN, find_by_ids
from .posted import COMMENTS_COLLECTION, EMBEDDED_COLLECTION, KEYS_COLLECTION, PAGES_COLLECTION

_GONE: Document = {"of": None, "by": "", "is_final": True}
_NAME = Problem.named("discussion")


async def find_stray_discussions(db: Database, hosts: Hosts) -> AsyncIterator[Problem]:
    """Finds discussions whose subject is gone, and comments whose discussion does not exist.

    Skips what a deletion in progress removes.
    """
    found = db[DISCUSSIONS.name].find(OPEN, {"subject": 1, "of": 1})
    async for problem in Problem.all_in(found, partial(_stray_in, db, hosts), _NAME):
        yield problem
    for name in (COMMENTS_COLLECTION, KEYS_COLLECTION, PAGES_COLLECTION, EMBEDDED_COLLECTION):
        path = "_id" if name == EMBEDDED_COLLECTION else "discussion"
        ids = await db[name].aggregate([{"$sort": {path: 1}}, {"$group": {"_id": f"${path}"}}])
        async for batch in in_batches(ids):
            for discussion_id in await _without_discussion(db, [row["_id"] for row in batch]):
                remove = partial(_remove, db, discussion_id, is_open=False)
                text = f"{name} has documents of it, but it does not exist"
                yield Problem(_NAME({"_id": discussion_id}), text, remove)


async def _stray_in(db: Database, hosts: Hosts, discussions: list[Document]) -> AsyncIterator[Problem]:
    for discussion in await _without_subject(db, hosts, discussions):
        subject = discussion["subject"]
        remove = partial(_remove, db, discussion["_id"], is_open=True)
        yield Problem(_NAME(discussion), f"its subject {subject['kind']}:{subject['key']} is gone", remove)


async def _without_subject(db: Database, hosts: Hosts, discussions: Sequence[Document]) -> list[Document]:
    keys = [_key_of(one) for one in discussions]
    subjects = await hosts.find(db, keys)
    wrong = [
        one
        for one, key in zip(discussions, keys, strict=True)
        if key not in subjects or one.get("of") not in {None, subjects[key]["_id"]}
    ]
    if not wrong:
        return []
    # A deletion removes the subject, then closes the discussion, then withdraws its intent.
    deleting = await hosts.being_deleted(db)
    there = await find_by_ids(db, [one["_id"] for one in wrong], {"_id": 1})
    return [one for one in wrong if one["_id"] in there and _key_of(one) not in deleting]


def _key_of(discussion: Document) -> tuple[str, str]:
    return discussion["subject"]["kind"], discussion["subject"]["key"]


async def _without_discussion(db: Database, ids: Sequence[ObjectId]) -> list[ObjectId]:
    query = {"_id": {"$in": list(ids)}, "$or": [OPEN, {"closing_at": {"$exists": True}}]}
    known = {one["_id"] async for one in db[DISCUSSIONS.name].find(query, {"_id": 1})}
    return [key for key in ids if key not in known]


async def _remove(db: Database, discussion_id: ObjectId, *, is_open: bool) -> None:
    """Closes a discussion without a subject permanently, and removes its comments."""
    fresh: Document = {
        "subject": None,
        "storage": None,
        "count": 0,
        "under_way": [],
        "schema_version": DISCUSSIONS.version,
    }
    closed = {"$set": {"closed": _GONE, "count": 0, "under_way": []}}
    here = {"_id": discussion_id}
    await db[DISCUSSIONS.name].update_one(here, {"$setOnInsert": {**fresh, "closed": _GONE}}, upsert=True)
    if is_open:
        await db[DISCUSSIONS.name].update_one({**here, **OPEN}, closed)
    if await db[DISCUSSIONS.name].find_one({**here, "closed.is_final": True}, {"_id": 1}) is not None:
        await remove_comments(db, discussion_id)
