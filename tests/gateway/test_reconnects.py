"""Many subscribers who were cut off come back together, or get more events than may wait while they catch up."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import orjson
import pytest

from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.operations.execution import Progress
from portico.gateway.settings import Settings
from portico.schema.context import derived
from tests.comments.support.discussions import open_on_product, post
from tests.gateway.support.resumed import cut_after, stream_of
from tests.support.harness import GatewayClient, running
from tests.support.sockets import POSTED, listening, until


async def test_many_who_come_back_together_share_change_streams(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    last_id = await cut_after(gateway, port, discussion, "0")
    await post(gateway, discussion, "1")
    counts = gateway.state.live.counts
    replays, runs = counts.replays, counts.runs

    async def come_back() -> list[str]:
        async with stream_of(port, discussion, last_id) as stream:
            return await stream.texts(1)

    assert await asyncio.gather(*(come_back() for _ in range(50))) == [["1"]] * 50
    assert counts.replays - replays <= 20
    assert counts.runs - runs <= 20


async def test_many_who_come_back_at_once_read_their_subject_once(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    last_id = await cut_after(gateway, port, discussion, "0")
    await post(gateway, discussion, "1")
    counts = gateway.state.live.counts
    replays = counts.replays
    gateway.commands.clear()

    async def come_back() -> str:
        session = Session(gateway.state, None, {})
        request = Request(POSTED, {"id": discussion}, last_event_id=last_id)
        context = derived(await session.context(), live=session.resumable(request))
        async with aclosing(responses(gateway.state.executor, request, session, context, Progress())) as answers:
            text: str = orjson.loads((await anext(answers)).json)["data"]["commentPosted"]["text"]
            return text

    assert await asyncio.gather(*(come_back() for _ in range(50))) == ["1"] * 50
    assert counts.replays - replays <= 2
    assert len([name for name in gateway.commands.names() if name == "find"]) <= 12


async def test_a_client_that_gets_more_events_while_it_catches_up_than_may_wait_reads_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running(replace(settings, max_waiting_events=3)) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, "DOCUMENTS")
        last_id = await cut_after(gateway, port, discussion, "0")
        replays, pages = gateway.state.live.replays, 0
        read = replays.read

        async def slow(*arguments: Any) -> Any:
            nonlocal pages
            pages += 1
            page = await read(*arguments)
            if pages == 1:
                for number in range(1, 6):
                    await post(gateway, discussion, str(number))
                await until(lambda: gateway.state.live.counts.events >= 5)
            return page

        monkeypatch.setattr(replays, "read", slow)
        async with stream_of(port, discussion, last_id) as stream:
            assert await stream.texts(5) == ["1", "2", "3", "4", "5"]
            await post(gateway, discussion, "6")
            assert await stream.texts(1) == ["6"]

        assert pages > 1
        assert not gateway.state.live.counts.ended
