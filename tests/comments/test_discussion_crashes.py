"""Writes to discussions that crash or pause anywhere: each has exactly one effect, and every count is right."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest

from portico.gateway.clock import SystemClock
from portico.gateway.mongo.faults import Crash, FaultyDatabase
from portico.resolvers.comments import buckets as comment_buckets
from portico.resolvers.comments import jobs as comment_jobs
from portico.resolvers.comments import page_storage as comment_pages
from portico.resolvers.comments.buckets import finish_split
from portico.resolvers.comments.checks import find_wrong_discussions
from portico.resolvers.comments.comments import CHRONOLOGICAL, THREADED, listing_of
from portico.resolvers.comments.discussions import PAGES, open_discussion
from portico.resolvers.comments.edits import delete_comment, edit_comment, find_deleted, post_comment
from portico.resolvers.comments.page_storage import PageStorage
from portico.resolvers.comments.storages import STORAGES, count_comments, find_comment_pages, find_comments
from portico.resolvers.documents import Author, Database, Document
from portico.resolvers.errors import NotFound
from portico.resolvers.writes.marks import random_operation_id
from portico.resolvers.writes.settlements import AT_ONCE, Answering
from portico.testing.snapshots import Snapshot
from tests.comments.support.discussions import ON_EACH, stops_on
from tests.support.harness import IS_SOAK, some_stops
from tests.support.interruptions import interrupted

COLLECTIONS = ("discussions", "comments", "comment_discussions", "comment_pages", "comment_keys", "operations")
AUTHOR: Author = {"id": "poster", "name": "Poster"}
OPERATION = "k-record.one"
# The listed comments: the text, whether the comment is deleted, and the number of replies.
Rows = list[tuple[str, bool, int]]

POSTED: Rows = [("Top.", False, 1), ("Middle.", False, 1), ("Last.", False, 0), ("Other.", False, 0)]


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make pages so small that the fifth comment splits one."""
    monkeypatch.setattr(comment_buckets, "FULL", 4)
    monkeypatch.setattr(comment_pages, "FULL", 4)


class Scene:
    """A discussion with a thread of three comments and another comment. Its snapshot can be restored."""

    def __init__(self, db: Database) -> None:
        self.db = db
        self.now = SystemClock().now()
        self.comments: dict[str, Document] = {}
        self.snapshot = Snapshot(db, COLLECTIONS)

    async def build(self, storage: str) -> None:
        self.discussion = await open_discussion(
            self.db, kind="Product", key="p", storage=storage, subject="poster", now=self.now
        )
        parent = None
        for text in ("Top.", "Middle.", "Last."):
            self.comments[text] = await self.post(self.db, text, parent)
            parent = self.comments[text]["slug"]
        self.comments["Other."] = await self.post(self.db, "Other.")

    async def post(
        self,
        db: Database,
        text: str,
        parent: str | None = None,
        operation_id: str | None = None,
        answering: Answering = AT_ONCE,
    ) -> Document:
        self.now += timedelta(milliseconds=1)
        return await post_comment(
            db,
            discussion=self.discussion,
            parent_slug=parent,
            author=AUTHOR,
            text=text,
            now=self.now,
            operation_id=operation_id or random_operation_id(),
            answering=answering,
        )

    async def edit(self, db: Database, text: str, new: str, operation_id: str) -> Document:
        ref = self.comments[text]["ref"]
        comment = (await find_comments(db, [ref]))[ref]
        return await edit_comment(db, comment=comment, text=new, now=self.now, operation_id=operation_id)

    async def delete(self, db: Database, text: str, operation_id: str | None = None) -> Document:
        ref = self.comments[text]["ref"]
        used = operation_id or random_operation_id()
        comment = (await find_comments(db, [ref])).get(ref)
        if comment is not None:
            return await delete_comment(db, comment=comment, now=self.now, operation_id=used)
        deleted = await find_deleted(db, ref, used)
        if deleted is None:
            raise NotFound("Comment")
        return deleted

    async def keep(self) -> None:
        await self.db["operations"].insert_one({"_id": "k-record", "operation": OPERATION})
        await self.snapshot.take()

    async def jobs(self) -> None:
        self.now += timedelta(seconds=40)
        await comment_jobs.finish_splits(self.db, now=self.now)
        await comment_jobs.finish_comments(self.db, now=self.now)

    async def rows(self) -> Rows:
        return [(row["text"], row["deleted"], row["replies"]) for row in await self._listed(THREADED)]

    async def _listed(self, order: str) -> list[Document]:
        listing = listing_of(self.discussion["storage"], self.discussion["_id"], order=order, max_depth=None)
        (page,) = await find_comment_pages(self.db, [listing], first=100, after=None, projection=None)
        return page.documents

    async def assert_settled(self) -> None:
        """Assert that nothing is in flight, and that the length of each list equals the count."""
        assert [wrong.text async for wrong in find_wrong_discussions(self.db)] == []
        assert await self.db["discussions"].find_one({"under_way": {"$ne": []}}) is None
        assert await self.db["comment_pages"].find_one({"split": {"$exists": True}}) is None
        rows, by_time = await self._listed(THREADED), await self._listed(CHRONOLOGICAL)
        assert sorted(row["slug"] for row in rows) == sorted(row["slug"] for row in by_time)
        key = self.discussion["_id"]
        assert len(rows) == (await count_comments(self.db, {key: self.discussion["storage"]}))[key]


