"""What subscribers share: equal ones share one run for each event, and nobody gets the answer of another viewer."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.changes import Event
from portico.resolvers.comments.comments import parse_comment_ref
from portico.resolvers.comments.events import comments_of
from portico.resolvers.documents import Document
from portico.schema.catalog.merchants import MERCHANT
from portico.schema.comments import events
from portico.schema.comments.discussions import COMMENT
from portico.schema.context import Context
from portico.schema.roles import Role
from portico.schema.subscriptions import show_object
from tests.gateway.support.discussed import Discussed, discussed, served_talk
from tests.gateway.support.subscribers import acknowledged
from tests.support.harness import running
from tests.support.ids import decode_id
from tests.support.pausing import Pause
from tests.support.sockets import POSTED, EventStream, Socket, subscribe, texts, until, wait_until_live
from tests.support.wire import through_wire

# Each run reads the thread.
THREAD = """subscription ($id: ID!, $first: Int! = 5) { commentPosted(discussionId: $id) {
  text thread(first: $first) { nodes { text } } } }"""

Change = Callable[[Context, Document], Awaitable[Document]]
ShowAs = Callable[[Change], None]

talk = served_talk


def publish(talk: Discussed, comment: Any) -> None:
    """Publishes the event of a comment again, without the commands of a post."""
    ref = parse_comment_ref(str(decode_id(comment["id"])[1]))
    talk.gateway.state.live.publish(Event(comments_of(ref.discussion), ref))


async def codes(source: Socket | EventStream) -> list[str]:
    """Receives the next message. Returns the codes of its errors."""
    received: Any = await source.receive()
    payload = received["payload"] if isinstance(received, dict) else received[1]
    errors = payload if isinstance(payload, list) else payload.get("errors", [])
    return [error["extensions"]["code"] for error in errors]


@pytest.fixture
def show_as(monkeypatch: pytest.MonkeyPatch) -> ShowAs:
    """Changes the comments that events show, as a domain whose objects depend on their viewer does."""

    def set_change(change: Change) -> None:
        async def show(context: Context, event: Event) -> Document | None:
            comment = await show_object(COMMENT)(context, event)
            return None if comment is None else await change(context, dict(comment))

        monkeypatch.setattr(events, "_show", show)

    return set_change


# One run for equal subscribers


async def test_equal_subscriptions_run_their_selection_once_for_an_event(talk: Discussed) -> None:
    posted = await talk.post("a")
    readers = [talk.gateway.token(f"reader-{number}", []) for number in range(10)]
    async with (
        talk.subscribed([None] * 10, THREAD) as anonymous,
        talk.subscribed(readers, THREAD) as signed_in,
        talk.streamed(THREAD) as stream,
    ):
        await anonymous[0].subscribe('an "odd" id', THREAD, {"id": talk.id})
        await wait_until_live(talk.gateway, 22)
        others: list[Socket | EventStream] = [*anonymous[1:], *signed_in, stream]
        # No run has read anything of its caller yet, so the first event may take more runs.
        publish(talk, posted)
        ids = {(await anonymous[0].receive())["id"] for _ in range(2)}
        for source in others:
            assert await texts(source, 1) == ["a"]
        talk.gateway.commands.clear()
        talk.counts.runs = 0

        publish(talk, posted)

        assert ids == {"1", 'an "odd" id'} == {(await anonymous[0].receive())["id"] for _ in range(2)}
        for source in others:
            assert await texts(source, 1) == ["a"]
        # One run for all anonymous callers, and one for all callers who are signed in.
        assert talk.counts.runs == 2
        threads = [command for command in talk.gateway.commands.sent if "find" in command and "sort" in command]
        assert len(threads) == 2
        assert talk.counts.deliveries == 44


async def test_different_selections_variables_and_operations_do_not_share(talk: Discussed) -> None:
    first = await talk.post("a")
    await talk.post("b", parent=first["slug"])
    await talk.post("c", parent=first["slug"])
    both = """subscription A($id: ID!) { commentPosted(discussionId: $id) { text } }
      subscription B($id: ID!) { commentPosted(discussionId: $id) { depth } }"""
    asked: list[tuple[str, dict[str, Any], Any]] = [
        (POSTED, {}, {"text": "a"}),
        (POSTED + " ", {}, {"text": "a"}),
        (THREAD, {"variables": {"first": 1}}, {"text": "a", "thread": {"nodes": [{"text": "b"}]}}),
        (THREAD, {"variables": {"first": 2}}, {"text": "a", "thread": {"nodes": [{"text": "b"}, {"text": "c"}]}}),
        (both, {"operationName": "A"}, {"text": "a"}),
        (both, {"operationName": "B"}, {"depth": 0}),
    ]
    async with acknowledged(talk.port) as socket:
        for number, (query, more, _) in enumerate(asked):
            variables = {"id": talk.id, **more.get("variables", {})}
            await socket.send(subscribe(str(number), query, **{**more, "variables": variables}))
        await wait_until_live(talk.gateway, len(asked))

        publish(talk, first)
        received = [await socket.receive() for _ in asked]

    found = {message["id"]: message["payload"]["data"]["commentPosted"] for message in received}
    assert found == {str(number): expected for number, (_, _, expected) in enumerate(asked)}
    assert talk.counts.runs == len(asked)


async def test_a_subscriber_who_disconnects_does_not_take_the_answer_from_the_others(
    talk: Discussed, show_as: ShowAs
) -> None:
    pause = Pause()

    async def slowly(_context: Context, comment: Document) -> Document:
        await pause()
        return comment

    show_as(slowly)
    async with talk.subscribed([None]) as (staying,):
        async with talk.subscribed([None]):
            await talk.post("a")
            await pause.reached.wait()
        await until(lambda: talk.counts.listeners == 1)
        pause.go_on.set()

        assert await texts(staying, 1) == ["a"]


async def test_a_run_is_cancelled_if_nobody_waits_for_its_answer(talk: Discussed, show_as: ShowAs) -> None:
    begun, ended = asyncio.Event(), asyncio.Event()

    async def forever(_context: Context, comment: Document) -> Document:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return comment

    show_as(forever)
    posted = await talk.post("a")
    async with talk.subscribed([None] * 2):
        publish(talk, posted)
        await begun.wait()
        assert not ended.is_set()

    await until(ended.is_set)


# Different viewers


async def test_viewers_never_get_the_answer_of_another_viewer(talk: Discussed, show_as: ShowAs) -> None:
    async def for_viewer(context: Context, comment: Document) -> Document:
        return {**comment, "text": f"{comment['text']} for {context.subject}"}

    show_as(for_viewer)
    subjects = ["ann", "bob", "cid", "ann"]
    async with talk.subscribed([None, *(talk.gateway.token(one, []) for one in subjects)]) as sockets:
        for number, runs in ((0, 4), (1, 8)):
            await talk.post(str(number))

            for socket, subject in zip(sockets, ["None", *subjects], strict=True):
                assert await texts(socket, 1) == [f"{number} for {subject}"]
            # The two sockets of ann share.
            assert talk.counts.runs == runs


async def test_viewers_share_if_they_agree_in_what_a_run_reads_of_them(talk: Discussed, show_as: ShowAs) -> None:
    async def for_role(context: Context, comment: Document) -> Document:
        return {**comment, "text": f"{comment['text']} {context.has_role(Role.EDITOR)}"}

    show_as(for_role)
    roles: list[list[Role]] = [[], [Role.EDITOR], [MERCHANT], [Role.ADMIN], []]
    tokens = [talk.gateway.token(f"viewer-{number}", given) for number, given in enumerate(roles)]
    async with talk.subscribed(tokens) as sockets:
        for text in ("a", "b"):
            await talk.post(text)

            seen = [(await texts(socket, 1))[0] for socket in sockets]
            assert seen == [f"{text} {one}" for one in (False, True, False, True, False)]
    # The first run shows that only one role matters. After it, there is one run for those with it, and one for those
    # without.
    assert talk.counts.runs == 4


async def test_a_rule_that_reads_more_of_its_caller_later_still_keeps_viewers_apart(
    talk: Discussed, show_as: ShowAs
) -> None:
    async def sometimes(context: Context, comment: Document) -> Document:
        if "secret" not in comment["text"]:
            return comment
        return {**comment, "text": f"for {context.caller.name if context.caller else None}"}

    show_as(sometimes)
    async with talk.subscribed([talk.gateway.token("ann", []), talk.gateway.token("bob", []), None]) as sockets:
        for text in ("open", "secret", "open again"):
            await talk.post(text)

        seen = [await texts(socket, 3) for socket in sockets]

    assert seen == [["open", f"for {name}", "open again"] for name in ("", "", None)]


async def test_an_error_of_one_viewer_does_not_reach_the_others(talk: Discussed, show_as: ShowAs) -> None:
    async def failing(context: Context, comment: Document) -> Document:
        if context.subject == "ann" and comment["text"] == "a":
            raise RuntimeError("a secret")
        return comment

    show_as(failing)
    async with talk.subscribed([talk.gateway.token("ann", []), talk.gateway.token("bob", []), None]) as sockets:
        await talk.post("a")
        await talk.post("b")

        assert await codes(sockets[0]) == ["INTERNAL"]
        assert await texts(sockets[0], 1) == ["b"]
        for socket in sockets[1:]:
            assert await texts(socket, 2) == ["a", "b"]


async def test_a_slow_answer_for_one_viewer_does_not_delay_the_others(talk: Discussed, show_as: ShowAs) -> None:
    go_on = asyncio.Event()

    async def slowly(context: Context, comment: Document) -> Document:
        if context.subject == "ann":
            await go_on.wait()
        return comment

    show_as(slowly)
    # Ann subscribes first, so the others wait for her run until it is known that the answer depends on the subject.
    tokens = [talk.gateway.token(one, []) for one in ("ann", "ann", "bob")]
    async with talk.subscribed([*tokens, None]) as (ann, again, bob, anonymous):
        for text in ("a", "b"):
            await talk.post(text)
        assert await texts(bob, 2) == await texts(anonymous, 2) == ["a", "b"]
        assert talk.counts.runs == 5
        go_on.set()

        assert await texts(ann, 2) == await texts(again, 2) == ["a", "b"]
        assert talk.counts.runs == 6


async def test_a_subscriber_may_ask_for_the_answers_of_events_that_others_have_already_got(talk: Discussed) -> None:
    held = await talk.gateway.state.live.listen(comments_of(decode_id(talk.id)[1]))
    async with talk.subscribed([None]) as (quick,):
        await talk.post("a")
        assert await texts(quick, 1) == ["a"]
        event = await anext(held)
        async with talk.subscribed([None]) as (late,):
            for listener in tuple(talk.gateway.state.live._topics[event.topic]):
                listener.put(event)

            assert await texts(quick, 1) == await texts(late, 1) == ["a"]
    assert talk.counts.runs == 1
    await held.aclose()


# A primary that hangs


@pytest.mark.parametrize("reads_directly", [True, False])
async def test_an_event_is_read_again_after_the_primary_hung(settings: Settings, *, reads_directly: bool) -> None:
    with through_wire(replace(settings, database_seconds=1, direct_reads=reads_directly)) as (wire, over_wire):
        async with running(over_wire) as gateway, discussed(gateway) as talk:
            posted = await talk.post("a")
            async with talk.subscribed([None, gateway.token("ann", [])]) as sockets, talk.streamed() as stream:
                sources: list[Socket | EventStream] = [*sockets, stream]
                await wait_until_live(gateway, 3)
                wire.block()
                publish(talk, posted)
                # Both runs have timed out.
                await until(lambda: talk.counts.retries >= 2)
                wire.unblock()

                for source in sources:
                    assert await texts(source, 1) == ["a"]
                await talk.post("b")
                for source in sources:
                    assert await texts(source, 1) == ["b"]
    assert Counter(talk.counts.ended) == Counter()
