"""Checks of the stored discussions: counts, replies, pages and keys. Repairs what has one correct value.

Discussions with writes in flight are skipped: a job finishes or undoes those writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import datetime
from functools import partial

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.problems import Problem, mend_now

from .buckets import BUCKETS, FULL
from .comments import END
from .discussions import DISCUSSIONS, DOCUMENTS, EMBEDDED, OPEN, find_by_ids
from .document_storage import COMMENTS
from .embedded_storage import EMBEDDED_DISCUSSIONS
from .ledger import LedgerStorage
from .ledger_entries import is_childless
from .page_storage import KEYS
from .storages import STORAGES

_FIELDS = ("_id", "key", "slug", "parent", "replies", "deleted", "coming", "removing", "gone")
# What `_mend` would do.
_COUNT, _REPLIES, _CHILDLESS, _COMING = "count", "replies", "childless", "coming"
_NAME = Problem.named("discussion")


async def find_wrong_discussions(db: Database) -> AsyncIterator[Problem]:
    """Finds the problems in the stored discussions."""
    every = db[DISCUSSIONS.name].find(OPEN, {"storage": 1, "count": 1, "under_way": 1})
    async for problem in Problem.all_in(every, partial(_wrong_in, db), _NAME, 1):
        yield problem


async def _wrong_in(db: Database, discussions: list[Document]) -> AsyncIterator[Problem]:
    for discussion in discussions:
        outline = await _outline(db, discussion)
        if outline is None:
            continue
        comments, wrong = outline
        found = [*wrong, *_wrong_comments(comments)]
        if discussion["storage"] != EMBEDDED:
            found += _wrong_count(discussion["count"], len(comments))
        after = (await find_by_ids(db, [discussion["_id"]], {"count": 1, "under_way": 1})).get(discussion["_id"])
        # The subject may have been deleted in the meantime.
        is_busy = (
            after is None or discussion["under_way"] or after["under_way"] or after["count"] != discussion["count"]
        )
        for one in [] if is_busy else found:
            given = {"_id": discussion["_id"], "storage": discussion["storage"], **one}
            repair = None if one["repair"] is None else partial(mend_now, _mend, db, given)
            yield Problem(_NAME(discussion), one["problem"], repair)


async def _mend(db: Database, wrong: Document, *, now: datetime) -> None:
    """Makes the repair that `repair` names, unless the data has changed since the check."""
    comment = wrong.get("comment")
    storage = STORAGES[wrong["storage"]]
    if wrong["repair"] == _COUNT and wrong["storage"] == EMBEDDED:
        query = {"_id": wrong["_id"], "count": wrong["stored"], "comments": {"$size": wrong["there"]}}
        await db[EMBEDDED_DISCUSSIONS.name].update_one(query, {"$set": {"count": wrong["right"]}})
    elif wrong["repair"] == _COUNT:
        query = {"_id": wrong["_id"], "count": wrong["stored"], "under_way": []}
        await db[DISCUSSIONS.name].update_one(query, {"$set": {"count": wrong["right"]}})
    elif isinstance(storage, LedgerStorage) and comment is not None:
        comment = {**comment, "discussion": wrong["_id"]}
        if wrong["repair"] == _REPLIES:
            idle = {"replies": comment["replies"], "coming.0": {"$exists": False}}
            await storage.change(db, comment, idle, {"$set": {"replies": wrong["right"]}})
        elif wrong["repair"] == _COMING:
            await storage.change(db, comment, {}, {"$pull": {"coming": {"attempt": wrong["attempt"]}}})
        else:
            await storage.remove_if_childless(db, comment, now=now)
    elif comment is not None:
        path = f"replies.{comment['_id']}"
        query = {"_id": wrong["_id"], path: comment["replies"]}
        await db[EMBEDDED_DISCUSSIONS.name].update_one(query, {"$set": {path: wrong["right"]}})


async def _outline(db: Database, discussion: Document) -> tuple[list[Document], list[Document]] | None:
    """Returns the listed comments without their texts, and the problems of the storage itself.

    Returns None while a page is being split, because some comments are on two pages then.
    """
    here = {"discussion": discussion["_id"]}
    if discussion["storage"] == DOCUMENTS:
        query = {**here, "key": {"$exists": True}}
        return await db[COMMENTS.name].find(query, dict.fromkeys(_FIELDS, 1)).to_list(), []
    if discussion["storage"] == EMBEDDED:
        return await _embedded_outline(db, discussion["_id"])
    fields = {"low": 1, "high": 1, "count": 1, "split": 1, **{f"comments.{name}": 1 for name in _FIELDS}}
    buckets = await db[BUCKETS.name].find(here, fields, sort=[("low", 1)]).to_list()
    keys = db[KEYS.name].find({**here, "key": {"$exists": True}}, {"key": 1})
    known = {row["_id"]: row["key"] async for row in keys}
    cells = [cell for bucket in buckets for cell in _listed(bucket) if "gone" not in cell]
    if any("split" in bucket for bucket in buckets):
        return None
    return cells, [*_wrong_buckets(buckets), *_wrong_keys(cells, known)]


async def _embedded_outline(db: Database, discussion: ObjectId) -> tuple[list[Document], list[Document]]:
    fields = {"count": 1, "replies": 1, **{f"comments.{name}": 1 for name in _FIELDS}}
    document = await db[EMBEDDED_DISCUSSIONS.name].find_one({"_id": discussion}, fields)
    if document is None:
        return [], []
    replies, comments = document["replies"], _listed(document)
    cells = [{**cell, "replies": replies.get(str(cell["_id"]), 0)} for cell in comments if "gone" not in cell]
    wrong = _wrong_count(document["count"], len(cells), there=len(comments))
    return cells, wrong


def _listed(document: Document) -> list[Document]:
    """Returns the comments of a page or an embedded discussion. Raises TypeError if they are no list."""
    comments = document["comments"]
    if not isinstance(comments, list):
        raise TypeError("`comments` is no list")
    return comments


def _problem(text: str, repair: str | None = None, **facts: object) -> Document:
    return {"problem": text, "repair": repair, **facts}


def _wrong_buckets(buckets: Sequence[Document]) -> Iterator[Document]:
    ends = ["", *(bucket["high"] for bucket in buckets)]
    for bucket, end in zip(buckets, ends, strict=False):
        if bucket["low"] != end:
            yield _problem(f"its pages have a gap or an overlap between {end!r} and {bucket['low']!r}")
        astray = [cell["slug"] for cell in bucket["comments"] if not bucket["low"] <= cell["key"] < bucket["high"]]
        if astray:
            yield _problem(f"comments are on the wrong page: {', '.join(astray)}")
        if bucket["count"] != len(bucket["comments"]) or bucket["count"] > FULL:
            yield _problem(f"a page counts {bucket['count']} comments, but holds {len(bucket['comments'])}")
    if buckets and ends[-1] != END:
        yield _problem("its last page does not include all later keys")


def _wrong_keys(cells: Sequence[Document], known: dict[ObjectId, str]) -> Iterator[Document]:
    for cell in cells:
        if known.get(cell["_id"]) != cell["key"]:
            yield _problem(f"comment {cell['slug']} is missing from the index of keys")


def _wrong_comments(comments: Sequence[Document]) -> Iterator[Document]:
    replies = Counter(comment["parent"] for comment in comments)
    ids = Counter(comment["_id"] for comment in comments)
    yield from (_problem(f"comment {key} is stored {times} times") for key, times in ids.items() if times > 1)
    for comment in comments:
        name = f"comment {comment['slug']}"
        if comment["parent"] is not None and comment["parent"] not in ids:
            yield _problem(f"{name} replies to a comment that does not exist")
        right = replies[comment["_id"]]
        if comment["replies"] != right:
            text = f"{name} counts {comment['replies']:,} replies, but has {right:,}"
            yield _problem(text, _REPLIES, comment=comment, right=right)
        for coming in comment.get("coming", ()):
            yield _problem(
                f"{name} waits for a write that is not in flight", _COMING, comment=comment, attempt=coming["attempt"]
            )
        if comment["deleted"] and right == 0 and is_childless(comment):
            yield _problem(f"{name} is deleted and has no replies", _CHILDLESS, comment=comment)


def _wrong_count(stored: int, right: int, **facts: object) -> list[Document]:
    if stored == right:
        return []
    text = f"it counts {stored:,} comments, but has {right:,}"
    return [_problem(text, _COUNT, stored=stored, right=right, **facts)]
