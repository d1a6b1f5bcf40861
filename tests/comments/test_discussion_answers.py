"""Calls during which something else is deleted: at any moment, the answer matches the effect of the call."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from portico.resolvers.comments import discussions
from portico.resolvers.comments import jobs as comment_jobs
from portico.resolvers.comments.discussion_removal import remove_comments
from portico.resolvers.comments.discussions import settle_closed
from portico.testing.snapshots import Snapshot
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
from tests.support.interruptions import database_of, interrupted

Given = dict[str, Any]
# The collections that the calls write.
CHANGED = ("products", "discussions", "comment_discussions", "comments", "comment_pages", "comment_keys", "operations")
MUTATION = (
    "mutation ($input: {kind}Input!) {{ {name}(input: $input) {{ __typename ... on NotFound {{ missingId }} }} }}"
)
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


class Thread:
    """A discussion with two comments. Each has a reply, and the second comment is deleted."""

    def __init__(self, gateway: GatewayClient, clock: SettableClock) -> None:
        self.gateway = gateway
        self.clock = clock
        self.comments: dict[str, Any] = {}
        self._snapshot = Snapshot(gateway.db, CHANGED)

    async def build(self, storage: str) -> None:
        """Create the discussion, or restore it."""
        if self.comments:
            await self._snapshot.restore()
            return
        self.id = await open_on_product(self.gateway, storage)
        for parent, reply in (("Top.", "Reply."), ("Deleted.", "Last.")):
            self.comments[parent] = await post(self.gateway, self.id, parent)
            self.comments[reply] = await post(self.gateway, self.id, reply, self.comments[parent]["slug"])
        assert await self.delete("Deleted.") == "CommentPayload"
        await self._snapshot.take()

    async def delete(self, text: str, **fields: Any) -> str:
        return str((await delete(self.gateway, self.comments[text], **fields))["__typename"])

    async def subject(self) -> Any:
        key = key_in("Discussion", self.id)
        found = await self.gateway.db["discussions"].find_one({"_id": key})
        assert found is not None
        return found

    async def texts(self) -> list[str]:
        return [row["text"] for row in await everything(self.gateway, self.id)]


@pytest.fixture
def thread(gateway: GatewayClient, clock: SettableClock) -> Thread:
    return Thread(gateway, clock)


async def typename_of(gateway: GatewayClient, mutation: str, given: Given) -> str:
    """Return the type of the result. Assert that the answer has no errors."""
    text = MUTATION.format(kind=mutation[0].upper() + mutation[1:], name=mutation)
    answer = await gateway.ask(text, {"input": given}, token=gateway.token("poster", []))
    assert answer.codes == []
    return str(answer.data[mutation]["__typename"])


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("key", [{}, {"idempotencyKey": "once"}], ids=["no key", "a key"])
async def test_a_deletion_succeeds_even_if_a_deletion_of_the_last_reply_removes_the_comment(
    thread: Thread, storage: str, key: Given
) -> None:
    for skip in stops_on(storage, bool(key)):
        await thread.build(storage)
        replies: list[str] = []

        async def meanwhile(replies: list[str] = replies) -> None:
            replies.append(await thread.delete("Reply."))

        given = {"id": thread.comments["Top."]["id"], **{name: f"{value} {skip}" for name, value in key.items()}}
        with database_of(thread.gateway, interrupted(thread.gateway.db, None, None, meanwhile, skip=skip)):
            answer = await typename_of(thread.gateway, "deleteComment", given)

        assert answer == "CommentPayload", skip
        if not replies:
            assert skip > 0
            break
        assert replies == ["CommentPayload"], skip
        if key:
            assert await typename_of(thread.gateway, "deleteComment", given) == "CommentPayload", skip
        assert await thread.texts() == ["", "Last."], skip
    await assert_invariants(thread.gateway)


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("text", ["Top.", "Reply."])
async def test_exactly_one_of_two_deletions_of_a_comment_finds_it(thread: Thread, storage: str, text: str) -> None:
    for skip in stops_on(storage, text == "Reply."):
        await thread.build(storage)
        others: list[str] = []

        async def meanwhile(others: list[str] = others) -> None:
            others.append(await thread.delete(text))

        with database_of(thread.gateway, interrupted(thread.gateway.db, None, None, meanwhile, skip=skip)):
            answer = await typename_of(thread.gateway, "deleteComment", {"id": thread.comments[text]["id"]})

        if not others:
            assert skip > 0
            break
        assert sorted([answer, *others]) == ["CommentPayload", "NotFound"], skip


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


async def meanwhile_or_not(
    thread: Thread, call: Callable[[], Awaitable[str]], action: Callable[[Thread], Awaitable[None]], skip: int
) -> tuple[str, bool]:
    """Run the action before the command with this number. Return the answer to the call, and whether the action has
    run.
    """
    done: list[bool] = []

    async def meanwhile() -> None:
        done.append(True)
        await action(thread)

    with database_of(thread.gateway, interrupted(thread.gateway.db, None, None, meanwhile, skip=skip)):
        return await call(), bool(done)


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("key", [{}, {"idempotencyKey": "once"}], ids=["no key", "a key"])
async def test_a_discussion_that_is_removed_during_a_call_is_not_found(
    thread: Thread, storage: str, name: str, key: Given
) -> None:
    for skip in stops_on(storage, bool(key)):
        await thread.build(storage)
        mutation, given = CALLS[name](thread)
        given |= {field: f"{value} {skip}" for field, value in key.items()}

        call = partial(typename_of, thread.gateway, mutation, given)
        answer, was_removed = await meanwhile_or_not(thread, call, remove, skip)

        assert answer in {"NotFound", "CommentPayload"}, skip
        if not was_removed:
            assert answer == "CommentPayload"
            break
        if key:
            assert await typename_of(thread.gateway, mutation, given) == "NotFound", skip
        await comment_jobs.finish_removals(thread.gateway.db, DOMAINS.hosts, now=thread.clock.now())
        assert await thread.gateway.db["discussions"].find_one({"under_way": {"$ne": []}}) is None, skip
    await assert_invariants(thread.gateway)


@ON_EACH
@pytest.mark.sample(3)
@pytest.mark.parametrize("name", CALLS)
async def test_the_answer_is_right_if_the_discussion_is_hidden_for_a_moment(
    thread: Thread, storage: str, name: str
) -> None:
    """The deletion of the subject begins and is undone."""
    await thread.build(storage)
    for skip in stops_on(storage):
        await thread.build(storage)
        before, mutation, given = await thread.texts(), *CALLS[name](thread)
        subject = await thread.subject()
        of = {"kind": subject["subject"]["kind"], "key": subject["subject"]["key"], "of": subject["of"], "by": "d"}

        async def hide(thread: Thread, of: Given = of) -> None:
            await discussions.close(thread.gateway.db, **of, is_final=False, now=thread.clock.now())

        call = partial(typename_of, thread.gateway, mutation, given)
        answer, was_hidden = await meanwhile_or_not(thread, call, hide, skip)
        await settle_closed(thread.gateway.db, **of, is_gone=False, now=thread.clock.now())
        thread.clock.advance(seconds=31)
        await comment_jobs.finish_comments(thread.gateway.db, now=thread.clock.now())

        after = await thread.texts()
        assert (answer == "CommentPayload") is (after != before), skip
        assert len(after) == await count(thread.gateway, thread.id), skip
        if not was_hidden:
            assert answer == "CommentPayload"
            break
    await assert_invariants(thread.gateway)


@ON_EACH
async def test_a_read_during_which_the_discussion_is_removed_has_no_error(thread: Thread, storage: str) -> None:
    for skip in stops_on(storage):
        await thread.build(storage)
        reply = thread.comments["Reply."]
        given = {"discussion": thread.id, "slug": thread.comments["Top."]["slug"], "comment": reply["id"]}

        async def read(given: Given = given) -> str:
            return str((await thread.gateway.ask(READ, given)).codes)

        codes, was_removed = await meanwhile_or_not(thread, read, remove, skip)

        assert codes == "[]", skip
        if not was_removed:
            break
