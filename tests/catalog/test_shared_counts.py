"""Counts and facets are shared: by callers who ask for the same at the same time, and for some seconds after."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from portico.gateway.settings import Settings
from portico.resolvers.answer_bounds import METER, SMALL_BYTES, Meter
from portico.schema.context import Caller
from portico.schema.roles import Role
from portico.schema.sharing import MAX_KEPT, SharedReads, shared
from tests.catalog.support.catalog import add_products, album, film
from tests.support.domains import DOMAINS
from tests.support.harness import Commands, GatewayClient, SettableClock, running

SECONDS = 20
TOTAL = "{ products(first: 1) { totalCount totalCountIsExact } }"
FACETS = "query ($filter: ProductFilter) { products(first: 1, filter: $filter) { facets { types { value count } } } }"


@pytest.fixture
async def gateway(settings: Settings, clock: SettableClock, commands: Commands) -> AsyncIterator[GatewayClient]:
    """A gateway that keeps counts for twenty seconds, with an album."""
    async with running(replace(settings, count_seconds=SECONDS), clock=clock, commands=commands) as client:
        await add_products(client.db, [album()])
        yield client


async def counted(gateway: GatewayClient, **options: Any) -> int:
    data = await gateway.data(TOTAL, token=None, **options)
    total: int = data["products"]["totalCount"]
    return total


def aggregations(gateway: GatewayClient) -> int:
    return gateway.commands.names().count("aggregate products")


@pytest.mark.parametrize("text", [TOTAL, FACETS])
async def test_callers_who_ask_for_the_same_at_the_same_time_share_one_command(
    gateway: GatewayClient, text: str
) -> None:
    gateway.commands.clear()

    answers = await asyncio.gather(*(gateway.data(text, token=None) for _ in range(20)))

    assert aggregations(gateway) == 1
    assert all(answer == answers[0] for answer in answers)


async def test_signed_in_callers_share_too(gateway: GatewayClient) -> None:
    buyers = [gateway.token(f"buyer-{number}", []) for number in range(5)]
    gateway.commands.clear()

    await asyncio.gather(*(gateway.data(TOTAL, token=token) for token in buyers))

    assert aggregations(gateway) == 1


async def test_a_figure_is_kept_for_its_seconds_and_no_longer(gateway: GatewayClient) -> None:
    gateway.clock.stop()
    assert await counted(gateway) == 1
    await add_products(gateway.db, [film()])

    gateway.clock.advance(seconds=SECONDS - 1)
    kept = await counted(gateway)
    gateway.clock.advance(seconds=1)
    read_again = await counted(gateway)

    assert (kept, read_again) == (1, 2)


async def test_a_merchant_gets_current_figures(gateway: GatewayClient) -> None:
    assert await counted(gateway) == 1
    await add_products(gateway.db, [film()])

    found = (await gateway.data(TOTAL))["products"]["totalCount"]

    assert found == 2
    assert await counted(gateway) == 1


async def test_other_filters_and_other_facets_have_figures_of_their_own(gateway: GatewayClient) -> None:
    await add_products(gateway.db, [film(), film()])

    async def types(**conditions: Any) -> dict[str, int]:
        data = await gateway.data(FACETS, {"filter": conditions}, token=None)
        return {row["value"]: row["count"] for row in data["products"]["facets"]["types"]}

    genres = await gateway.data(FACETS.replace("types", "genres"), token=None)

    assert await types() == {"Audio Album": 1, "Film": 2}
    assert await types(type="FILM") == {"Film": 2}
    assert await types(type="AUDIO_ALBUM") == {"Audio Album": 1}
    assert genres == {"products": {"facets": {"genres": []}}}


async def test_the_count_and_whether_it_is_exact_are_one_command_and_one_costly_field(gateway: GatewayClient) -> None:
    both = "totalCount totalCountIsExact more: totalCountIsExact"
    gateway.commands.clear()

    data = await gateway.data(f"{{ products(first: 1) {{ {both} facets {{ types {{ value }} }} }} }}")
    alone = await gateway.ask(
        "{ products(first: 1) { a: totalCountIsExact b: totalCountIsExact c: totalCountIsExact } }"
    )

    assert data["products"]["totalCountIsExact"] is True
    assert aggregations(gateway) == 2
    assert alone.codes == ["OPERATION_TOO_COMPLEX"]


async def test_a_caller_who_disconnects_does_not_stop_the_read_of_the_others(clock: SettableClock) -> None:
    reads = SharedReads(SECONDS)
    started, go = asyncio.Event(), asyncio.Event()

    async def read() -> int:
        started.set()
        await go.wait()
        return 7

    first = asyncio.create_task(reads.get("key", read, now=clock.now()))
    await started.wait()
    second = asyncio.create_task(reads.get("key", read, now=clock.now()))
    await asyncio.sleep(0)
    first.cancel()
    go.set()

    assert await second == 7
    assert first.cancelled()


async def test_a_read_that_nobody_waits_for_is_cancelled_and_begins_anew(clock: SettableClock) -> None:
    reads = SharedReads(SECONDS)
    begun, ended = asyncio.Event(), asyncio.Event()

    async def hang() -> int:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return 0

    async def answer() -> int:
        return 5

    waiting = asyncio.create_task(reads.get("key", hang, now=clock.now()))
    await begun.wait()
    waiting.cancel()
    await asyncio.wait({waiting})

    assert await reads.get("key", answer, now=clock.now()) == 5
    assert ended.is_set()


async def test_a_shared_read_does_not_count_for_the_operation_that_begins_it(clock: SettableClock) -> None:
    reads = SharedReads(SECONDS)
    exhausted = Meter(SMALL_BYTES)
    exhausted.count(2 * SMALL_BYTES)
    token = METER.set(exhausted)

    async def read() -> int:
        if (meter := METER.get()) is not None:
            meter.require()
        return 7

    try:
        assert await reads.get("key", read, now=clock.now()) == 7
    finally:
        METER.reset(token)


async def test_a_failed_read_is_shared_but_not_kept(clock: SettableClock) -> None:
    reads = SharedReads(SECONDS)
    count = 0

    async def fail() -> int:
        nonlocal count
        count += 1
        await asyncio.sleep(0)
        raise ValueError(count)

    both = [reads.get("key", fail, now=clock.now()) for _ in range(2)]
    found = await asyncio.gather(*both, return_exceptions=True)

    assert [str(error) for error in found] == ["1", "1"]
    with pytest.raises(ValueError, match="2"):
        await reads.get("key", fail, now=clock.now())


async def test_a_limited_number_of_figures_is_kept(clock: SettableClock) -> None:
    reads = SharedReads(SECONDS)

    async def value(number: int) -> int:
        return number

    for number in range(MAX_KEPT + 5):
        await reads.get(number, lambda number=number: value(number), now=clock.now())  # type: ignore[misc]

    found = [await reads.get(number, lambda: value(-1), now=clock.now()) for number in (MAX_KEPT + 4, 5, 4)]
    assert found == [MAX_KEPT + 4, 5, -1]


async def test_objects_that_not_everybody_sees_have_figures_for_each_caller(gateway: GatewayClient) -> None:
    kind = replace(DOMAINS.kinds["Product"], visible_to=lambda _document, context: context.caller is not None)
    callers = [None, Caller("anna", frozenset()), Caller("bert", frozenset()), Caller("bert", frozenset({Role.EDITOR}))]
    contexts = [gateway.state.context(caller, "test") for caller in callers]

    async def answer_for(name: str) -> str:
        return name

    found = [
        await shared(context, kind, "key", lambda number=number: answer_for(str(number)))  # type: ignore[misc]
        for number, context in enumerate(contexts)
    ]

    assert found == ["0", "1", "2", "3"]
    assert await shared(gateway.state.context(callers[1], "test"), kind, "key", lambda: answer_for("again")) == "1"


async def test_a_kept_figure_expires_for_the_default_setting(clock: SettableClock) -> None:
    reads = SharedReads(Settings().count_seconds)

    async def value() -> object:
        return clock.now()

    first = await reads.get("key", value, now=clock.now())
    later = clock.now() + timedelta(seconds=Settings().count_seconds)

    assert await reads.get("key", value, now=clock.now()) == first
    clock.advance(seconds=Settings().count_seconds)
    assert await reads.get("key", value, now=later) != first
