"""Subscriptions continue after the last event that their client has got, at any gateway and over both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from bson import Timestamp
from pymongo.errors import AutoReconnect

from portico.gateway.settings import Settings
from portico.resolvers import missed_changes
from portico.resolvers.changes import ChangesLost, Event, events_of
from portico.resolvers.documents import Database
from portico.resolvers.missed_changes import missed_events
from portico.resolvers.notifications.notifications import received_by
from tests.comments.support.discussions import ON_EACH, delete, open_on_product, post
from tests.gateway.support.resumed import SECONDS, cut_after, stream_of
from tests.gateway.support.subscribers import acknowledged, follow, hide_entries, open_on_entry
from tests.notifications.support.news import notify
from tests.support.harness import GatewayClient, running
from tests.support.pausing import failing
from tests.support.sockets import EVENTS, POSTED, Socket, listening, opened, subscribe, wait_until_live


@ON_EACH
async def test_a_stream_continues_after_its_last_event(gateway: GatewayClient, port: int, storage: str) -> None:
    discussion = await open_on_product(gateway, storage)
    last_id = await cut_after(gateway, port, discussion, "0", "1")
    for text in ("2", "3", "4"):
        await post(gateway, discussion, text)

    async with stream_of(port, discussion, last_id) as stream:
        assert await stream.texts(3) == ["2", "3", "4"]
        await post(gateway, discussion, "5")

        assert await stream.texts(1) == ["5"]


async def test_a_stream_that_was_cut_before_its_first_event_misses_none(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    await post(gateway, discussion, "before")
    last_id = await cut_after(gateway, port, discussion)
    await post(gateway, discussion, "first")

    async with stream_of(port, discussion, last_id) as stream:
        assert await stream.texts(1) == ["first"]


async def test_another_gateway_continues_a_stream(settings: Settings, gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    last_id = await cut_after(gateway, port, discussion, "0")
    await post(gateway, discussion, "1")

    async with (
        running(settings) as other,
        listening(other) as other_port,
        stream_of(other_port, discussion, last_id) as stream,
    ):
        assert await stream.texts(1) == ["1"]


async def test_no_comment_is_lost_or_doubled_by_random_cuts(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    count, chance = 60, random.Random(7)

    async def post_all() -> None:
        for number in range(count):
            await post(gateway, discussion, str(number))

    async with stream_of(port, discussion) as stream:
        await stream.start()
        last_id = stream.last_id
    posting = asyncio.create_task(post_all())
    received: list[str] = []
    cuts = 0
    while len(received) < count:
        async with stream_of(port, discussion, last_id) as stream:
            for _ in range(min(chance.randrange(5), count - len(received))):
                received += await stream.texts(1)
                last_id = stream.last_id
        cuts += 1

    await posting
    assert received == [str(number) for number in range(count)]
    assert cuts > count / 5


async def test_more_missed_events_than_may_wait_come_page_by_page(settings: Settings) -> None:
    async with running(replace(settings, max_waiting_events=3)) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, "DOCUMENTS")
        last_id = await cut_after(gateway, port, discussion, "0")
        for number in range(1, 11):
            await post(gateway, discussion, str(number))

        async with stream_of(port, discussion, last_id) as stream:
            assert await stream.texts(10) == [str(number) for number in range(1, 11)]


async def test_a_page_reads_no_more_changes_than_it_has_events(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays, read = gateway.state.live.replays, 0
    after = await replays.now()
    await notify(gateway.db, "ann", *(f"m{number}" for number in range(30)))

    def counted(*arguments: Any) -> list[Event]:
        nonlocal read
        read += 1
        return events_of(*arguments)

    monkeypatch.setattr(missed_changes, "events_of", counted)
    page = await replays.read(frozenset({received_by("ann")}), after, 3)

    assert (len(page.events), page.until) == (3, None)
    assert read < 10


async def test_a_client_that_was_away_for_long_delays_no_other(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    replays, may_end = gateway.state.live.replays, asyncio.Event()
    after, topics = await replays.now(), frozenset({received_by("ann")})
    long_ago = replace(after, time=Timestamp(after.time.time - 300, 1))
    await notify(gateway.db, "ann", "berta")

    async def slow(db: Database, sources: Any, since: Timestamp, until: Timestamp, **options: Any) -> Any:
        if since == long_ago.time:
            await may_end.wait()
        async for event in missed_events(db, sources, max(since, after.time), until, **options):
            yield event

    monkeypatch.setattr(missed_changes, "missed_events", slow)
    first = asyncio.create_task(replays.read(topics, long_ago, 10))
    together = asyncio.create_task(replays.read(topics, after, 10))
    pages = [await asyncio.wait_for(together, SECONDS)]
    pages += [await asyncio.wait_for(replays.read(topics, after, 10), SECONDS) for _ in range(3)]
    assert [len(page.events) for page in pages] == [1] * 4
    assert not first.done()
    may_end.set()
    assert len((await first).events) == 1


async def test_those_who_share_a_change_stream_get_only_what_each_has_missed(gateway: GatewayClient) -> None:
    replays, topics = gateway.state.live.replays, frozenset({received_by("ann")})
    places = []
    for sender in ("m0", "m1", "m2"):
        places.append(await replays.now())
        await notify(gateway.db, "ann", sender)
    places.append(await replays.now())

    pages = await asyncio.gather(*(replays.read(topics, place, 10) for place in places))

    assert [len(page.events) for page in pages] == [3, 2, 1, 0]


async def test_missed_events_are_shown_with_the_permissions_of_now(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    last_id = await cut_after(gateway, port, discussion, "0")
    removed = await post(gateway, discussion, "removed")
    await delete(gateway, removed)
    await post(gateway, discussion, "kept")

    async with stream_of(port, discussion, last_id) as stream:
        assert await stream.texts(1) == ["kept"]


async def test_a_subject_that_was_hidden_meanwhile_ends_the_stream(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_entry(gateway)
    last_id = await cut_after(gateway, port, discussion, "0")
    await hide_entries(gateway)

    async with stream_of(port, discussion, last_id) as stream:
        assert (await stream.receive())["errors"][0]["extensions"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize("way", ["text", "altered", "another subscription", "another caller"])
async def test_an_id_of_something_else_is_refused(gateway: GatewayClient, port: int, way: str) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    other = await open_on_product(gateway, "DOCUMENTS")
    last_id = await cut_after(gateway, port, discussion, "0", token=gateway.token("ann", []))
    given = {"text": "x", "altered": last_id[:-1] + ("0" if last_id[-1] != "0" else "1")}.get(way, last_id)
    token = gateway.token("bob" if way == "another caller" else "ann", [])

    async with stream_of(port, other if way == "another subscription" else discussion, given, token=token) as stream:
        answer = await stream.receive()

    assert [error["extensions"]["code"] for error in answer["errors"]] == ["BAD_USER_INPUT"]
    assert "id of the last event" in answer["errors"][0]["message"]


async def test_events_that_are_too_old_are_lost_and_the_client_is_told(settings: Settings) -> None:
    async with running(replace(settings, resume_seconds=1.0)) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, "DOCUMENTS")
        last_id = await cut_after(gateway, port, discussion, "0")
        await asyncio.sleep(2.5)
        await post(gateway, discussion, "1")

        async with stream_of(port, discussion, last_id) as stream:
            answer = await stream.receive()

        assert [error["extensions"]["code"] for error in answer["errors"]] == ["EVENTS_LOST"]


async def test_an_oplog_that_does_not_reach_back_ends_the_stream(
    gateway: GatewayClient, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    last_id = await cut_after(gateway, port, discussion, "0")
    monkeypatch.setattr(gateway.state.live.replays, "_hand_out", failing(ChangesLost))
    async with stream_of(port, discussion, last_id) as stream:
        answer = await stream.receive()

    assert [error["extensions"]["code"] for error in answer["errors"]] == ["EVENTS_LOST"]


async def test_queries_and_mutations_have_no_ids(gateway: GatewayClient) -> None:
    answer = await gateway.http.post(
        "/graphql", json={"query": "{ viewer { subject } }"}, headers={**EVENTS, "last-event-id": "x"}
    )

    assert answer.text == ':\n\nevent: next\ndata: {"data":{"viewer":null}}\n\nevent: complete\ndata: \n\n'


# WebSockets


async def init(socket: Socket) -> str:
    """Asks for ids. Returns the id of the moment."""
    await socket.send({"type": "connection_init", "payload": {"eventIds": True}})
    acknowledged = await socket.receive()
    assert acknowledged["type"] == "connection_ack"
    return str(acknowledged["payload"]["eventId"])


async def test_during_an_outage_clients_are_told_to_come_again(
    gateway: GatewayClient, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gateway.state.live.replays, "now", failing(AutoReconnect("connection closed")))
    async with opened(port) as socket:
        await socket.send({"type": "connection_init", "payload": {"eventIds": True}})
        # Clients take the code of a fault for final.
        assert (await socket.closed())[0] == 1013
    headers = {"authorization": f"Bearer {gateway.token()}"}
    answer = await gateway.http.post("/graphql/ticket", headers=headers)
    assert answer.status_code == 503
    assert answer.json()["errors"][0]["extensions"]["code"] == "UNAVAILABLE"


@contextlib.asynccontextmanager
async def subscribed(port: int, discussion: str, last_id: str | None = None) -> AsyncIterator[Socket]:
    """Opens a socket that asks for ids, and subscribes."""
    more: dict[str, Any] = {} if last_id is None else {"extensions": {"lastEventId": last_id}}
    async with opened(port) as socket:
        await init(socket)
        await socket.send(subscribe("1", POSTED, variables={"id": discussion}, **more))
        yield socket


async def test_a_socket_continues_after_its_last_event(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    async with subscribed(port, discussion) as socket:
        await wait_until_live(gateway)
        await post(gateway, discussion, "0")
        first = await socket.receive()
    await post(gateway, discussion, "1")

    async with subscribed(port, discussion, first["payload"]["extensions"]["eventId"]) as socket:
        second = await socket.receive()

    assert [one["payload"]["data"]["commentPosted"]["text"] for one in (first, second)] == ["0", "1"]


async def test_the_acknowledgement_has_an_id_for_a_socket_that_is_cut_before_its_first_event(
    gateway: GatewayClient, port: int
) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    await post(gateway, discussion, "before")
    async with opened(port) as socket:
        start = await init(socket)
    await post(gateway, discussion, "0")

    async with subscribed(port, discussion, start) as socket:
        assert (await socket.receive())["payload"]["data"] == {"commentPosted": {"text": "0"}}


async def test_a_socket_that_does_not_ask_for_ids_gets_none(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    async with acknowledged(port) as socket:
        await follow(gateway, socket, discussion)
        await post(gateway, discussion, "0")

        assert (await socket.receive())["payload"] == {"data": {"commentPosted": {"text": "0"}}}


async def test_an_id_that_is_none_ends_the_subscription_and_not_the_socket(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    async with subscribed(port, discussion, "x") as socket:
        answer = await socket.receive()
        assert answer["type"] == "error"
        assert answer["payload"][0]["extensions"]["code"] == "BAD_USER_INPUT"

        await socket.subscribe("2", "{ viewer { subject } }")
        assert (await socket.receive())["payload"] == {"data": {"viewer": None}}
