"""Writes to one discussion that meet, and what follows a crash. The kit has the crashes and pauses of each call."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator
from functools import partial

import pytest

from portico.resolvers.comments.buckets import finish_split
from portico.resolvers.comments.discussions import DOCUMENTS, EMBEDDED, PAGES
from portico.resolvers.comments.page_storage import PageStorage
from portico.testing.kits import Given
from tests.comments.support.discussions import ON_EACH, delete, everything, post, post_input, stops_on
from tests.comments.support.stages import BEFORE, Discussion, EmbeddedDiscussion, PagedDiscussion, changed
from tests.support.harness import GatewayClient, SettableClock, some_stops
from tests.support.ids import key_in
from tests.support.interruptions import interrupted

STAGES: dict[str, type[Discussion]] = {DOCUMENTS: Discussion, EMBEDDED: EmbeddedDiscussion, PAGES: PagedDiscussion}


@pytest.fixture
async def scene(
    gateway: GatewayClient, clock: SettableClock, monkeypatch: pytest.MonkeyPatch, storage: str
) -> AsyncIterator[Discussion]:
    stage = STAGES[storage](gateway, clock)
    for (module, constant), value in stage.constants.items():
        monkeypatch.setattr(module, constant, value)
    await stage.restore()
    yield stage
    await stage.assert_settled()


def reply_to(scene: Discussion, text: str) -> Given:
    return post_input(scene.discussion, "New.", scene.comments[text]["slug"], idempotencyKey="reply")


@ON_EACH
async def test_no_reply_stays_without_its_parent_if_the_parent_is_deleted_at_any_moment(
    scene: Discussion, storage: str
) -> None:
    calls = ("postComment", reply_to(scene, "Other.")), ("deleteComment", scene.of("Other."))
    outcomes = set()
    for first, second in itertools.permutations(calls):
        for command in stops_on(storage):
            await scene.restore()
            call, wake = await scene.asleep(*first, command)
            if call.done():
                break
            other = await scene.typename_of(*second)
            wake()
            answers = {first[0]: (await call).data[first[0]]["__typename"], second[0]: other}

            assert answers["deleteComment"] == "CommentPayload", command
            await scene.run_jobs()
            is_posted = answers["postComment"] == "CommentPayload"
            left = [("", True, 1), ("New.", False, 0)] if is_posted else []
            await scene.assert_is(changed("Other.", *left), place=command)
            outcomes.add(answers["postComment"])
    assert outcomes == {"CommentPayload", "NotFound"}


@ON_EACH
async def test_a_retry_finds_the_posted_reply_even_if_its_parent_has_been_deleted(scene: Discussion) -> None:
    """This also holds if the jobs have prevented the first call from posting the reply."""
    given = reply_to(scene, "Other.")
    for stop in some_stops(2):
        await scene.restore()
        if not await scene.crash("postComment", given, stop):
            break
        await scene.run_jobs()
        posted = await scene.result("postComment", given)
        await delete(scene.gateway, scene.comments["Other."])

        again = await scene.result("postComment", given)

        assert again == posted, stop
        await scene.assert_is(changed("Other.", ("", True, 1), ("New.", False, 0)), place=stop)


@ON_EACH
async def test_concurrent_deletions_of_the_last_two_replies_remove_their_deleted_parent(scene: Discussion) -> None:
    gateway, comments = scene.gateway, scene.comments
    second = await post(gateway, scene.discussion, "Second.", comments["Middle."]["slug"])
    for text in ("Top.", "Middle."):
        await delete(gateway, comments[text])
    restore = await scene.saved()
    for _ in range(10):
        await restore()

        await asyncio.gather(*(delete(gateway, one) for one in (comments["Last."], second)))

        await scene.assert_is(BEFORE[3:])


@ON_EACH
async def test_a_taken_slug_is_not_given_again(scene: Discussion, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = scene.comments["Other."]["slug"]
    slug_part = "portico.resolvers.comments.comments.slug_part"
    monkeypatch.setattr(slug_part, lambda _id, attempt: taken if attempt < 2 else "b" * 10)

    posted = await post(scene.gateway, scene.discussion, "New.")

    assert posted["slug"] == "b" * 10
    rows = await everything(scene.gateway, scene.discussion)
    assert [row["text"] for row in rows if row["slug"] == taken] == ["Other."]


@pytest.mark.parametrize("storage", [PAGES])
async def test_a_change_during_a_split_is_made_if_this_or_another_process_finishes_the_split(scene: Discussion) -> None:
    db, storage = scene.gateway.db, PageStorage()
    ref = key_in("Comment", scene.comments["Other."]["id"])
    other = (await storage.find_stored(db, ref.discussion, [ref.id]))[ref.id]
    page = await db["comment_pages"].find_one({"discussion": ref.discussion})
    assert page is not None
    mark = {"$set": {"split": {"at": other["key"], "since": scene.clock.now()}}}
    for method in ("find_one_and_update", "find_one", None):
        await scene.restore()
        await db["comment_pages"].update_one({"_id": page["_id"]}, mark)
        # Another process finishes the split before this command, or none does.
        own = db if method is None else interrupted(db, "comment_pages", method, partial(finish_split, db, page))

        changed_it = await storage.change(own, other, {"text": "Other."}, {"$set": {"text": "Changed."}})
        again = await storage.change(db, other, {"text": "Other."}, {"$set": {"text": "Changed again."}})

        assert changed_it is not None
        assert (changed_it["text"], again) == ("Changed.", None)
        await scene.assert_is(changed("Other.", ("Changed.", False, 0)), place=method)
