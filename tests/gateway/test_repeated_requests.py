"""Requests with the bytes of an earlier one: their answers are those of parsed requests, and never older."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from weakref import ref

import pytest

from portico.gateway.http.repeated import RepeatingConnection
from portico.gateway.mongo.links import Link
from portico.gateway.settings import Settings
from portico.resolvers.writes.waiting_once import WAITING, Notes, Waiting
from tests.support.harness import GatewayClient, category_input, running
from tests.support.kept_answers import bound_looks, cache_of, caching, counts_of, follow_changes, hold_pings
from tests.support.repeating import Client, connected
from tests.support.sockets import listening, until

TEXT = '{ category(slug: "jazz") { id name description } }'
BODY = json.dumps({"query": TEXT}).encode()
IN_URL = "/graphql?query=%7B%20category(slug:%20%22jazz%22)%20%7B%20id%20name%20description%20%7D%20%7D"
EACH_TIME = re.compile(rb"(x-request-id|date): [^\r]*\r\n")
ANOTHER = b'{"query": "{ __typename }"}'

pytestmark = pytest.mark.usefixtures("patient")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return caching(settings, compress_bytes=100)


@pytest.fixture(autouse=True)
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """What has been parsed."""
    seen: list[bytes] = []
    parse = RepeatingConnection._parse

    def note(connection: RepeatingConnection, data: bytes) -> None:
        seen.append(data)
        parse(connection, data)

    monkeypatch.setattr(RepeatingConnection, "_parse", note)
    return seen


@pytest.fixture
async def jazz(gateway: GatewayClient) -> str:
    given = category_input(slug="jazz", name="Jazz", description="Blue. " * 50)
    made = await gateway.result("createCategory", given)
    await follow_changes(gateway)
    return str(made["category"]["id"])


@pytest.fixture
async def port(gateway: GatewayClient, jazz: str) -> AsyncIterator[int]:
    del jazz
    async with listening(gateway) as port:
        yield port


@pytest.fixture
async def client(port: int) -> AsyncIterator[Client]:
    async with connected(port) as client:
        yield client


def post(gateway: GatewayClient, *more: str, body: bytes = BODY, version: str = "1.1") -> bytes:
    return request(f"POST /graphql HTTP/{version}", gateway, f"Content-Length: {len(body)}", *more) + body


def get(gateway: GatewayClient, *more: str) -> bytes:
    return request(f"GET {IN_URL} HTTP/1.1", gateway, *more)


def request(line: str, gateway: GatewayClient, *more: str) -> bytes:
    headers = ("Host: a", "Content-Type: application/json", f"Authorization: Bearer {gateway.token()}", *more)
    return "\r\n".join((line, *headers, "", "")).encode()


def tag_in(head: bytes) -> str:
    found = re.search(rb"etag: ([^\r]+)", head)
    assert found is not None
    return found[1].decode()


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "br, gzip;q=0.5"])
async def test_the_response_is_that_of_a_parsed_request(
    gateway: GatewayClient, client: Client, parsed: list[bytes], encoding: str
) -> None:
    more = [f"Accept-Encoding: {encoding}"] if encoding else []
    tag = tag_in((await client.ask(get(gateway, *more)))[0])
    for sent in (post(gateway, *more), get(gateway, *more), get(gateway, *more, f"If-None-Match: {tag}")):
        # A header without a meaning: these bytes are parsed.
        first = await client.ask(sent.replace(b"Host: a", b"Host: b"))
        repeated = await client.repeat(sent, parsed)
        ids = {re.search(rb"x-request-id: (\w{32})\r", head)[1] for head in (first[0], repeated[0])}  # type: ignore[index]
        assert len(ids) == 2
        assert EACH_TIME.sub(b"", repeated[0]) == EACH_TIME.sub(b"", first[0])
        assert repeated[1] == first[1]
        assert (b"content-encoding" in repeated[0]) == (encoding not in ("", "identity") and repeated[1] != b"")
    assert b"304 Not Modified" in repeated[0]


async def test_the_answer_shows_each_write_of_any_gateway(
    gateway: GatewayClient, jazz: str, client: Client, settings: Settings, parsed: list[bytes]
) -> None:
    sent = post(gateway)
    async with running(replace(settings, cache_bytes=0)) as other:
        for number in range(10):
            await client.repeat(sent, parsed)
            await (other if number % 2 else gateway).result("renameCategory", {"id": jazz, "name": f"Jazz {number}"})
            assert await client.name(sent) == f"Jazz {number}"


async def test_other_connections_know_the_request_and_it_counts_as_a_hit(
    gateway: GatewayClient, port: int, client: Client, parsed: list[bytes]
) -> None:
    sent = post(gateway)
    answer = await client.repeat(sent, parsed)
    hits = counts_of(gateway).hits
    async with connected(port) as other:
        for _ in range(3):
            assert (await other.ask(sent))[1] == answer[1]
    assert not parsed
    assert counts_of(gateway).hits == hits + 3


async def test_requests_are_answered_in_order_however_they_arrive(
    gateway: GatewayClient, client: Client, parsed: list[bytes]
) -> None:
    known, other = post(gateway), post(gateway, body=ANOTHER)
    _, answer = await client.repeat(known, parsed)
    for packets in (
        [known + known],
        [known, other],
        [other, known, known],
        [known[:50], known[50:]],
        [known[:-3], known[-3:] + known, other],
        [known + other[:30], other[30:]],
        [other + known[:40], known[40:]],
    ):
        for packet in packets:
            client.writer.write(packet)
            await asyncio.sleep(0.002)
        for sent in re.findall(re.escape(known) + b"|" + re.escape(other), b"".join(packets)):
            body = (await client.answer())[1]
            assert (body == answer) == (sent == known)
    # Two that are not awaited, in packets of their own.
    client.writer.write(known)
    await asyncio.sleep(0)
    client.writer.write(known)
    assert [(await client.answer())[1] for _ in range(2)] == [answer, answer]


@pytest.mark.parametrize(
    "more",
    [
        ["X-Request-Id: mine"],
        ["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"],
        ["Connection: close"],
        ["X-Long: " + "x" * 8_192],
    ],
)
async def test_a_request_that_does_not_come_again_is_not_remembered(
    gateway: GatewayClient, port: int, more: list[str]
) -> None:
    sent = post(gateway, *more)
    for _ in range(6):
        async with connected(port) as client:
            await client.ask(sent)
    assert counts_of(gateway).hits > 2
    assert len(cache_of(gateway).repeats) == 0


async def test_a_request_of_http_1_0_is_not_remembered(gateway: GatewayClient, port: int) -> None:
    for _ in range(6):
        async with connected(port) as client:
            await client.ask(post(gateway, version="1.0"))
    assert counts_of(gateway).hits > 2
    assert len(cache_of(gateway).repeats) == 0


async def test_middleware_of_a_domain_sees_each_request(gateway: GatewayClient, client: Client) -> None:
    app: Any = gateway.app
    app._has_own_middleware = app._has_middleware = True
    for _ in range(6):
        await client.ask(post(gateway))
    assert counts_of(gateway).hits > 2
    assert len(cache_of(gateway).repeats) == 0


async def test_an_allowance_is_charged_for_each_request(settings: Settings) -> None:
    async with running(replace(settings, caller_rate=1_000_000)) as gateway, listening(gateway) as port:
        await gateway.result("createCategory", category_input(slug="jazz", name="Jazz"))
        await follow_changes(gateway)
        async with connected(port) as client:
            heads = [(await client.ask(post(gateway)))[0] for _ in range(8)]
        assert all(b"ratelimit: " in head for head in heads)
        assert counts_of(gateway).hits
        assert len(cache_of(gateway).repeats) == 0


async def test_an_expired_token_is_refused(
    gateway: GatewayClient, client: Client, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = post(gateway)
    await client.repeat(sent, parsed)
    later = time.time() + 10 * 365 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    # The library that checks tokens reads the clock in another way.
    monkeypatch.setattr(gateway.state.authenticator, "_good", type(gateway.state.authenticator._good)(1))
    await client.ask(sent)
    assert parsed == [sent]


async def test_another_token_gets_an_answer_of_its_own(
    gateway: GatewayClient, client: Client, parsed: list[bytes]
) -> None:
    body = b'{"query": "{ viewer { subject } }"}'
    for caller in (gateway.as_caller("mara"), gateway.as_caller("ivan")):
        answer = (await client.repeat(post(caller, body=body), parsed))[1]
        assert json.loads(answer)["data"]["viewer"]["subject"] == caller.subject


@pytest.fixture
def stalled(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Link, bytes]]:
    """Pings that do not reach the database, as if it stalled."""
    return hold_pings(monkeypatch)


async def settled(gateway: GatewayClient, client: Client, sent: bytes, parsed: list[bytes]) -> None:
    """Repeats the request until a ping is enough for it."""
    await client.repeat(sent, parsed)
    while not cache_of(gateway).fence._is_quiet:
        await client.ask(sent)
    parsed.clear()


async def test_while_a_look_takes_too_long_the_query_runs(
    gateway: GatewayClient, client: Client, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch, request: Any
) -> None:
    sent = post(gateway)
    await settled(gateway, client, sent, parsed)
    request.getfixturevalue("stalled")
    hits = counts_of(gateway).hits
    bound_looks(gateway, monkeypatch)
    for _ in range(2):
        assert await client.name(sent) == "Jazz"
    assert parsed == [sent, sent]
    assert (counts_of(gateway).hits, counts_of(gateway).late) == (hits, 1)


async def test_if_the_connection_to_the_database_is_lost_the_query_runs(
    gateway: GatewayClient, client: Client, parsed: list[bytes], request: Any
) -> None:
    sent = post(gateway)
    await settled(gateway, client, sent, parsed)
    held = request.getfixturevalue("stalled")
    client.writer.write(sent)
    await until(lambda: bool(held))
    held[0][0].close()
    assert json.loads((await client.answer())[1])["data"]["category"]["name"] == "Jazz"
    assert counts_of(gateway).losses == 1


async def test_what_arrives_during_a_look_is_answered_after_it(
    gateway: GatewayClient, client: Client, parsed: list[bytes], request: Any
) -> None:
    sent, other = post(gateway), post(gateway, body=ANOTHER)
    await settled(gateway, client, sent, parsed)
    held = request.getfixturevalue("stalled")
    client.writer.write(sent)
    await until(lambda: bool(held))
    client.writer.write(other)
    await until(lambda: parsed == [sent, other])
    held[0][0].close()
    assert json.loads((await client.answer())[1])["data"]["category"]["name"] == "Jazz"
    assert json.loads((await client.answer())[1]) == {"data": {"__typename": "Query"}}


async def test_a_client_that_leaves_during_a_look_does_not_disturb_the_others(
    gateway: GatewayClient, port: int, client: Client, parsed: list[bytes], request: Any
) -> None:
    sent = post(gateway)
    await settled(gateway, client, sent, parsed)
    held = request.getfixturevalue("stalled")
    async with connected(port) as other:
        other.writer.write(sent)
        await until(lambda: bool(held))
    client.writer.write(sent)
    await asyncio.sleep(0.05)
    held[0][0].close()
    assert json.loads((await client.answer())[1])["data"]["category"]["name"] == "Jazz"
    assert parsed == [sent]


async def test_a_gateway_that_stops_answers_a_request_during_its_look(
    gateway: GatewayClient, jazz: str, parsed: list[bytes], request: Any
) -> None:
    del jazz
    sent = post(gateway)
    server = contextlib.AsyncExitStack()
    async with connected(await server.enter_async_context(listening(gateway))) as client:
        await settled(gateway, client, sent, parsed)
        held = request.getfixturevalue("stalled")
        client.writer.write(sent)
        await until(lambda: bool(held))
        stopping = asyncio.create_task(server.aclose())
        await until(lambda: parsed == [sent])
        held[0][0].close()
        assert json.loads((await client.answer())[1])["data"]["category"]["name"] == "Jazz"
        await stopping


async def test_a_connection_is_closed_when_neither_parsed_nor_repeated_requests_come(
    gateway: GatewayClient, port: int, client: Client, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = post(gateway)
    await client.repeat(sent, parsed)
    made = RepeatingConnection.connection_made

    def impatient(connection: RepeatingConnection, transport: Any) -> None:
        made(connection, transport)
        connection.timeout_keep_alive = 1

    monkeypatch.setattr(RepeatingConnection, "connection_made", impatient)
    async with connected(port) as other:
        begun = time.monotonic()
        while time.monotonic() < begun + 1.5:
            await other.ask(sent)
            await asyncio.sleep(0.1)
        assert not parsed
        async with asyncio.timeout(20):
            assert await other.reader.read() == b""


async def test_memory_is_bounded_and_dropped_answers_take_none(
    gateway: GatewayClient, client: Client, parsed: list[bytes]
) -> None:
    cache = cache_of(gateway)
    await client.repeat(post(gateway), parsed)
    for number in range(200):
        await client.ask(post(gateway, f"X-Number: {number}"))
    assert (1 < len(cache.repeats) < 60, cache.repeats.size <= 1_000_000 // 16) == (True, True)
    kept = [ref(answer) for answer in cache._kept]
    cache._forget_all()
    assert [one for one in kept if one() is not None] == []
    assert await client.name(post(gateway)) == "Jazz"


async def test_a_request_is_no_part_of_the_decision_of_another_call_that_notices_a_lost_connection(
    gateway: GatewayClient, client: Client, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, seen = post(gateway), list[Waiting | None]()
    await settled(gateway, client, sent, parsed)
    parse = RepeatingConnection._parse

    def note(connection: RepeatingConnection, data: bytes) -> None:
        seen.append(WAITING.get())
        parse(connection, data)

    monkeypatch.setattr(RepeatingConnection, "_parse", note)
    with monkeypatch.context() as held:
        pings = hold_pings(held)
        asking = asyncio.create_task(client.name(sent))
        await until(lambda: bool(pings))

    async def lose() -> None:
        pings[0][0].close()

    with Notes() as notes:
        await notes.noting(lose())

    assert await asking == "Jazz"
    assert seen == [None]
