"""Posts and removes comments that are stored one by one, so that all counts are correct after any crash.

A comment is counted in two other documents: in its parent (`replies`) and in its discussion (`count`). Both list the
writes in flight, before these begin:

    discussion.under_way   [{id, attempt, by, parent, at}]
    parent.coming          [{attempt, by}]

To **post** a reply:

1. Add an entry to the discussion.
2. Add an entry to the parent, unless it is deleted. A comment with entries is not removed.
3. Insert the comment, with the attempt in it. From now on, it is visible.
4. Remove the entry from the parent, and count the reply, in one update.
5. Remove the entry from the discussion, and count the comment, in one update. The answer does not wait for it:
   readers of a count add the entries whose comment names their attempt.

A call may still be checking whether the author sees the discussion during steps 1 and 2. It awaits the result before
step 3. If it is refused, it removes the entries without counting.

Steps 1 and 2 wait for the primary alone if step 3 implies them: see `waiting_once`.

Proof that each comment is counted once:

1. Only the process that creates an attempt adds its entries. The process that removes an entry counts in the same
   update. Other processes then find no entry to count.
2. If a call is repeated, several processes may attempt the same post. The comment has one `_id` and names one attempt.
   Only that attempt is counted.
3. A process that finds a stale entry reads the comment. If the comment names the attempt, the process repeats steps 4
   and 5. If the comment names another attempt, the process does steps 4 and 5 without counting.
4. If there is no comment, the process first inserts a tombstone with its `_id`, or adds the `_id` to the page's list
   (a **fence**). A process that resumes later can no longer insert the comment. A retry of the operation posts a
   comment with the next `_id` (`storage.posted_id`).

To **remove** a comment:

1. Add an entry with `by` -1 to the discussion.
2. Mark the comment as deleted. If it has no replies and no entries, also mark it `removing` with the attempt.
3. Add an entry to the parent.
4. Mark the comment `gone`.
5. Remove the entry from the parent, and count. If the parent is deleted and has lost its last reply, remove the parent.
6. Remove the entry from the discussion, and count.

A process that finds a stale entry of a comment that is not `gone` calls the removal off first: it adds the attempt to
the comment's `called_off`, or clears the mark `removing`. The process that began can then no longer mark the comment,
and begins again with another attempt. If the comment is deleted and has no replies, the process that called the removal
off removes it before it removes the entry. So a crash in between leaves an entry.

The discussion's entry is added first and removed last. Therefore, the job only has to read the discussions.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any

from bson import ObjectId

from portico.resolvers.documents import Database, Document
from portico.resolvers.errors import Conflict, NotFound
from portico.resolvers.writes.marks import forgettable, is_repeatable, mark_applied, not_applied, was_applied
from portico.resolvers.writes.retries import attempts, pause
from portico.resolvers.writes.settler import AT_ONCE, Answering
from portico.resolvers.writes.waiting_once import Notes

from .comments import to_public, to_stored, with_slug
from .discussion_removal import remove_late, require_subject
from .discussions import DISCUSSIONS, find_by_ids
from .ledger_entries import CHILDLESS, add_entry, adding, calling_off, is_childless, new_entry, standing, took_effect
from .storage import CONTESTED, MARKS_KEPT, Draft, posted_id

# An attempt is fenced only if its process was so slow that a job took it for stale.
_POSTING_ATTEMPTS, _POSTING_PAUSE = 5, 0.05


class SlugPartTaken(Exception):
    """Another comment has the slug. Try again with another part."""


class LedgerStorage(ABC):
    """The shared part of the storages that write comments one by one. They differ in how they find and change one."""

    name: str

    @abstractmethod
    async def find_stored(
        self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]
    ) -> dict[ObjectId, Document]:
        """Finds comments in their stored form, with all fields, including removed ones."""

    @abstractmethod
    async def change(self, db: Database, comment: Document, guard: Document, update: Document) -> Document | None:
        """Makes one guarded update of a comment, found by `discussion`, `_id` and `key`.

        Returns the comment after the update, or None if it does not match the guard.
        """

    @abstractmethod
    async def insert(self, db: Database, comment: Document, *, now: datetime) -> Document | None:
        """Makes a comment visible, by one insert or update. Returns it as stored.

        Returns None if a comment with its `_id` exists already, or is fenced. Raises SlugPartTaken.
        """

    @abstractmethod
    async def fence(self, db: Database, discussion: ObjectId, comment_id: ObjectId, *, now: datetime) -> bool:
        """Fences a comment that does not exist: a tombstone takes its `_id`, so that no process can insert it any more.

        Returns False if the comment exists. May be repeated.
        """

    @abstractmethod
    async def find_fenced(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        """Returns the ids that are fenced."""

    @abstractmethod
    async def mark_removed(self, db: Database, comment: Document, attempt: str, *, now: datetime) -> bool:
        """Marks a comment that this attempt is removing as gone, and takes it out of all lists. May be repeated.

        Returns False if this attempt is not removing it.
        """

    async def is_fenced(self, db: Database, discussion: ObjectId, comment_id: ObjectId) -> bool:
        return bool(await self.find_fenced(db, discussion, [comment_id]))

    async def find_posted_ids(
        self, db: Database, discussion: ObjectId, operation_ids: Sequence[str]
    ) -> dict[str, ObjectId]:
        found: dict[str, ObjectId] = {}
        left = list(operation_ids)
        for number in count():
            ids = {operation_id: posted_id(operation_id, number) for operation_id in left}
            fenced = await self.find_fenced(db, discussion, list(ids.values()))
            found |= ids
            left = [operation_id for operation_id in left if ids[operation_id] in fenced]
            if not left:
                break
        return found

    async def find_removed(self, db: Database, discussion: ObjectId, ids: Sequence[ObjectId]) -> set[ObjectId]:
        return {key for key, comment in (await self.find_stored(db, discussion, ids)).items() if "gone" in comment}

    async def count(self, db: Database, discussions: Sequence[ObjectId]) -> Mapping[ObjectId, int]:
        found = await find_by_ids(db, discussions, {"count": 1, "under_way": 1})
        return {key: discussion["count"] + await self._uncounted(db, discussion) for key, discussion in found.items()}

    async def _uncounted(self, db: Database, discussion: Mapping[str, Any]) -> int:
        """Returns what the entries of a discussion will add to its count, as far as that is decided."""
        entries = discussion["under_way"]
        if not entries:
            return 0
        comments = await self.find_stored(db, discussion["_id"], list({entry["id"] for entry in entries}))
        return sum(entry["by"] for entry in entries if took_effect(comments.get(entry["id"]), entry))

    async def post(self, db: Database, draft: Draft) -> Document:
        tried = 0
        for number in count():
            comment_id = posted_id(draft.operation_id, number)
            if _may_be_posted(draft):
                known = await self._find_posted(db, draft.discussion, comment_id)
                if known is not None:
                    return known
                if await self.is_fenced(db, draft.discussion, comment_id):
                    continue
            if tried == _POSTING_ATTEMPTS:
                break
            tried += 1
            posted = await self._try_post(db, comment_id, draft)
            if posted is not None:
                return posted
            # The process that fenced it may have stopped halfway. Only a complete fence makes readers skip the `_id`.
            await self.fence(db, draft.discussion, comment_id, now=draft.now)
            await pause(_POSTING_PAUSE)
        raise Conflict(CONTESTED)

    async def _try_post(self, db: Database, comment_id: ObjectId, draft: Draft) -> Document | None:
        """Returns the comment, posted by this call or another one, or None if it is fenced."""
        parent = draft.stored_parent
        entry = new_entry(comment_id, by=1, parent=None if parent is None else parent["_id"], now=draft.now)
        attempt, close = (
            entry["attempt"],
            partial(self._close_entry, db, draft.discussion, entry, parent, now=draft.now),
        )
        with Notes() as notes:
            await notes.noting(add_entry(db, draft.discussion, entry))
            if parent is not None:
                listing = {"$push": {"coming": {"attempt": attempt, "by": 1}}}
                if await notes.noting(self.change(db, parent, {"deleted": False}, listing)) is None:
                    await close(is_counted=False)
                    raise NotFound("Comment", str(draft.parent["ref"]) if draft.parent else None)
            try:
                await draft.answering.confirmed()
            except Exception:
                await close(is_counted=False)
                raise
            fresh = draft.comment(comment_id) | {"attempt": attempt}
            comment = await notes.deciding(self._insert_with_free_slug(db, fresh, parent, now=draft.now))
        await close(is_counted=comment is not None, answering=draft.answering)
        if comment is not None:
            return to_public(comment, self.name, draft.discussion)
        return await self._find_posted(db, draft.discussion, comment_id)

    async def _insert_with_free_slug(
        self, db: Database, fresh: Document, parent: Document | None, *, now: datetime
    ) -> Document | None:
        async for number in attempts(steps=5):
            with contextlib.suppress(SlugPartTaken):
                # A new comment has the first of its slugs.
                return await self.insert(db, with_slug(fresh, parent, number) if number else fresh, now=now)
        raise Conflict(CONTESTED)

    async def _find_posted(self, db: Database, discussion: ObjectId, comment_id: ObjectId) -> Document | None:
        """Returns the comment that an earlier attempt has posted, after counting it, or None.

        Raises NotFound if the comment was removed since.
        """
        comment = (await self.find_stored(db, discussion, [comment_id])).get(comment_id)
        if comment is None:
            return None
        if "gone" in comment:
            raise NotFound("Comment")
        found = (await find_by_ids(db, [discussion])).get(discussion)
        if found is None:
            raise NotFound("Discussion", str(discussion))
        for entry in found["under_way"]:
            if entry["id"] == comment_id and entry["by"] > 0:
                await self.settle(db, found, entry, now=entry["at"])
        return to_public(comment, self.name, discussion)

    async def edit(
        self, db: Database, comment: Mapping[str, Any], *, text: str, now: datetime, operation_id: str
    ) -> Document:
        guard = {"deleted": False, **not_applied(operation_id)}
        update: Document = {"$set": {"text": text, "edited": now}}
        update |= mark_applied(operation_id)
        edited = await self.change(db, to_stored(comment), guard, update)
        if edited is None:
            edited = await self._require(db, comment)
            if edited["deleted"] or not was_applied(edited, operation_id):
                raise NotFound("Comment", str(comment["ref"]))
        forgotten = await forgettable(db, edited.get("applied", ()), kept=MARKS_KEPT)
        if forgotten:
            await self.change(db, to_stored(comment), {}, {"$pull": {"applied": {"$in": forgotten}}})
        return to_public(edited, self.name, comment["discussion"])

    async def delete(self, db: Database, comment: Mapping[str, Any], *, now: datetime) -> Document:
        async for _ in attempts(steps=2):
            deleted = await self._try_delete(db, comment, now=now)
            if deleted is not None:
                return deleted
        raise Conflict(CONTESTED)

    async def _try_delete(self, db: Database, comment: Mapping[str, Any], *, now: datetime) -> Document | None:
        """Returns the deleted comment, or None if a job has called this attempt off. Raises NotFound."""
        discussion, cell = comment["discussion"], to_stored(comment)
        entry = new_entry(cell["_id"], by=-1, parent=cell["parent"], now=now)
        shown = {"storage": 1, "under_way": 1}
        before = await db[DISCUSSIONS.name].find_one_and_update(*adding(discussion, entry), shown)
        if before is None:
            raise NotFound("Discussion", str(discussion))
        for other in before["under_way"]:
            # The comment is not counted yet, and cannot be counted after it is removed.
            if other["id"] == cell["_id"] and other["by"] > 0:
                await self.settle(db, before, other, now=now)
        emptied = {"deleted": True, "text": ""}
        here = {"deleted": False, **standing(entry)}
        leaf = await self.change(db, cell, {**here, **CHILDLESS}, {"$set": {**emptied, "removing": entry["attempt"]}})
        is_deleted = leaf is not None
        if leaf is None:
            is_deleted = await self.change(db, cell, here, {"$set": emptied}) is not None
            # If its last reply was removed in the meantime, no other process removes this comment.
            leaf = await self._mark_removing(db, cell, entry)
        try:
            if leaf is None:
                await self._close_entry(db, discussion, entry, None, is_counted=False, now=now)
            else:
                await self._finish_removal(db, leaf, entry, now=now)
        except NotFound:
            # The discussion was closed in the meantime. If it becomes visible again, a job finishes the removal.
            if not is_deleted:
                raise
        if is_deleted:
            return {**comment, **emptied}
        if (await self._require(db, comment))["deleted"]:
            raise NotFound("Comment", str(comment["ref"]))
        return None

    async def _mark_removing(self, db: Database, comment: Document, entry: Document) -> Document | None:
        here = {"deleted": True, **CHILDLESS, **standing(entry)}
        return await self.change(db, comment, here, {"$set": {"removing": entry["attempt"]}})

    async def _finish_removal(self, db: Database, comment: Document, entry: Document, *, now: datetime) -> None:
        """Removes the comment that this attempt has marked `removing`, unless another process has cleared the mark."""
        discussion, attempt = comment["discussion"], entry["attempt"]
        parent = (
            (await self.find_stored(db, discussion, [entry["parent"]])).get(entry["parent"])
            if entry["parent"]
            else None
        )
        if parent is not None:
            await self.change(db, parent, {}, {"$push": {"coming": {"attempt": attempt, "by": -1}}})
        is_gone = await self.mark_removed(db, comment, attempt, now=now)
        await self._close_entry(db, discussion, entry, parent, is_counted=is_gone, now=now)

    async def remove_if_childless(self, db: Database, comment: Document, *, now: datetime) -> None:
        """Removes a deleted comment if it has no replies (any more). May be repeated."""
        if not comment["deleted"] or not is_childless(comment):
            return
        entry = new_entry(comment["_id"], by=-1, parent=comment["parent"], now=now)
        await add_entry(db, comment["discussion"], entry)
        if await self._mark_removing(db, comment, entry) is None:
            await self._close_entry(db, comment["discussion"], entry, None, is_counted=False, now=now)
        else:
            await self._finish_removal(db, comment, entry, now=now)

    async def settle(
        self, db: Database, discussion: Mapping[str, Any], entry: Mapping[str, Any], *, now: datetime
    ) -> None:
        ids = [entry["id"], *([] if entry["parent"] is None else [entry["parent"]])]
        found = await self.find_stored(db, discussion["_id"], ids)
        comment, parent = found.get(entry["id"]), found.get(entry["parent"])
        if entry["by"] > 0:
            if comment is None and not await self.fence(db, discussion["_id"], entry["id"], now=now):
                comment = (await self.find_stored(db, discussion["_id"], ids)).get(entry["id"])
            is_counted = took_effect(comment, entry)
            await self._close_entry(db, discussion["_id"], entry, parent, is_counted=is_counted, now=now)
            return
        if comment is not None and not took_effect(comment, entry):
            await self._call_off(db, comment, entry)
            comment = (await self.find_stored(db, discussion["_id"], ids)).get(entry["id"])
        is_gone = took_effect(comment, entry)
        if comment is not None and is_gone:
            await self.mark_removed(db, comment, entry["attempt"], now=now)
        elif comment is not None:
            await self.remove_if_childless(db, comment, now=now)
        await self._close_entry(db, discussion["_id"], entry, parent, is_counted=is_gone, now=now)

    async def _call_off(self, db: Database, comment: Document, entry: Mapping[str, Any]) -> None:
        """Keeps a removal that has not happened from happening later. May be repeated."""
        marked = {"removing": entry["attempt"], "gone": None}
        unmarked = {"removing": {"$ne": entry["attempt"]}, "gone": None, **standing(entry)}
        # In this order: its process cannot set the mark in between.
        await self.change(db, comment, unmarked, calling_off(entry))
        await self.change(db, comment, marked, {"$unset": {"removing": ""}})

    async def _close_entry(
        self,
        db: Database,
        discussion: ObjectId,
        entry: Mapping[str, Any],
        parent: Document | None,
        *,
        is_counted: bool,
        now: datetime,
        answering: Answering = AT_ONCE,
    ) -> None:
        """Removes the entry from the parent and the discussion, and counts it if `is_counted`. May be repeated.

        The answer does not wait for the discussion: `count` counts what is decided.

        Raises NotFound if the subject of the discussion is gone.
        """
        attempt, by = entry["attempt"], entry["by"] if is_counted else 0
        if parent is not None:
            taken = {"$pull": {"coming": {"attempt": attempt}}, "$inc": {"replies": by}}
            after = await self.change(db, parent, {"coming.attempt": attempt}, taken)
            if after is None:
                after = (await self.find_stored(db, discussion, [parent["_id"]])).get(parent["_id"])
            if after is not None and "gone" not in after:
                await self.remove_if_childless(db, after, now=now)
        listed = {"_id": discussion, "under_way.attempt": attempt}
        counted = {"$pull": {"under_way": {"attempt": attempt}}, "$inc": {"count": by}}
        # Another process may have removed the entry; or the subject is gone, and the comment has to be removed.
        late = partial(remove_late, db, discussion, now=now)
        if answering.later(db, {DISCUSSIONS.name: [(listed, counted)]}, otherwise=late):
            return
        if not (await db[DISCUSSIONS.name].update_one(listed, counted)).matched_count:
            await require_subject(db, discussion)

    async def _require(self, db: Database, comment: Mapping[str, Any]) -> Document:
        """Returns the comment as it is stored now. Raises NotFound if it was removed."""
        found = (await self.find_stored(db, comment["discussion"], [comment["_id"]])).get(comment["_id"])
        if found is None or "gone" in found:
            raise NotFound("Comment", str(comment["ref"]))
        return found


def _may_be_posted(draft: Draft) -> bool:
    """Returns whether an earlier call with the id may have posted the comment. If the call claims its id, none has."""
    is_claiming = draft.answering.confirm is not None and not draft.answering.is_repeated
    return is_repeatable(draft.operation_id) and not is_claiming
