"""`commentPosted`: which subscribers get which comments, and the form of an event, with both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway import auth
from portico.gateway.auth import InvalidToken
from portico.gateway.settings import Settings
from portico.resolvers.comments.discussions import DOCUMENTS, PAGES
from portico.schema.kinds import Kind
from portico.schema.roles import Role
from tests.comments.support.discussions import ON_EACH, delete, open_on_product, post
from tests.gateway.support.discussed import Discussed, served_talk
from tests.gateway.support.subscribers import (
    acknowledged,
    assert_ends,
    data_of,
    expiring_token,
    hide_entries,
    open_on_entry,
    ready_socket,
)
from tests.support.harness import GatewayClient, running
from tests.support.sockets import POSTED, Socket, listening, streamed, texts, until, wait_until_live

EDIT = "mutation ($input: EditCommentInput!) { editComment(input: $input) { __typename } }"
socket = ready_socket
talk = served_talk


# Events


@ON_EACH
async def test_an_event_has_all_selected_fields_of_the_comment(
    gateway: GatewayClient, socket: Socket, storage: str
) -> None:
    discussion = await open_on_product(gateway, storage)
    first = await post(gateway, discussion, "first")
    query = """subscription ($id: ID!) { new: commentPosted(discussionId: $id) {
      __typename id slug depth author { name } text html replyCount parent { text replyCount }
      discussion { id commentCount }
    } }"""
    await socket.subscribe("1", query, {"id": discussion})
    await wait_until_live(gateway)

    reply = await post(gateway, discussion, "*second*", first["slug"])

    message = await socket.receive()
    comment = message["payload"]["data"]["new"]
    # One write makes a comment visible. Later writes count it.
    assert comment["parent"].pop("replyCount") in {0, 1}
    assert comment["discussion"].pop("commentCount") in {1, 2}
    assert message == {
        "id": "1",
        "type": "next",
        "payload": {
            "data": {
                "new": {
                    "__typename": "Comment",
                    "id": reply["id"],
                    "slug": reply["slug"],
                    "depth": 1,
                    "author": {"name": "poster"},
                    "text": "*second*",
                    "html": "<p><em>second</em></p>\n",
                    "replyCount": 0,
                    "parent": {"text": "first"},
                    "discussion": {"id": discussion},
                }
            }
        },
    }


@ON_EACH
async def test_each_comment_comes_once_in_order_and_edits_and_deletions_are_no_events(
    gateway: GatewayClient, port: int, storage: str
) -> None:
    discussion = await open_on_product(gateway, storage)
    other = await open_on_product(gateway, storage)
    async with streamed(port, POSTED, {"id": discussion}) as stream:
        for number in range(3):
            posted = await post(gateway, discussion, str(number))
            await post(gateway, other, "elsewhere")
            assert await texts(stream, 1) == [str(number)]
            token = gateway.token("poster", [])
            await gateway.data(EDIT, {"input": {"id": posted["id"], "text": "edited"}}, token=token)
            await delete(gateway, posted)
        await post(gateway, discussion, "last")

        assert await texts(stream, 1) == ["last"]


async def test_each_comment_comes_once_when_pages_split(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, PAGES)
    async with streamed(port, POSTED, {"id": discussion}) as stream:
        posting = [asyncio.create_task(post(gateway, discussion, str(number))) for number in range(110)]
        received = await texts(stream, 110)
        await asyncio.gather(*posting)
        await post(gateway, discussion, "last")

        assert sorted(received, key=int) == [str(number) for number in range(110)]
        assert await texts(stream, 1) == ["last"]
    assert await gateway.db["comment_pages"].count_documents({}) > 1


async def test_a_call_repeated_with_its_key_is_one_event(talk: Discussed, socket: Socket) -> None:
    await talk.follow(socket)

    await asyncio.gather(*(post(talk.gateway, talk.id, "once", idempotencyKey="a") for _ in range(5)))
    await talk.post("last")

    assert await texts(socket, 2) == ["once", "last"]


@pytest.mark.parametrize("executor", ["compiled", "reference"])
async def test_both_executors_give_the_same_answer(settings: Settings, executor: Any) -> None:
    query = """subscription ($id: ID!, $with: Boolean! = false) { commentPosted(discussionId: $id) {
      ...all author @include(if: $with) { userId } } }
      fragment all on Comment { text posted parent { id } discussion { subject { __typename } } }"""
    async with running(replace(settings, executor=executor)) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, DOCUMENTS)
        async with streamed(port, query, {"id": discussion}) as stream:
            await post(gateway, discussion, "a")
            event: Any = await stream.receive()

    assert event[1]["data"]["commentPosted"].pop("posted").endswith("Z")
    shown = {"text": "a", "parent": None, "discussion": {"subject": {"__typename": "GeneralProduct"}}}
    assert event == ("next", {"data": {"commentPosted": shown}})


async def test_subscriptions_on_one_connection_are_independent(gateway: GatewayClient, socket: Socket) -> None:
    one, two = await open_on_product(gateway, DOCUMENTS), await open_on_product(gateway, PAGES)
    await socket.subscribe("1", POSTED, {"id": one})
    await socket.subscribe("2", POSTED, {"id": two})
    await socket.subscribe("3", POSTED, {"id": one})
    await wait_until_live(gateway, 3)

    await post(gateway, one, "a")
    assert {(await socket.receive())["id"] for _ in range(2)} == {"1", "3"}
    await socket.send({"id": "1", "type": "complete"})
    await until(lambda: gateway.state.live.counts.listeners == 2)
    await post(gateway, one, "b")
    await post(gateway, two, "c")

    assert {(await socket.receive())["id"] for _ in range(2)} == {"2", "3"}
    assert gateway.state.live.counts.streams == 1


async def test_a_subscription_followed_by_a_query_misses_no_comment(talk: Discussed) -> None:
    listed = "query ($id: ID!) { node(id: $id) { ... on Discussion { comments(first: 100) { nodes { text } } } } }"
    stop = asyncio.Event()
    posted: list[str] = []

    async def keep_posting() -> None:
        while not stop.is_set():
            await talk.post(str(len(posted)))
            posted.append(str(len(posted)))

    posting = asyncio.create_task(keep_posting())
    for _ in range(5):
        async with acknowledged(talk.port) as socket:
            await socket.subscribe("s", POSTED, {"id": talk.id})
            await socket.subscribe("q", listed, {"id": talk.id})
            seen: set[str] = set()
            is_listed = False
            goal = len(posted) + 10
            while not is_listed or str(goal) not in seen:
                message = await socket.receive()
                if message["id"] == "q":
                    is_listed = True
                    nodes = message["payload"]["data"]["node"]["comments"]["nodes"] if "payload" in message else ()
                    seen |= {node["text"] for node in nodes}
                else:
                    seen.add(message["payload"]["data"]["commentPosted"]["text"])
            assert {str(number) for number in range(goal)} <= seen
        if len(posted) > 60:
            break
    stop.set()
    await posting


# Subscribers


async def test_a_subscription_to_a_missing_discussion_ends_at_once(talk: Discussed, socket: Socket) -> None:
    await talk.gateway.db["discussions"].delete_many({})

    for key in ("nonsense", Kind.encode_id("Product", "a"), talk.id):
        await socket.subscribe("1", POSTED, {"id": key})
        message = await socket.receive()
        assert (message["id"], message["type"]) == ("1", "error")
        assert message["payload"][0]["extensions"] == {"code": "NOT_FOUND"}
        assert message["payload"][0]["path"] == ["commentPosted"]
        async with streamed(talk.port, POSTED, {"id": key}) as stream:
            await assert_ends(stream, "NOT_FOUND")
    assert talk.counts.streams == 0


async def test_a_subscriber_who_may_no_longer_see_the_subject_gets_no_more_comments(
    gateway: GatewayClient, port: int
) -> None:
    discussion = await open_on_entry(gateway)
    editor = gateway.token("ed", [Role.EDITOR])
    async with (
        streamed(port, POSTED, {"id": discussion}) as reader,
        streamed(port, POSTED, {"id": discussion}, token=editor) as writer,
    ):
        await post(gateway, discussion, "seen")
        assert await texts(reader, 1) == ["seen"]
        await hide_entries(gateway)
        await post(gateway, discussion, "hidden", roles=[Role.EDITOR])

        await assert_ends(reader, "NOT_FOUND")
        assert await texts(writer, 2) == ["seen", "hidden"]
    async with streamed(port, POSTED, {"id": discussion}) as again:
        assert (await data_of(again))["errors"][0]["extensions"] == {"code": "NOT_FOUND"}


async def test_the_token_is_checked_for_each_event(talk: Discussed, monkeypatch: pytest.MonkeyPatch) -> None:
    identify = talk.gateway.state.authenticator.identify
    withdrawn = talk.gateway.token("ann")
    # Valid tokens are remembered for no time.
    monkeypatch.setattr(auth, "_KEPT_SECONDS", 0)

    async def without(authorization: str | None) -> Any:
        if authorization is not None and withdrawn in authorization:
            raise InvalidToken("The token's signature does not match.")
        return await identify(authorization)

    async with (
        acknowledged(talk.port, withdrawn) as socket,
        streamed(talk.port, POSTED, {"id": talk.id}, token=withdrawn) as stream,
    ):
        await talk.follow(socket, 2)
        monkeypatch.setattr(talk.gateway.state.authenticator, "identify", without)
        await talk.post("A comment.")

        assert await socket.closed() == (4403, "The token's signature does not match.")
        await assert_ends(stream, "UNAUTHENTICATED")


async def test_a_stream_ends_when_its_token_expires(talk: Discussed) -> None:

    async with streamed(talk.port, POSTED, {"id": talk.id}, token=expiring_token(talk.gateway)) as stream:
        ended = await data_of(stream)

    assert ended == {"errors": [{"message": "The token has expired.", "extensions": {"code": "TOKEN_EXPIRED"}}]}


# Cost


async def test_many_subscribers_share_one_stream_and_one_read_of_each_comment(talk: Discussed) -> None:
    async with contextlib.AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(acknowledged(talk.port)) for _ in range(10)]
        for socket in sockets:
            for number in range(10):
                await socket.subscribe(str(number), POSTED, {"id": talk.id})
        await wait_until_live(talk.gateway, 100)
        talk.gateway.commands.clear()

        await talk.post("a")
        posting = [name for name in talk.gateway.commands.names() if "getMore" not in name]
        for socket in sockets:
            assert await texts(socket, 10) == ["a"] * 10

        sent = [name for name in talk.gateway.commands.names() if "getMore" not in name]
        # The comment, its discussion and its subject are each read once, for all subscribers.
        assert Counter(sent[len(posting) :]) <= Counter({"find comments": 1, "find discussions": 1, "find products": 1})
        assert talk.counts.streams == 1
        assert talk.counts.deliveries == 100


async def test_the_limits_of_queries_apply_to_subscriptions(settings: Settings) -> None:
    deep = "subscription ($id: ID!) { commentPosted(discussionId: $id) { parent { parent { parent { id } } } } }"
    async with running(replace(settings, max_depth=4)) as gateway, listening(gateway) as port:
        async with streamed(port, deep, {"id": "x"}) as stream:
            event = await data_of(stream)
        async with acknowledged(port) as socket:
            await socket.subscribe("1", deep, {"id": "x"})
            message = await socket.receive()

    assert event["errors"][0]["extensions"] == {"code": "OPERATION_TOO_COMPLEX"}
    assert message["type"] == "error"
    assert message["payload"][0]["extensions"] == {"code": "OPERATION_TOO_COMPLEX"}


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_client_that_does_not_accept_a_stream_gets_the_supported_types(
    gateway: GatewayClient, method: str
) -> None:
    given = {"query": POSTED, "variables": {"id": "x"}}
    body = {"json": given} if method == "POST" else {"params": {**given, "variables": json.dumps(given["variables"])}}

    response = await gateway.http.request(method, "/graphql", **body)  # type: ignore[arg-type]

    assert response.status_code == 406
    (error,) = response.json()["errors"]
    assert error["extensions"] == {"code": "NOT_ACCEPTABLE"}
    assert error["message"] == "A subscription needs `Accept: text/event-stream` or a WebSocket."


async def test_a_multipart_request_cannot_subscribe(gateway: GatewayClient) -> None:
    given = {"operations": json.dumps({"query": POSTED, "variables": {"id": "x"}}), "map": "{}"}
    parts = {name: (None, value) for name, value in given.items()}

    headers = {"graphql-require-preflight": "true"}
    response = await gateway.http.post("/graphql", files=parts, headers=headers)

    assert response.status_code == 406
    assert response.json()["errors"][0]["extensions"] == {"code": "NOT_ACCEPTABLE"}


async def test_the_metrics_count_subscriptions_and_delivered_events(talk: Discussed, socket: Socket) -> None:
    await talk.follow(socket)
    await talk.post("a")
    await texts(socket, 1)

    shown = (await talk.gateway.http.get("/metrics")).text

    for line in (
        "portico_sockets 1.0",
        "portico_subscriptions 1.0",
        "portico_change_streams_total 1.0",
        "portico_change_stream_interruptions_total 0.0",
        "portico_events_total 1.0",
        "portico_events_delivered_total 1.0",
    ):
        assert f"\n{line}\n" in shown
