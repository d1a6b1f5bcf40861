"""The gateway's own requests as log events."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any

import httpx
import jwt
import pytest
from starlette_compress import CompressMiddleware

from portico.gateway.domains.analytics import own_requests
from portico.gateway.settings import Settings
from portico.resolvers.analytics.settings import AnalyticsSettings
from tests.analytics.support.log_events import logged
from tests.support.harness import SECRET, Commands, GatewayClient, SettableClock, running, with_settings
from tests.support.processes import environment, portico, served
from tests.support.wire import through_wire

LOG = "analytics.log_events"
QUERY = "{ __typename }"
Start = Callable[..., AbstractAsyncContextManager[GatewayClient]]


def logging(settings: Settings, share: float = 1.0) -> Settings:
    return with_settings(settings, AnalyticsSettings, log_requests=share)


@pytest.fixture
def start(clock: SettableClock, commands: Commands, monkeypatch: pytest.MonkeyPatch) -> Start:
    """Starts a gateway. By keyword: the constants of its log, which records every 50 ms by default."""

    def start(settings: Settings, **constants: object) -> AbstractAsyncContextManager[GatewayClient]:
        for name, value in {"SECONDS": 0.05, **constants}.items():
            monkeypatch.setattr(own_requests, name, value)
        return running(settings, clock=clock, commands=commands)

    return start


@pytest.fixture
async def logged_gateway(settings: Settings, start: Start) -> AsyncIterator[GatewayClient]:
    """A gateway that logs all requests."""
    async with start(logging(settings)) as gateway:
        yield gateway


async def events(gateway: GatewayClient, number: int) -> list[dict[str, Any]]:
    """Returns the first events in the order of their times, as soon as there are so many."""
    async with asyncio.timeout(20):
        while await gateway.db[LOG].count_documents({}) < number:  # noqa: ASYNC110 - the database signals nothing
            await asyncio.sleep(0.02)
    return await gateway.db[LOG].find().sort([("time", 1), ("_id", 1)]).to_list()


async def counted(gateway: GatewayClient) -> dict[str, int]:
    """Returns how many requests were logged and were not, as `/metrics` shows it."""
    text = (await gateway.http.get("/metrics")).text
    found = re.findall(r"^portico_requests_(\w+)_total ([\d.]+)$", text, re.MULTILINE)
    return {name: int(float(value)) for name, value in found}


def around_requests(gateway: GatewayClient) -> list[Any]:
    """Returns what is around the requests of the gateway, besides the compression."""
    classes: list[Any] = [middleware.cls for middleware in gateway.app.user_middleware]
    return [one for one in classes if one is not CompressMiddleware]


async def test_without_the_setting_nothing_is_around_requests(gateway: GatewayClient) -> None:
    await gateway.ask(QUERY)

    assert around_requests(gateway) == []
    assert await counted(gateway) == {"logged": 0, "not_logged": 0}
    assert await gateway.db[LOG].count_documents({}) == 0


async def test_a_request_is_logged_with_its_caller_and_its_response(logged_gateway: GatewayClient) -> None:
    gateway = logged_gateway
    began = gateway.state.clock.now()
    headers = {
        "authorization": f"Bearer {gateway.token('ada')}",
        "user-agent": "Firefox",
        "referer": "https://shop.example/jazz?token=secret#top",
    }

    response = await gateway.http.post("/graphql?token=secret", json={"query": QUERY}, headers=headers)

    (event,) = await events(gateway, 1)
    time = event.pop("time")
    assert began <= time <= gateway.state.clock.now()
    del event["_id"]
    assert event == {
        "host": "127.0.0.1",
        "user": "ada",
        "visitor": "u:ada",
        "method": "POST",
        "path": "/graphql",
        "status": 200,
        "response_size": len(response.content),
        "referrer": "https://shop.example/jazz",
        "user_agent": "Firefox",
        "uncounted": time.replace(hour=0, minute=0, second=0, microsecond=0),
    }


async def test_analysts_read_what_the_gateway_has_logged(logged_gateway: GatewayClient) -> None:
    gateway = logged_gateway
    await gateway.ask(QUERY, token=None)
    await events(gateway, 1)

    found = await logged(gateway, path="/graphql", host="127.0.0.1")

    assert [(one["method"], one["user"]) for one in found["nodes"]] == [("POST", None)]


async def test_requests_are_logged_whatever_their_answer_is(logged_gateway: GatewayClient) -> None:
    gateway = logged_gateway
    await gateway.http.get("/nothing/%C3%A9?x=1")
    await gateway.ask(QUERY, token="nonsense")
    await gateway.http.post("/graphql", content=b"{", headers={"content-type": "application/json"})
    await gateway.http.get("/graphql", params={"query": "mutation { __typename }"})

    found = await events(gateway, 4)

    assert [(one["method"], one["path"], one["status"], one["user"]) for one in found] == [
        ("GET", "/nothing/%C3%A9", 404, None),
        ("POST", "/graphql", 401, None),
        ("POST", "/graphql", 400, None),
        ("GET", "/graphql", 405, None),
    ]


async def test_health_checks_and_metrics_are_not_logged(logged_gateway: GatewayClient) -> None:
    for path in ("/livez", "/readyz", "/metrics", "/nothing"):
        await logged_gateway.http.get(path)

    assert [one["path"] for one in await events(logged_gateway, 1)] == ["/nothing"]


async def test_a_request_that_fails_or_that_its_client_left_has_a_status(logged_gateway: GatewayClient) -> None:
    gateway = logged_gateway
    (around,) = around_requests(gateway)

    async def fail(*_: Any) -> None:
        raise RuntimeError

    async def leave(*_: Any) -> None: ...

    scope: dict[str, Any] = {"type": "http", "path": "/", "method": "GET", "headers": [], "client": None}
    with pytest.raises(RuntimeError):
        await around(fail)(scope, leave, leave)
    await around(leave)(scope, leave, leave)

    assert [(one["status"], one["host"]) for one in await events(gateway, 2)] == [(500, "-"), (499, "-")]


async def test_a_caller_whose_name_is_no_text_loses_no_requests_of_others(logged_gateway: GatewayClient) -> None:
    gateway = logged_gateway
    claims = {"sub": "\ud800", "aud": "portico", "exp": int(time.time()) + 60}
    # The library refuses to encode such claims as text.
    refused = jwt.PyJWS().encode(json.dumps(claims).encode(), SECRET, algorithm="HS256")
    for token in (refused, gateway.token("ada")):
        headers = {"authorization": f"Bearer {token}"}
        await gateway.http.post("/graphql", json={"query": QUERY}, headers=headers)

    found = await events(gateway, 2)

    # The token is refused, so its subject is no caller.
    assert [one["user"] for one in found] == [None, "ada"]


async def test_a_share_of_the_requests_is_logged(settings: Settings, start: Start) -> None:
    numbers = itertools.cycle([0.1, 0.2, 0.3, 0.9])
    async with start(logging(settings, 0.25), random=lambda: next(numbers)) as gateway:
        for number in range(8):
            await gateway.http.get(f"/{number}")

        assert [one["path"] for one in await events(gateway, 4)] == ["/0", "/1", "/4", "/5"]


async def test_requests_that_find_the_queue_full_are_counted(
    settings: Settings, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with start(logging(settings), SECONDS=3_600, MAX_WAITING=3) as gateway:
        answers = [await gateway.http.get(f"/{number}") for number in range(5)]
        assert await counted(gateway) == {"logged": 0, "not_logged": 2}
        # From now on, the log does not wait long.
        monkeypatch.setattr(own_requests, "SECONDS", 0.01)
        gateway.state.resources.of(own_requests.RequestLog)._has_batch.set()
        await events(gateway, 3)
        await gateway.http.get("/5")

        assert [one.status_code for one in answers] == [404] * 5
        assert [one["path"] for one in await events(gateway, 4)] == ["/0", "/1", "/2", "/5"]
        assert await counted(gateway) == {"logged": 4, "not_logged": 2}


async def test_many_requests_are_recorded_before_the_second_is_over(
    settings: Settings, start: Start, commands: Commands
) -> None:
    async with start(logging(settings), SECONDS=3_600, BATCH=10) as gateway:
        for number in range(25):
            await gateway.http.get(f"/{number}")

        await events(gateway, 20)
        sent = [command for command in commands.sent if "insert" in command]
        assert {(command["insert"], command["writeConcern"]["w"]) for command in sent} == {(LOG, 1)}
        assert max(len(command["documents"]) for command in sent) == 10


async def test_a_gateway_that_stops_records_the_requests_that_wait(start: Start, gateway: GatewayClient) -> None:
    async with start(logging(gateway.settings), SECONDS=3_600) as stopping:
        for number in range(600):
            await stopping.http.get(f"/{number % 3}")
            if number == 400:
                await asyncio.sleep(0)

    found = Counter([one["path"] async for one in gateway.db[LOG].find()])
    assert found == {"/0": 200, "/1": 200, "/2": 200}


async def test_an_outage_slows_no_request_and_the_requests_are_logged_once(settings: Settings, start: Start) -> None:
    with through_wire(replace(logging(settings), database_seconds=20)) as (wire, over_wire):
        async with start(over_wire) as gateway:
            await gateway.http.get("/before")
            await events(gateway, 1)
            wire.cut()
            answers = [await gateway.http.get(f"/{number}") for number in range(20)]
            await asyncio.sleep(0.5)
            answers += [await gateway.http.get(f"/{number}") for number in range(20, 40)]
            wire.restore()

            assert {one.status_code for one in answers} == {404}
            found = await events(gateway, 41)
            assert sorted(one["path"] for one in found) == sorted(["/before", *(f"/{number}" for number in range(40))])


async def test_a_batch_that_an_outage_outlasts_is_counted_as_lost(settings: Settings, start: Start) -> None:
    with through_wire(replace(logging(settings), database_seconds=1, log_level="error")) as (wire, over_wire):
        async with start(over_wire, _PAUSE_SECONDS=0.01) as gateway:
            wire.cut()
            await gateway.http.get("/lost")
            async with asyncio.timeout(30):
                while not (await counted(gateway))["not_logged"]:  # noqa: ASYNC110 - the log signals nothing
                    await asyncio.sleep(0.1)
            wire.restore()
            await gateway.http.get("/kept")

            assert [one["path"] for one in await events(gateway, 1)] == ["/kept"]
            assert (await counted(gateway))["not_logged"] == 1


async def test_a_stop_during_an_outage_is_not_held_up(settings: Settings, start: Start) -> None:
    with through_wire(logging(settings)) as (wire, over_wire):
        async with asyncio.timeout(20), start(over_wire, SECONDS=own_requests.SECONDS, STOP_SECONDS=0.1) as gateway:
            log = gateway.state.resources.of(own_requests.RequestLog)
            wire.cut()
            for number in range(3):
                await gateway.http.get(f"/{number}")

        assert (log.recorded, log.lost) == (0, 3)


async def test_a_request_with_texts_that_are_no_text_is_logged_or_counted(logged_gateway: GatewayClient) -> None:
    gateway = logged_gateway
    headers = {b"user-agent": b"\xff" + b"x" * 2_000, b"referer": b"\xfe"}
    await gateway.http.get("/" + "x" * 9_000, headers=headers)
    nul = httpx.Headers({"user-agent": "a\0b"})
    await gateway.http.get("/nul", headers=nul)
    await gateway.http.get("/after")

    found = await events(gateway, 2)

    assert [one["path"] for one in found] == ["/" + "x" * 8_191, "/after"]
    assert found[0]["user_agent"] == r"\xff" + "x" * 999
    assert found[0]["referrer"] == r"\xfe"
    assert await counted(gateway) == {"logged": 2, "not_logged": 1}


async def test_every_worker_logs_its_requests(settings: Settings, gateway: GatewayClient) -> None:
    env = environment(logging(settings))
    with served(settings.data_dir / "workers", env, "--workers", "2") as found:
        for _ in range(40):
            # Each request has a connection, so both workers get some.
            async with httpx.AsyncClient(timeout=20) as client:
                await client.get(f"{found.url}/nothing")
        found.process.terminate()
        found.process.wait()

    assert await gateway.db[LOG].count_documents({"path": "/nothing"}) == 40


@pytest.mark.parametrize(
    ("command", "name", "value", "reason"),
    [
        (["serve", "--port", "0"], "LOG_REQUESTS", "1.5", "must be a share, at most 1; got 1.5."),
        (["worker"], "LOG_DAYS", "1e6", "must be at most 100,000 days; got 1e+06. Unset it to keep everything."),
        (["worker"], "HIT_ID_DAYS", "1e99", "must be at most 100,000 days; got 1e+99. Unset it to keep everything."),
    ],
)
def test_a_setting_that_is_too_large_ends_the_start_with_one_line(
    settings: Settings, command: list[str], name: str, value: str, reason: str
) -> None:
    done = portico(*command, env=environment(settings, **{f"PORTICO_{name}": value}))

    assert done.returncode == 1
    assert done.stderr == f"portico: PORTICO_{name} {reason}\n"
