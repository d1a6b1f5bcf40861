"""Imports of comments: each into its discussion, below its parent, with its own time. May be repeated."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from portico.resolvers.attachments import Hosts
from portico.resolvers.declarations import Resources
from portico.resolvers.documents import Database
from portico.resolvers.errors import InvalidInput, NotFound
from portico.resolvers.import_outcomes import Outcome, outcome_of
from portico.resolvers.texts import MAX_AUTHOR, require_line
from portico.resolvers.together import every
from portico.resolvers.writes.marks import random_operation_id

from .comments import MAX_DEPTH, CommentRef
from .discussion_subjects import open_for_subject
from .discussions import DOCUMENTS, DiscussionDocument
from .edits import edit_comment
from .rules import require_comment_text
from .storage import Draft
from .storages import STORAGES, find_comments

# Comments that are posted in parallel. They all update the counter of one document.
_AT_ONCE = 16
_WHO = "import"
# The tolerated clock difference. A comment from the future would sort after all comments posted until then.
_CLOCKS_DIFFER = timedelta(minutes=5)


@dataclass(frozen=True)
class CommentRecord:
    """A comment as an import describes it.

    `subject` is the path of a content node, or the SKU of a product. `name` and `parent` are ids of the file.
    """

    subject: str
    name: str
    parent: str | None
    author: str
    text: str
    posted: datetime
    edited: datetime | None = None
    storage: str = DOCUMENTS

    @property
    def key(self) -> str:
        return f"{self.subject}\n{self.name}"


async def import_comments(
    db: Database, records: Sequence[CommentRecord], *, now: datetime, resources: Resources
) -> list[Outcome]:
    """Posts the comments that do not exist yet, and updates the texts of the others.

    If there is no discussion, opens one with the storage of the first record. A reply whose parent does not exist (yet)
    is `waiting`.

    Returns:  the outcome of each record.
    Writes:   as `post_comment` and `edit_comment`.
    """
    work = _Work(db, resources.of(Hosts), now)
    await work.find(records)
    outcomes: dict[int, Outcome] = {}
    left = dict(enumerate(records))
    while left:
        # Parents first; siblings in parallel.
        names = {record.key for record in left.values()}
        ready = [number for number, record in left.items() if _parent_key(record) not in names] or list(left)
        for start in range(0, len(ready), _AT_ONCE):
            some = ready[start : start + _AT_ONCE]
            found = await every(work.import_one(left[number]) for number in some)
            outcomes |= dict(zip(some, found, strict=True))
        for number in ready:
            del left[number]
    return [outcomes[number] for number in range(len(records))]


def _parent_key(record: CommentRecord) -> str | None:
    return None if record.parent is None else f"{record.subject}\n{record.parent}"


def _require_parent(parent: Mapping[str, Any] | None, *, is_gone: bool) -> None:
    if is_gone or (parent is not None and parent["deleted"]):
        raise InvalidInput("the comment that it replies to was deleted", "parent")
    if parent is not None and parent["depth"] >= MAX_DEPTH:
        raise InvalidInput(f"it has the largest depth, {MAX_DEPTH}, and cannot have replies", "parent")


class _Work:
    """An import of some records, with their discussions, and the existing comments by the records' keys."""

    def __init__(self, db: Database, hosts: Hosts, now: datetime) -> None:
        self._db = db
        self._hosts = hosts
        self._now = now
        self._discussions: dict[str, DiscussionDocument | None] = {}
        # The `_id` of each comment, by its operation.
        self._ids: dict[str, ObjectId] = {}
        self._comments: dict[str, Any] = {}
        self._gone: set[str] = set()

    async def find(self, records: Sequence[CommentRecord]) -> None:
        for record in records:
            if record.subject not in self._discussions:
                self._discussions[record.subject] = await self._discussion(record)
        await self._find_ids(records)
        keys: dict[CommentRef, str] = {}
        for record in records:
            for name in (record.name, record.parent):
                if name is not None and self._discussions[record.subject] is not None:
                    keys[self._ref(record.subject, name)] = f"{record.subject}\n{name}"
        found = await find_comments(self._db, list(keys)) if keys else {}
        self._comments = {keys[ref]: comment for ref, comment in found.items()}
        await self._find_removed({ref: key for ref, key in keys.items() if ref not in found})

    async def _find_ids(self, records: Sequence[CommentRecord]) -> None:
        """Finds the `_id` of the comments of these records and their parents, posted already or not."""
        operation_ids: dict[tuple[str, ObjectId], set[str]] = {}
        for record in records:
            discussion = self._discussions[record.subject]
            if discussion is not None:
                names = {record.name} if record.parent is None else {record.name, record.parent}
                here = operation_ids.setdefault((discussion["storage"], discussion["_id"]), set())
                here |= {self._operation(record.subject, name) for name in names}
        for (storage, key), some in operation_ids.items():
            self._ids |= await STORAGES[storage].find_posted_ids(self._db, key, list(some))

    async def _find_removed(self, keys: Mapping[CommentRef, str]) -> None:
        """Notes which of these comments were imported before and have been removed since."""
        missing: dict[tuple[str, ObjectId], dict[ObjectId, str]] = {}
        for ref, key in keys.items():
            missing.setdefault((ref.storage, ref.discussion), {})[ref.id] = key
        for (storage, discussion), names in missing.items():
            gone = await STORAGES[storage].find_removed(self._db, discussion, list(names))
            self._gone |= {names[comment_id] for comment_id in gone}

    async def _discussion(self, record: CommentRecord) -> DiscussionDocument | None:
        """Returns the discussion of the record's subject, or None if there is no such subject."""
        subject = await self._hosts.find_named(self._db, record.subject)
        if subject is None or subject.of is None:
            return None
        kind, key, of = subject.kind, subject.key, subject.of
        with contextlib.suppress(NotFound):
            return await open_for_subject(
                self._db, self._hosts, kind=kind, key=key, of=of, storage=record.storage, subject=_WHO, now=self._now
            )
        return None

    def _operation(self, subject: str, name: str) -> str:
        """Returns the operation id of a record: always the same, so that repeated imports post it only once."""
        discussion = self._discussions[subject]
        assert discussion is not None
        return f"k-import.{discussion['_id']}.{name}"

    def _ref(self, subject: str, name: str) -> CommentRef:
        discussion = self._discussions[subject]
        assert discussion is not None
        return CommentRef(discussion["storage"], discussion["_id"], self._ids[self._operation(subject, name)])

    async def import_one(self, record: CommentRecord) -> Outcome:
        return await outcome_of(self._import(record))

    async def _import(self, record: CommentRecord) -> Outcome:
        text = require_comment_text(record.text)
        author = require_line(record.author, "author", longest=MAX_AUTHOR)
        self._require_past(record)
        discussion = self._discussions[record.subject]
        if discussion is None:
            raise NotFound("Subject", message=f"there is no product or content node {record.subject!r}")
        known = self._comments.get(record.key)
        if known is not None:
            return await self._change(known, text)
        if record.key in self._gone:
            return "unchanged"
        parent_key = _parent_key(record)
        parent = None if parent_key is None else self._comments.get(parent_key)
        if parent_key is not None and parent is None and parent_key not in self._gone:
            return "waiting"
        _require_parent(parent, is_gone=parent_key in self._gone)
        draft = Draft(
            discussion=discussion["_id"],
            parent=parent,
            author={"id": author, "name": author},
            text=text,
            now=self._now,
            operation_id=self._operation(record.subject, record.name),
            posted=record.posted,
            edited=record.edited,
        )
        self._comments[record.key] = await STORAGES[discussion["storage"]].post(self._db, draft)
        return "created"

    def _require_past(self, record: CommentRecord) -> None:
        for name in ("posted", "edited"):
            at: datetime | None = getattr(record, name)
            if at is not None and at > self._now + _CLOCKS_DIFFER:
                raise InvalidInput("it is in the future", name)

    async def _change(self, known: Mapping[str, Any], text: str) -> Outcome:
        if known["text"] == text or known["deleted"]:
            return "unchanged"
        operation_id = random_operation_id()
        await edit_comment(self._db, comment=known, text=text, now=self._now, operation_id=operation_id)
        return "changed"