@pytest.fixture
async def scene(db: Database) -> Scene:
    return Scene(db)


async def _nothing(scene: Scene) -> None: ...


async def _delete_both(scene: Scene) -> None:
    for text in ("Top.", "Middle."):
        await scene.delete(scene.db, text)


Call = Callable[[Scene, Database], Awaitable[Document]]
# The preparation, the call, and the comments that are listed after it.
CALLS: dict[str, tuple[Callable[[Scene], Awaitable[None]], Call, Rows]] = {
    "a post that splits a page": (
        _nothing,
        lambda scene, db: scene.post(db, "New.", None, OPERATION),
        [*POSTED, ("New.", False, 0)],
    ),
    "a reply that splits a page": (
        _nothing,
        lambda scene, db: scene.post(db, "New.", scene.comments["Middle."]["slug"], OPERATION),
        [POSTED[0], ("Middle.", False, 2), POSTED[2], ("New.", False, 0), POSTED[3]],
    ),
    "an edit": (
        _nothing,
        lambda scene, db: scene.edit(db, "Middle.", "Edited.", OPERATION),
        [POSTED[0], ("Edited.", False, 1), *POSTED[2:]],
    ),
    "deleting what has no replies": (
        _nothing,
        lambda scene, db: scene.delete(db, "Last.", OPERATION),
        [POSTED[0], ("Middle.", False, 0), POSTED[3]],
    ),
    "deleting what replies to nothing": (
        _nothing,
        lambda scene, db: scene.delete(db, "Other.", OPERATION),
        POSTED[:3],
    ),
    "deleting what has replies": (
        _nothing,
        lambda scene, db: scene.delete(db, "Middle.", OPERATION),
        [POSTED[0], ("", True, 1), *POSTED[2:]],
    ),
    "deleting the last below what is deleted": (
        _delete_both,
        lambda scene, db: scene.delete(db, "Last.", OPERATION),
        [POSTED[3]],
    ),
}


async def _stopped(scene: Scene, call: Call, stop: int) -> bool:
    """Return whether the call crashed after this number of changes."""
    faulty, database = FaultyDatabase.around(scene.db, stop)
    try:
        await call(scene, database)
    except Crash:
        return faulty.has_crashed
    return False


