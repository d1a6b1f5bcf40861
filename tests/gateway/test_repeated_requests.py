"""Requests with the bytes of an earlier one: their answers are those of parsed requests, and never older."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

import pytest

from portico.gateway.http.repeated import RepeatingConnection
from portico.gateway.mongo.links import Link
from portico.gateway.settings import Settings
from portico.resolvers.writes.waiting_once import WAITING, Notes, Waiting
from tests.support.harness import GatewayClient, category_input, running
from tests.support.kept_answers import bound_looks, cache_of, counts_of, follow_changes, hold_pings, with_cache
from tests.support.repeating import Client, connected
from tests.support.sockets import listening, until

TEXT = '{ category(slug: "jazz") { id name description } }'
BODY = json.dumps({"query": TEXT}).encode()
IN_URL = "/graphql?query=%7B%20category(slug:%20%22jazz%22)%20%7B%20id%20name%20description%20%7D%20%7D"
EACH_TIME = re.compile(rb"(x-request-id|date): [^\r]*\r\n")
ANOTHER = b'{"query": "{ __typename }"}'

pytestmark = pytest.mark.usefixtures("patient")
settings = with_cache(compress_bytes=100)


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


@dataclass
class Asking:
    """A client whose requests are repeated, and what has been parsed."""

    gateway: GatewayClient
    client: Client
    parsed: list[bytes]
    monkeypatch: pytest.MonkeyPatch

    async def repeat(self, sent: bytes) -> tuple[bytes, bytes]:
        """Asks until the request is not parsed. Returns the response."""
        return await self.client.repeat(sent, self.parsed)

    async def settle(self, sent: bytes) -> None:
        """Repeats the request until a ping is enough for it."""
        await self.repeat(sent)
        while not cache_of(self.gateway).fence._is_quiet:
            await self.client.ask(sent)
        self.parsed.clear()

    async def look(self, sent: bytes, client: Client | None = None) -> Link:
        """Sends a request for which one ping is under way, as if the database stalled. Returns its connection."""
        held = hold_pings(self.monkeypatch)
        (client or self.client).writer.write(sent)
        await until(lambda: bool(held))
        return held[0][0]

    async def assert_answered(self) -> None:
        """Asserts that the answer has the name of the category."""
        assert json.loads((await self.client.answer())[1])["data"]["category"]["name"] == "Jazz"


@pytest.fixture
def asking(gateway: GatewayClient, client: Client, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch) -> Asking:
    return Asking(gateway, client, parsed, monkeypatch)


def post(gateway: GatewayClient, *more: str, body: bytes = BODY, version: str = "1.1") -> bytes:
    return request(f"POST /graphql HTTP/{version}", gateway, f"Content-Length: {len(body)}", *more) + body


def get(gateway: GatewayClient, *more: str) -> bytes:
    return request(f"GET {IN_URL} HTTP/1.1", gateway, *more)


def request(line: str, gateway: GatewayClient, *more: str) -> bytes:
    headers = ("Host: a", "Content-Type: application/json", f"Authorization: Bearer {gateway.token()}", *more)
    return "\r\n".join((line, *headers, "", "")).encode()


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "br, gzip;q=0.5"])
async def test_the_response_is_that_of_a_parsed_request(asking: Asking, encoding: str) -> None:
    more = [f"Accept-Encoding: {encoding}"] if encoding else []
    gotten = get(asking.gateway, *more)
    [tag] = re.findall(rb"etag: ([^\r]+)", (await asking.client.ask(gotten))[0])
    for sent in (post(asking.gateway, *more), gotten, get(asking.gateway, *more, f"If-None-Match: {tag.decode()}")):
        # A header without a meaning: these bytes are parsed.
        first = await asking.client.ask(sent.replace(b"Host: a", b"Host: b"))
        repeated = await asking.repeat(sent)
        ids = {re.search(rb"x-request-id: (\w{32})\r", head)[1] for head in (first[0], repeated[0])}  # type: ignore[index]
        assert len(ids) == 2
        assert EACH_TIME.sub(b"", repeated[0]) == EACH_TIME.sub(b"", first[0])
        assert repeated[1] == first[1]
        assert (b"content-encoding" in repeated[0]) == (encoding not in ("", "identity") and repeated[1] != b"")
    assert b"304 Not Modified" in repeated[0]


async def test_the_answer_shows_each_write_of_any_gateway(asking: Asking, jazz: str, settings: Settings) -> None:
    sent = post(asking.gateway)
    async with running(replace(settings, cache_bytes=0)) as other:
        for number in range(10):
            await asking.repeat(sent)
            await (other if number % 2 else asking.gateway).result(
                "renameCategory", {"id": jazz, "name": f"Jazz {number}"}
            )
            assert await asking.client.name(sent) == f"Jazz {number}"


async def test_other_connections_know_the_request_and_it_counts_as_a_hit(asking: Asking, port: int) -> None:
    sent = post(asking.gateway)
    answer = await asking.repeat(sent)
    hits = counts_of(asking.gateway).hits
    async with connected(port) as other:
        for _ in range(3):
            assert (await other.ask(sent))[1] == answer[1]
    assert not asking.parsed
    assert counts_of(asking.gateway).hits == hits + 3


async def test_requests_are_answered_in_order_however_they_arrive(asking: Asking) -> None:
    known, other = post(asking.gateway), post(asking.gateway, body=ANOTHER)
    _, answer = await asking.repeat(known)
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
            asking.client.writer.write(packet)
            await asyncio.sleep(0.002)
        for sent in re.findall(re.escape(known) + b"|" + re.escape(other), b"".join(packets)):
            body = (await asking.client.answer())[1]
            assert (body == answer) == (sent == known)
    # Two that are not awaited, in packets of their own.
    asking.client.writer.write(known)
    await asyncio.sleep(0)
    asking.client.writer.write(known)
    assert [(await asking.client.answer())[1] for _ in range(2)] == [answer, answer]


@pytest.mark.parametrize(
    ("more", "version"),
    [
        (["X-Request-Id: mine"], "1.1"),
        (["traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"], "1.1"),
        (["Connection: close"], "1.1"),
        (["X-Long: " + "x" * 8_192], "1.1"),
        ([], "1.0"),
    ],
    ids=["its own id", "a trace", "the last one of its connection", "long", "HTTP 1.0"],
)
async def test_a_request_that_does_not_come_again_is_not_remembered(
    gateway: GatewayClient, port: int, more: list[str], version: str
) -> None:
    for _ in range(6):
        async with connected(port) as client:
            await client.ask(post(gateway, *more, version=version))
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


async def test_an_expired_token_is_refused(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = post(asking.gateway)
    await asking.repeat(sent)
    later = time.time() + 10 * 365 * 86_400
    monkeypatch.setattr(time, "time", lambda: later)
    # The library that checks tokens reads the clock in another way.
    monkeypatch.setattr(asking.gateway.state.authenticator, "_good", type(asking.gateway.state.authenticator._good)(1))
    await asking.client.ask(sent)
    assert asking.parsed == [sent]


async def test_another_token_gets_an_answer_of_its_own(asking: Asking) -> None:
    body = b'{"query": "{ viewer { subject } }"}'
    for caller in (asking.gateway.as_caller("mara"), asking.gateway.as_caller("ivan")):
        answer = (await asking.repeat(post(caller, body=body)))[1]
        assert json.loads(answer)["data"]["viewer"]["subject"] == caller.subject


async def test_while_a_look_takes_too_long_the_query_runs(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    sent, counts = post(asking.gateway), counts_of(asking.gateway)
    await asking.settle(sent)
    hold_pings(monkeypatch)
    hits = counts.hits
    bound_looks(asking.gateway, monkeypatch)
    for _ in range(2):
        assert await asking.client.name(sent) == "Jazz"
    assert asking.parsed == [sent, sent]
    assert (counts.hits, counts.late) == (hits, 1)


async def test_if_the_connection_to_the_database_is_lost_the_query_runs(asking: Asking) -> None:
    sent = post(asking.gateway)
    await asking.settle(sent)
    (await asking.look(sent)).close()
    await asking.assert_answered()
    assert counts_of(asking.gateway).losses == 1


async def test_what_arrives_during_a_look_is_answered_after_it(asking: Asking) -> None:
    sent, other = post(asking.gateway), post(asking.gateway, body=ANOTHER)
    await asking.settle(sent)
    link = await asking.look(sent)
    asking.client.writer.write(other)
    await until(lambda: asking.parsed == [sent, other])
    link.close()
    await asking.assert_answered()
    assert json.loads((await asking.client.answer())[1]) == {"data": {"__typename": "Query"}}


async def test_a_client_that_leaves_during_a_look_does_not_disturb_the_others(asking: Asking, port: int) -> None:
    sent = post(asking.gateway)
    await asking.settle(sent)
    async with connected(port) as other:
        link = await asking.look(sent, other)
    asking.client.writer.write(sent)
    await asyncio.sleep(0.05)
    link.close()
    await asking.assert_answered()
    assert asking.parsed == [sent]


@pytest.mark.usefixtures("jazz")
async def test_a_gateway_that_stops_answers_a_request_during_its_look(
    gateway: GatewayClient, parsed: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = post(gateway)
    server = contextlib.AsyncExitStack()
    async with connected(await server.enter_async_context(listening(gateway))) as client:
        asking = Asking(gateway, client, parsed, monkeypatch)
        await asking.settle(sent)
        link = await asking.look(sent)
        stopping = asyncio.create_task(server.aclose())
        await until(lambda: parsed == [sent])
        link.close()
        await asking.assert_answered()
        await stopping


async def test_a_connection_is_closed_when_neither_parsed_nor_repeated_requests_come(
    asking: Asking, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = post(asking.gateway)
    await asking.repeat(sent)
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
        assert not asking.parsed
        async with asyncio.timeout(20):
            assert await other.reader.read() == b""


async def test_memory_is_bounded_and_dropped_answers_take_none(asking: Asking) -> None:
    cache = cache_of(asking.gateway)
    await asking.repeat(post(asking.gateway))
    for number in range(200):
        await asking.client.ask(post(asking.gateway, f"X-Number: {number}"))
    assert (1 < len(cache.repeats) < 60, cache.repeats.size <= 1_000_000 // 16) == (True, True)
    kept = [ref(answer) for answer in cache._kept]
    cache._forget_all()
    assert [one for one in kept if one() is not None] == []
    assert await asking.client.name(post(asking.gateway)) == "Jazz"


async def test_a_request_is_no_part_of_the_decision_of_another_call_that_notices_a_lost_connection(
    asking: Asking, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent, seen = post(asking.gateway), list[Waiting | None]()
    await asking.settle(sent)
    parse = RepeatingConnection._parse

    def note(connection: RepeatingConnection, data: bytes) -> None:
        seen.append(WAITING.get())
        parse(connection, data)

    monkeypatch.setattr(RepeatingConnection, "_parse", note)
    with monkeypatch.context() as held:
        pings = hold_pings(held)
        answer = asyncio.create_task(asking.client.name(sent))
        await until(lambda: bool(pings))

    async def lose() -> None:
        pings[0][0].close()

    with Notes() as notes:
        await notes.noting(lose())

    assert await answer == "Jazz"
    assert seen == [None]
