"""Subscriptions continue after the last event that their client has got, at any gateway and over both protocols."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import orjson
import pytest
from bson import Timestamp
from pymongo.errors import AutoReconnect

from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.operations.execution import Progress
from portico.gateway.settings import Settings
from portico.resolvers import missed_changes
from portico.resolvers.changes import ChangesLost, Event, events_of
from portico.resolvers.documents import Database
from portico.resolvers.missed_changes import missed_events
from portico.resolvers.notifications.notifications import received_by
from portico.schema.context import derived
from tests.comments.support.discussions import ON_EACH, delete, open_on_product
from tests.gateway.support.discussed import Discussed, discussed, served_talk
from tests.gateway.support.resumed import SECONDS, stream_of
from tests.gateway.support.subscribers import acknowledged, follow, hide_entries, open_on_entry
from tests.notifications.support.news import notify
from tests.support.harness import GatewayClient, running
from tests.support.pausing import failing
from tests.support.sockets import EVENTS, POSTED, Socket, listening, opened, subscribe, until, wait_until_live

talk = served_talk


@ON_EACH
async def test_a_stream_continues_after_its_last_event(gateway: GatewayClient, port: int, storage: str) -> None:
    talk = Discussed(gateway, port, await open_on_product(gateway, storage))
    last_id = await talk.cut_after("0", "1")
    await talk.post("2", "3", "4")

    async with talk.resumed(last_id) as stream:
        assert await stream.texts(3) == ["2", "3", "4"]
        await talk.post("5")

        assert await stream.texts(1) == ["5"]


async def test_a_stream_that_was_cut_before_its_first_event_misses_none(talk: Discussed) -> None:
    await talk.post("before")
    last_id = await talk.cut_after()
    await talk.post("first")

    async with talk.resumed(last_id) as stream:
        assert await stream.texts(1) == ["first"]


async def test_a_client_that_hides_the_ids_of_a_stream_gets_them_in_its_answers(talk: Discussed) -> None:
    async with talk.streamed(extensions={"eventIds": True}) as stream:
        await wait_until_live(talk.gateway)
        await talk.post("0")
        received = await stream.receive()
    assert received == ("next", {"data": {"commentPosted": {"text": "0"}}, "extensions": {"eventId": stream.last_id}})
    await talk.post("1")

    async with talk.streamed(extensions={"lastEventId": stream.last_id}) as stream:
        assert await stream.receive() == ("next", {"data": {"commentPosted": {"text": "1"}}})


async def test_an_operation_of_a_socket_can_ask_for_the_ids_itself(talk: Discussed) -> None:
    async with acknowledged(talk.port) as socket:
        await socket.send(subscribe(query=POSTED, variables={"id": talk.id}, extensions={"eventIds": True}))
        await wait_until_live(talk.gateway)
        await talk.post("0")

        assert (await socket.receive())["payload"]["extensions"].keys() == {"eventId"}


async def test_another_gateway_continues_a_stream(talk: Discussed, settings: Settings) -> None:
    last_id = await talk.cut_after("0")
    await talk.post("1")

    async with (
        running(settings) as other,
        listening(other) as other_port,
        stream_of(other_port, talk.id, last_id) as stream,
    ):
        assert await stream.texts(1) == ["1"]


async def test_no_comment_is_lost_or_doubled_by_random_cuts(talk: Discussed) -> None:
    count, chance = 60, random.Random(7)

    async with talk.resumed() as stream:
        await stream.start()
        last_id = stream.last_id
    posting = asyncio.create_task(talk.post(*map(str, range(count))))
    received: list[str] = []
    cuts = 0
    while len(received) < count:
        async with talk.resumed(last_id) as stream:
            for _ in range(min(chance.randrange(5), count - len(received))):
                received += await stream.texts(1)
                last_id = stream.last_id
        cuts += 1

    await posting
    assert received == [str(number) for number in range(count)]
    assert cuts > count / 5


async def test_more_missed_events_than_may_wait_come_page_by_page(settings: Settings) -> None:
    async with running(replace(settings, max_waiting_events=3)) as gateway, discussed(gateway) as talk:
        last_id = await talk.cut_after("0")
        said = [str(number) for number in range(1, 11)]
        await talk.post(*said)

        async with talk.resumed(last_id) as stream:
            assert await stream.texts(10) == said


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


async def test_missed_events_are_shown_with_the_permissions_of_now(talk: Discussed) -> None:
    last_id = await talk.cut_after("0")
    removed = await talk.post("removed")
    await delete(talk.gateway, removed)
    await talk.post("kept")

    async with talk.resumed(last_id) as stream:
        assert await stream.texts(1) == ["kept"]


async def test_a_subject_that_was_hidden_meanwhile_ends_the_stream(gateway: GatewayClient, port: int) -> None:
    talk = Discussed(gateway, port, await open_on_entry(gateway))
    last_id = await talk.cut_after("0")
    await hide_entries(gateway)

    async with talk.resumed(last_id) as stream:
        assert (await stream.receive())["errors"][0]["extensions"]["code"] == "NOT_FOUND"


@pytest.mark.parametrize("way", ["text", "altered", "another subscription", "another caller"])
async def test_an_id_of_something_else_is_refused(talk: Discussed, way: str) -> None:
    other = await open_on_product(talk.gateway, "DOCUMENTS")
    last_id = await talk.cut_after("0", token=talk.gateway.token("ann", []))
    given = {"text": "x", "altered": last_id[:-1] + ("0" if last_id[-1] != "0" else "1")}.get(way, last_id)
    token = talk.gateway.token("bob" if way == "another caller" else "ann", [])

    async with stream_of(talk.port, other if way == "another subscription" else talk.id, given, token=token) as stream:
        answer = await stream.receive()

    assert [error["extensions"]["code"] for error in answer["errors"]] == ["BAD_USER_INPUT"]
    assert "id of the last event" in answer["errors"][0]["message"]


async def test_events_that_are_too_old_are_lost_and_the_client_is_told(settings: Settings) -> None:
    async with running(replace(settings, resume_seconds=1.0)) as gateway, discussed(gateway) as talk:
        last_id = await talk.cut_after("0")
        await asyncio.sleep(2.5)
        await talk.post("1")

        async with talk.resumed(last_id) as stream:
            answer = await stream.receive()

        assert [error["extensions"]["code"] for error in answer["errors"]] == ["EVENTS_LOST"]


async def test_an_event_ahead_of_a_restored_database_is_lost_and_the_client_is_told(talk: Discussed) -> None:
    """The clocks of the servers before were an hour ahead of those on which the backup was restored."""
    last_id = await talk.cut_after("0")
    ahead = f"{int(last_id[:8], 16) + 3600:08x}{last_id[8:]}"
    await talk.post("1")

    async with talk.resumed(ahead) as stream:
        answer = await stream.receive()

    assert [error["extensions"]["code"] for error in answer["errors"]] == ["EVENTS_LOST"]


async def test_an_oplog_that_does_not_reach_back_ends_the_stream(
    talk: Discussed, monkeypatch: pytest.MonkeyPatch
) -> None:
    last_id = await talk.cut_after("0")
    monkeypatch.setattr(talk.gateway.state.live.replays, "_hand_out", failing(ChangesLost))
    async with talk.resumed(last_id) as stream:
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
async def subscribed(talk: Discussed, last_id: str | None = None) -> AsyncIterator[Socket]:
    """Opens a socket that asks for ids, and subscribes."""
    more: dict[str, Any] = {} if last_id is None else {"extensions": {"lastEventId": last_id}}
    async with opened(talk.port) as socket:
        await init(socket)
        await socket.send(subscribe("1", POSTED, variables={"id": talk.id}, **more))
        yield socket


async def test_a_socket_continues_after_its_last_event(talk: Discussed) -> None:
    async with subscribed(talk) as socket:
        await wait_until_live(talk.gateway)
        await talk.post("0")
        first = await socket.receive()
    await talk.post("1")

    async with subscribed(talk, first["payload"]["extensions"]["eventId"]) as socket:
        second = await socket.receive()

    assert [one["payload"]["data"]["commentPosted"]["text"] for one in (first, second)] == ["0", "1"]


async def test_the_acknowledgement_has_an_id_for_a_socket_that_is_cut_before_its_first_event(talk: Discussed) -> None:
    await talk.post("before")
    async with opened(talk.port) as socket:
        start = await init(socket)
    await talk.post("0")

    async with subscribed(talk, start) as socket:
        assert (await socket.receive())["payload"]["data"] == {"commentPosted": {"text": "0"}}


async def test_a_socket_that_does_not_ask_for_ids_gets_none(talk: Discussed) -> None:
    async with acknowledged(talk.port) as socket:
        await follow(talk.gateway, socket, talk.id)
        await talk.post("0")

        assert (await socket.receive())["payload"] == {"data": {"commentPosted": {"text": "0"}}}


async def test_an_id_that_is_none_ends_the_subscription_and_not_the_socket(talk: Discussed) -> None:
    async with subscribed(talk, "x") as socket:
        answer = await socket.receive()
        assert answer["type"] == "error"
        assert answer["payload"][0]["extensions"]["code"] == "BAD_USER_INPUT"

        await socket.subscribe("2", "{ viewer { subject } }")
        assert (await socket.receive())["payload"] == {"data": {"viewer": None}}


# Many who come back together


async def test_many_who_come_back_together_share_change_streams(talk: Discussed) -> None:
    last_id = await talk.cut_after("0")
    await talk.post("1")
    counts = talk.counts
    replays, runs = counts.replays, counts.runs

    async def come_back() -> list[str]:
        async with talk.resumed(last_id) as stream:
            return await stream.texts(1)

    assert await asyncio.gather(*(come_back() for _ in range(50))) == [["1"]] * 50
    assert counts.replays - replays <= 20
    assert counts.runs - runs <= 20


async def test_many_who_come_back_at_once_read_their_subject_once(talk: Discussed) -> None:
    last_id = await talk.cut_after("0")
    await talk.post("1")
    counts, replays = talk.counts, talk.counts.replays
    talk.gateway.commands.clear()

    async def come_back() -> str:
        session = Session(talk.gateway.state, None, {})
        request = Request(POSTED, {"id": talk.id}, last_event_id=last_id)
        context = derived(await session.context(), live=session.resumable(request))
        async with aclosing(responses(talk.gateway.state.executor, request, session, context, Progress())) as answers:
            return str(orjson.loads((await anext(answers)).json)["data"]["commentPosted"]["text"])

    assert await asyncio.gather(*(come_back() for _ in range(50))) == ["1"] * 50
    assert counts.replays - replays <= 2
    assert len([name for name in talk.gateway.commands.names() if name.startswith("find ")]) <= 12


@pytest.mark.parametrize("count", [2, 3, 4, 5])
async def test_a_client_that_gets_too_many_events_while_it_catches_up_reads_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Of the three events that may wait, two are too many: another two could come before it takes the first."""
    said = [str(number) for number in range(1, count + 1)]
    async with running(replace(settings, max_waiting_events=3)) as gateway, discussed(gateway) as talk:
        last_id = await talk.cut_after("0")
        live, replays, pages = gateway.state.live, gateway.state.live.replays, 0
        arrived, read = live.counts.events, replays.read

        async def slow(*arguments: Any) -> Any:
            nonlocal pages
            pages += 1
            page = await read(*arguments)
            if pages == 1:
                await talk.post(*said)
                await until(lambda: live.counts.events == arrived + count)
                live.steps.finish()
            return page

        monkeypatch.setattr(replays, "read", slow)
        async with talk.resumed(last_id) as stream:
            assert await stream.texts(count) == said
            await talk.post("last")
            assert await stream.texts(1) == ["last"]

        assert pages > 1
        assert not live.counts.ended