@ON_EACH
@pytest.mark.parametrize("name", CALLS)
async def test_a_write_that_crashes_anywhere_is_finished_or_undone_and_can_be_retried(
    scene: Scene, storage: str, name: str
) -> None:
    before, call, after = CALLS[name]
    await scene.build(storage)
    await before(scene)
    await scene.keep()
    untouched = await scene.rows()
    for stop in some_stops(2):
        # The soak run covers both orders for each place.
        for is_repeated_first in (False, True) if IS_SOAK else (stop // 2 % 2 == 0,):
            await scene.snapshot.restore()
            if not await _stopped(scene, call, stop):
                assert await scene.rows() == after
                return
            if not is_repeated_first:
                await scene.jobs()
                await scene.assert_settled()
                assert await scene.rows() in (untouched, after), stop
            await call(scene, scene.db)
            await scene.jobs()
            await scene.assert_settled()
            assert await scene.rows() == after, stop


@ON_EACH
@pytest.mark.parametrize("is_reply", [False, True])
async def test_a_post_that_is_refused_while_it_is_prepared_leaves_nothing_wherever_it_crashes(
    scene: Scene, storage: str, is_reply: bool
) -> None:
    await scene.build(storage)
    await scene.keep()
    untouched = await scene.rows()

    async def refuse() -> None:
        raise NotFound("Discussion")

    async def call(scene: Scene, db: Database) -> Document:
        parent = scene.comments["Top."]["slug"] if is_reply else None
        with pytest.raises(NotFound):
            await scene.post(db, "New.", parent, OPERATION, Answering(confirm=refuse))
        return {}

    for stop in some_stops(2):
        await scene.snapshot.restore()
        has_crashed = await _stopped(scene, call, stop)
        await scene.jobs()
        await scene.assert_settled()
        assert await scene.rows() == untouched
        if not has_crashed:
            break


@ON_EACH
@pytest.mark.parametrize("name", CALLS)
async def test_a_paused_write_that_was_retried_and_finished_meanwhile_changes_nothing_more(
    scene: Scene, storage: str, name: str
) -> None:
    before, call, after = CALLS[name]
    await scene.build(storage)
    await before(scene)
    await scene.keep()
    slept = False

    async def meanwhile(is_late: bool) -> None:
        nonlocal slept
        slept = True
        # The jobs take the paused call for a crashed one, either before or after the retry.
        if is_late:
            await scene.jobs()
        await call(scene, scene.db)
        await scene.jobs()

    for skip in stops_on(storage):
        for is_late in (False, True) if IS_SOAK else (skip % 2 == 1,):
            await scene.snapshot.restore()
            slept = False
            try:
                await call(scene, interrupted(scene.db, None, None, partial(meanwhile, is_late), skip=skip))
            except NotFound:
                # To this call, another one has deleted the comment.
                assert name.startswith("deleting")
            if not slept:
                assert skip > 0
                return
            await scene.jobs()
            await scene.assert_settled()
            assert await scene.rows() == after, skip


@ON_EACH
async def test_no_reply_stays_without_its_parent_if_the_parent_is_deleted_at_any_moment(
    scene: Scene, storage: str
) -> None:
    await scene.build(storage)
    await scene.keep()
    result: dict[str, bool] = {}

    async def reply(db: Database) -> None:
        try:
            await scene.post(db, "New.", scene.comments["Other."]["slug"])
        except NotFound:
            result["reply"] = False
        else:
            result["reply"] = True

    async def delete(db: Database) -> None:
        await scene.delete(db, "Other.")
        result["delete"] = True

    outcomes = set()
    for first, second in ((reply, delete), (delete, reply)):
        for skip in stops_on(storage):
            await scene.snapshot.restore()
            result.clear()

            await first(interrupted(scene.db, None, None, partial(second, scene.db), skip=skip))

            if len(result) == 1:
                break
            await scene.jobs()
            await scene.assert_settled()
            left = [("", True, 1), ("New.", False, 0)] if result["reply"] else []
            assert await scene.rows() == [*POSTED[:3], *left], skip
            outcomes.add(result["reply"])
    assert outcomes == {True, False}


@ON_EACH
async def test_a_retry_finds_the_posted_reply_even_if_its_parent_has_been_deleted(scene: Scene, storage: str) -> None:
    """This also holds if the jobs have prevented the first call from posting the reply."""
    await scene.build(storage)
    await scene.keep()
    parent = scene.comments["Other."]["slug"]
    for stop in some_stops(2):
        await scene.snapshot.restore()
        if not await _stopped(scene, lambda scene, db: scene.post(db, "New.", parent, OPERATION), stop):
            break
        await scene.jobs()
        posted = await scene.post(scene.db, "New.", parent, OPERATION)
        await scene.delete(scene.db, "Other.")

        again = await scene.post(scene.db, "New.", parent, OPERATION)

        assert again["ref"] == posted["ref"], stop
        assert await scene.rows() == [*POSTED[:3], ("", True, 1), ("New.", False, 0)], stop
        await scene.assert_settled()


@ON_EACH
async def test_concurrent_deletions_of_the_last_two_replies_remove_their_deleted_parent(
    scene: Scene, storage: str
) -> None:
    await scene.build(storage)
    scene.comments["Second."] = await scene.post(scene.db, "Second.", scene.comments["Middle."]["slug"])
    await _delete_both(scene)
    await scene.keep()
    for _ in range(10):
        await scene.snapshot.restore()

        await asyncio.gather(*(scene.delete(scene.db, text) for text in ("Last.", "Second.")))

        await scene.assert_settled()
        assert await scene.rows() == [POSTED[3]]


@ON_EACH
async def test_a_taken_slug_is_not_given_again(scene: Scene, storage: str, monkeypatch: pytest.MonkeyPatch) -> None:
    await scene.build(storage)
    taken = scene.comments["Other."]["slug"]
    slug_part = "portico.resolvers.comments.comments.slug_part"
    monkeypatch.setattr(slug_part, lambda _id, attempt: taken if attempt < 2 else "b" * 10)

    posted = await scene.post(scene.db, "New.")

    assert posted["slug"] == "b" * 10
    found: Any = await STORAGES[storage].find_by_slug(scene.db, [(scene.discussion["_id"], taken)])
    assert [comment["text"] for comment in found.values()] == ["Other."]
    await scene.assert_settled()


async def test_a_change_during_a_split_is_made_if_this_or_another_process_finishes_the_split(scene: Scene) -> None:
    await scene.build(PAGES)
    storage, other = PageStorage(), scene.comments["Other."]
    (page,) = await scene.db["comment_pages"].find({}).to_list()
    mark = {"$set": {"split": {"at": other["key"], "since": scene.now}}}
    await scene.keep()
    for method in ("find_one_and_update", "find_one", None):
        await scene.snapshot.restore()
        await scene.db["comment_pages"].update_one({"_id": page["_id"]}, mark)
        # Another process finishes the split before this command, or none does.
        finish = partial(finish_split, scene.db, page)
        own = scene.db if method is None else interrupted(scene.db, "comment_pages", method, finish)

        changed = await storage.change(own, other, {"text": "Other."}, {"$set": {"text": "Changed."}})
        again = await storage.change(scene.db, other, {"text": "Other."}, {"$set": {"text": "Changed again."}})

        assert changed is not None
        assert (changed["text"], again) == ("Changed.", None)
        assert [text for text, _, _ in await scene.rows()] == ["Top.", "Middle.", "Last.", "Changed."]
        await scene.assert_settled()
