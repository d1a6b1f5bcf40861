"""Answers as server-sent events: operations of each kind, and requests that are refused before the stream starts."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from portico.gateway.http.endpoint import GraphQLEndpoint
from tests.comments.support.discussions import open_on_product, post
from tests.support.fixtures import gateway_with
from tests.support.harness import MUTATIONS, GatewayClient, category_input
from tests.support.sockets import EVENTS, POSTED, answered_by_stream, streamed, until, wait_until_live

VIEWER = "{ viewer { subject } }"
CREATE = MUTATIONS["createCategory"]
SLOW = '{ category(slug: "slow") { name } }'
BOTH = "application/graphql-response+json, application/json;q=0.9, text/event-stream;q=0.1"
gateway = gateway_with(keep_alive_seconds=0.05, send_seconds=0.2)


async def test_a_query_is_one_event_and_a_complete_event(gateway: GatewayClient, port: int) -> None:
    async with streamed(port, VIEWER, token=gateway.token("ann")) as stream:
        assert stream.response.status_code == 200
        assert stream.response.headers["content-type"] == "text/event-stream; charset=utf-8"
        assert stream.response.headers["cache-control"] == "no-store"
        assert len(stream.response.headers["x-request-id"]) == 32
        # Proxies must not buffer it.
        assert stream.response.headers["x-accel-buffering"] == "no"
        assert "content-encoding" not in stream.response.headers
        assert await stream.receive() == ("next", {"data": {"viewer": {"subject": "ann"}}})
        assert await stream.receive() == ("complete", None)
        assert await stream.receive() is None


async def test_a_complete_event_has_a_data_field_so_that_browsers_dispatch_it(gateway: GatewayClient) -> None:
    response = await gateway.http.post("/graphql", json={"query": VIEWER}, headers=EVENTS)

    assert response.text.startswith(":\n\n")
    # On a busy machine, it has more comments.
    events = response.text.replace(":\n\n", "")
    assert events == 'event: next\ndata: {"data":{"viewer":null}}\n\nevent: complete\ndata: \n\n'


async def test_every_stream_that_lasts_says_when_its_client_comes_back(gateway: GatewayClient, port: int) -> None:
    given = {"id": await open_on_product(gateway, "DOCUMENTS")}
    waits: list[int | None] = []
    last_id = ""
    for _ in range(2):
        async with streamed(port, POSTED, given, last_id=last_id) as subscription:
            await wait_until_live(gateway)
            await post(gateway, given["id"], "text")
            assert await subscription.receive() is not None
            last_id = subscription.last_id
            waits.append(subscription.retry_ms)
        await until(lambda: gateway.state.live.counts.listeners == 0)
    async with streamed(port, "query @live { viewer { subject } }") as live:
        assert await live.receive() is not None
        waits.append(live.retry_ms)
    async with streamed(port, VIEWER) as once:
        assert await once.receive() is not None
        assert once.retry_ms is None

    assert all(wait is not None and 200 <= wait <= 1_500 for wait in waits), waits


async def test_a_query_can_be_sent_by_get(gateway: GatewayClient) -> None:
    response = await gateway.http.get("/graphql", params={"query": VIEWER}, headers=EVENTS)

    assert "event: next" in response.text


async def test_a_mutation_can_be_sent_by_post(gateway: GatewayClient, port: int) -> None:
    answer = await answered_by_stream(port, CREATE, {"input": category_input(slug="a")}, token=gateway.token())

    assert answer["data"]["createCategory"]["category"]["slug"] == "a"


async def test_an_operation_that_cannot_be_run_is_an_event_with_its_errors(port: int) -> None:
    for query, code in (
        ("{", "GRAPHQL_PARSE_FAILED"),
        ("{ x }", "GRAPHQL_VALIDATION_FAILED"),
        ("query ($a: ID!) { node(id: $a) { id } }", "BAD_USER_INPUT"),
    ):
        answer = await answered_by_stream(port, query)

        assert "data" not in answer
        assert [error["extensions"]["code"] for error in answer["errors"]] == [code]


async def test_an_invalid_request_is_refused_with_its_status_and_without_a_stream(gateway: GatewayClient) -> None:
    token = {"authorization": "Bearer x"}
    refused: list[tuple[str, dict[str, Any], int, str]] = [
        ("GET", {"params": {"query": "mutation { __typename }"}}, 405, "METHOD_NOT_ALLOWED"),
        ("PUT", {}, 405, "METHOD_NOT_ALLOWED"),
        ("POST", {"json": {"query": 1}}, 400, "BAD_REQUEST"),
        ("POST", {"content": "x"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        ("POST", {"json": {"query": VIEWER}, "headers": {**EVENTS, **token}}, 401, "UNAUTHENTICATED"),
    ]
    for method, given, status, code in refused:
        response = await gateway.http.request(method, "/graphql", **{"headers": EVENTS, **given})

        assert response.status_code == status
        assert response.json()["errors"][0]["extensions"] == {"code": code}


async def test_a_client_that_accepts_json_and_streams_gets_one_json_answer(gateway: GatewayClient) -> None:
    response = await gateway.http.post("/graphql", json={"query": VIEWER}, headers={"accept": BOTH})

    assert response.headers["content-type"] == "application/graphql-response+json; charset=utf-8"
    assert response.json() == {"data": {"viewer": None}}


async def test_a_client_that_accepts_any_text_accepts_events(gateway: GatewayClient) -> None:
    answers = [
        await gateway.http.post("/graphql", json={"query": VIEWER}, headers={"accept": accept})
        for accept in ("text/*", "text/*, text/html;q=0", "text/*, application/json")
    ]

    types = [answer.headers["content-type"].partition(";")[0] for answer in answers]
    assert types == ["text/event-stream", "text/event-stream", "application/json"]


async def test_a_client_that_accepts_neither_gets_the_supported_types(gateway: GatewayClient) -> None:
    for accept in ("text/html", "text/event-stream;q=0", "text/*, text/event-stream;q=0"):
        response = await gateway.http.post("/graphql", json={"query": VIEWER}, headers={"accept": accept})

        assert response.status_code == 406
        assert "text/event-stream" in response.json()["errors"][0]["message"]


class Held:
    """Holds an operation until the test sets `go_on`."""

    def __init__(self, gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
        self.has_begun = self.has_ended = self.is_write = False
        self.go_on = asyncio.Event()
        self._execute = gateway.state.executor.execute
        monkeypatch.setattr(gateway.state.executor, "execute", self._held)

    async def _held(self, text: str, **more: Any) -> Any:
        self.has_begun = True
        more["progress"].is_write = self.is_write
        try:
            await self.go_on.wait()
            return await self._execute(text, **more)
        finally:
            self.has_ended = True


@pytest.fixture
def held(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> Held:
    return Held(gateway, monkeypatch)


async def test_a_stream_sends_comments_while_it_waits(port: int, held: Held) -> None:
    async with streamed(port, VIEWER) as stream:
        receiving = asyncio.create_task(stream.receive())
        await until(lambda: stream.comments >= 4)
        held.go_on.set()

        assert await receiving == ("next", {"data": {"viewer": None}})


async def test_a_query_is_cancelled_when_its_connection_closes(port: int, held: Held) -> None:
    async with streamed(port, VIEWER):
        await until(lambda: held.has_begun)
        had_ended = held.has_ended

    await until(lambda: held.has_ended)
    assert not had_ended


async def test_a_mutation_finishes_after_its_connection_closes(gateway: GatewayClient, port: int, held: Held) -> None:
    held.is_write = True
    async with streamed(port, CREATE, {"input": category_input(slug="kept")}, token=gateway.token()):
        await until(lambda: held.has_begun)
    await asyncio.sleep(0.2)
    assert not held.has_ended
    held.go_on.set()
    await until(lambda: held.has_ended)

    assert await gateway.db["categories"].count_documents({"slug": "kept", "pending": None}) == 1


async def test_a_fault_shows_only_its_request_id(
    gateway: GatewayClient, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any, **__: Any) -> Any:
        raise RuntimeError("a secret")

    monkeypatch.setattr(gateway.state.executor, "execute", fail)
    async with streamed(port, VIEWER) as stream:
        event: Any = await stream.receive()

        request_id = stream.response.headers["x-request-id"]
        assert event[1]["errors"][0]["extensions"] == {"code": "INTERNAL", "requestId": request_id}
        assert await stream.receive() == ("complete", None)


class Stuck:
    """The server side of a connection whose client stops reading after some parts."""

    def __init__(self, parts: int) -> None:
        self.sent: list[bytes] = []
        self.reads_on = asyncio.Event()
        self._parts = parts
        self._body = [{"type": "http.request", "body": json.dumps({"query": VIEWER}).encode()}]

    async def receive(self) -> Any:
        if self._body:
            return self._body.pop()
        return await asyncio.Future()

    async def send(self, message: Any) -> None:
        if len(self.sent) > self._parts:
            await self.reads_on.wait()
        self.sent.append(message.get("body", b""))


async def test_a_client_that_does_not_read_is_dropped_and_finds_the_reason_when_it_reads_on(
    gateway: GatewayClient,
) -> None:
    client = Stuck(parts=1)
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/graphql",
        "headers": [(b"accept", b"text/event-stream"), (b"content-type", b"application/json")],
    }
    answering = asyncio.create_task(GraphQLEndpoint(gateway.state)(scope, client.receive, client.send))
    await until(lambda: gateway.state.live.counts.unread == 1)
    client.reads_on.set()
    await answering

    last = client.sent[-1].decode()
    assert last.startswith("event: next\ndata: ")
    assert '"code":"TOO_SLOW"' in last
    assert last.endswith("event: complete\ndata: \n\n")
