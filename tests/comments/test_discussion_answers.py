"""Calls during which something else is deleted: at any moment, the answer matches the effect of the call."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from portico.resolvers.comments import discussions
from portico.resolvers.comments import jobs as comment_jobs
from portico.resolvers.comments.discussion_removal import remove_comments
from portico.resolvers.comments.discussions import settle_closed
from portico.testing.stages import Stage
from tests.comments.support.discussions import (
    ON_EACH,
    count,
    delete,
    everything,
    open_on_product,
    post,
    post_input,
    stops_on,
)
from tests.support.domains import DOMAINS
from tests.support.harness import GatewayClient, SettableClock, assert_invariants
from tests.support.ids import key_in
from tests.support.moments import Moment, moments

Given = dict[str, Any]
# The collections that the calls write.
CHANGED = ("products", "discussions", "comment_discussions", "comments", "comment_pages", "comment_keys", "operations")
WITH_AND_WITHOUT_KEY = pytest.mark.parametrize("key", [{}, {"idempotencyKey": "once"}], ids=["no key", "a key"])
# A page of a discussion and one of its comments, with all fields that lead on from them.
READ = """
query ($discussion: ID!, $slug: String!, $comment: ID!) {
  node(id: $discussion) {
    ... on Discussion {
      commentCount
      comment(slug: $slug) { text replies { nodes { text } } thread { nodes { text } } }
      comments { nodes { text parent { text } replies { nodes { text } } } }
      latest: comments(order: CHRONOLOGICAL) { nodes { text } }
    }
  }
  comment: node(id: $comment) { ... on Comment { text parent { text } replies { nodes { text } } } }
}
"""


class Thread(Stage):
    """A discussion with two comments. Each has a reply, and the second comment is deleted."""

    collections = CHANGED
    storage: str

    async def build(self) -> None:
        self.id, self.comments = await open_on_product(self.gateway, self.storage), dict[str, Any]()
        for parent, reply in (("Top.", "Reply."), ("Deleted.", "Last.")):
            self.comments[parent] = await post(self.gateway, self.id, parent)
            self.comments[reply] = await post(self.gateway, self.id, reply, self.comments[parent]["slug"])
        assert await self.delete("Deleted.") == "CommentPayload"

    def token(self, _mutation: str) -> str:
        token: str = self.gateway.token("poster", [])
        return token

    async def delete(self, text: str, **fields: Any) -> str:
        return str((await delete(self.gateway, self.comments[text], **fields))["__typename"])

    async def subject(self) -> Any:
        return await self.gateway.stored("discussions", {"_id": key_in("Discussion", self.id)})

    async def texts(self) -> list[str]:
        return [row["text"] for row in await everything(self.gateway, self.id)]


@pytest.fixture
def thread(gateway: GatewayClient, clock: SettableClock, storage: str) -> Thread:
    thread = Thread(gateway, clock)
    thread.storage = storage
    return thread


def keyed(key: Given, moment: Moment) -> Given:
    """Returns the key of a call at this moment, if the calls have keys."""
    return {name: f"{value} {moment.place}" for name, value in key.items()}


@ON_EACH
@pytest.mark.sample(3)
@WITH_AND_WITHOUT_KEY
async def test_a_deletion_succeeds_even_if_a_deletion_of_the_last_reply_removes_the_comment(
    thread: Thread, storage: str, key: Given
) -> None:
    for moment in moments(stops_on(storage, bool(key))):
        await thread.restore()
        given = {"id": thread.comments["Top."]["id"], **keyed(key, moment)}
        with moment.during(thread.gateway, partial(thread.delete, "Reply.")):
            answer = await thread.typename_of("deleteComment", given)

        assert answer == "CommentPayload", moment.place
        if not moment.was_reached:
            break
        assert moment.results == ["CommentPayload"], moment.place
        if key:
            assert await thread.typename_of("deleteComment", given) == "CommentPayload", moment.place
        assert await thread.texts() == ["", "Last."], moment.place
    assert moment.place > 0
    await assert_invariants(thread.gateway)


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["Top.", "Reply."])
async def test_exactly_one_of_two_deletions_of_a_comment_finds_it(thread: Thread, storage: str, text: str) -> None:
    for moment in moments(stops_on(storage, text == "Reply.")):
        await thread.restore()
        with moment.during(thread.gateway, partial(thread.delete, text)):
            answer = await thread.typename_of("deleteComment", {"id": thread.comments[text]["id"]})

        if moment.was_reached:
            assert sorted([answer, *moment.results]) == ["CommentPayload", "NotFound"], moment.place
    assert moment.place > 0


CALLS: dict[str, Callable[[Thread], tuple[str, Given]]] = {
    "a post": lambda thread: ("postComment", post_input(thread.id, "New.")),
    "a reply": lambda thread: ("postComment", post_input(thread.id, "New.", thread.comments["Top."]["slug"])),
    "an edit": lambda thread: ("editComment", {"id": thread.comments["Reply."]["id"], "text": "New."}),
    "deleting a reply": lambda thread: ("deleteComment", {"id": thread.comments["Reply."]["id"]}),
    "deleting what has replies": lambda thread: ("deleteComment", {"id": thread.comments["Top."]["id"]}),
    "deleting the last reply": lambda thread: ("deleteComment", {"id": thread.comments["Last."]["id"]}),
}


async def remove(thread: Thread) -> None:
    """Delete the subject for good, and run the job that removes its comments."""
    subject = await thread.subject()
    db, kind, key = thread.gateway.db, subject["subject"]["kind"], subject["subject"]["key"]
    await db["products"].delete_one({"sku": key})
    await discussions.close(db, kind=kind, key=key, of=subject["of"], by="d", is_final=True, now=thread.clock.now())
    await remove_comments(db, subject["_id"])


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CALLS)
@WITH_AND_WITHOUT_KEY
async def test_a_discussion_that_is_removed_during_a_call_is_not_found(
    thread: Thread, storage: str, name: str, key: Given
) -> None:
    for moment in moments(stops_on(storage, bool(key))):
        await thread.restore()
        mutation, given = CALLS[name](thread)
        given |= keyed(key, moment)

        with moment.during(thread.gateway, partial(remove, thread)):
            answer = await thread.typename_of(mutation, given)

        assert answer in {"NotFound", "CommentPayload"}, moment.place
        if not moment.was_reached:
            assert answer == "CommentPayload"
            break
        if key:
            assert await thread.typename_of(mutation, given) == "NotFound", moment.place
        await comment_jobs.finish_removals(thread.gateway.db, DOMAINS.hosts, now=thread.clock.now())
        assert await thread.gateway.db["discussions"].find_one({"under_way": {"$ne": []}}) is None, moment.place
    await assert_invariants(thread.gateway)


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CALLS)
async def test_the_answer_is_right_if_the_discussion_is_hidden_for_a_moment(
    thread: Thread, storage: str, name: str
) -> None:
    """The deletion of the subject begins and is undone."""
    await thread.restore()
    for moment in moments(stops_on(storage)):
        await thread.restore()
        before, mutation, given = await thread.texts(), *CALLS[name](thread)
        subject = await thread.subject()
        of = {"kind": subject["subject"]["kind"], "key": subject["subject"]["key"], "of": subject["of"], "by": "d"}

        hide = partial(discussions.close, thread.gateway.db, **of, is_final=False, now=thread.clock.now())
        with moment.during(thread.gateway, hide):
            answer = await thread.typename_of(mutation, given)
        await settle_closed(thread.gateway.db, **of, is_gone=False, now=thread.clock.now())
        thread.clock.advance(seconds=31)
        await comment_jobs.finish_comments(thread.gateway.db, now=thread.clock.now())

        after = await thread.texts()
        assert (answer == "CommentPayload") is (after != before), moment.place
        assert len(after) == await count(thread.gateway, thread.id), moment.place
        assert answer == "CommentPayload" or moment.was_reached
    await assert_invariants(thread.gateway)


@ON_EACH
async def test_a_read_during_which_the_discussion_is_removed_has_no_error(thread: Thread, storage: str) -> None:
    for moment in moments(stops_on(storage)):
        await thread.restore()
        reply = thread.comments["Reply."]
        given = {"discussion": thread.id, "slug": thread.comments["Top."]["slug"], "comment": reply["id"]}

        with moment.during(thread.gateway, partial(remove, thread)):
            answer = await thread.gateway.ask(READ, given)

        assert answer.codes == [], moment.place
