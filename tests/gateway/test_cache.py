"""Kept answers: what is kept, what drops it, and whom it is for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from portico.gateway.cache import fence as fences
from portico.gateway.cache.kept_answers import CacheCounts
from portico.gateway.settings import Settings
from portico.schema.roles import Role
from tests.support.harness import IS_SOAK, Commands, GatewayClient, category_input, create_product, running
from tests.support.ids import key_in
from tests.support.kept_answers import JAZZ, NAME, cache_of, counts_of, create_jazz, follow_changes, keep, with_cache
from tests.support.sockets import answered_by_stream, listening, opened, streamed, until

pytestmark = pytest.mark.usefixtures("patient")
settings = with_cache()


@pytest.fixture
async def jazz(gateway: GatewayClient) -> str:
    return await create_jazz(gateway)


@pytest.fixture
async def counts(gateway: GatewayClient, jazz: str) -> CacheCounts:
    """The counts of the cache after the name of the category is kept."""
    assert (await keep(gateway, NAME, JAZZ))["category"]["id"] == jazz
    return counts_of(gateway)


def assert_only_looked(commands: Commands) -> None:
    """Asserts that nothing was read for an answer."""
    assert {name.partition(" ")[0] for name in commands.names()} <= {"ping", "getMore"}


async def test_a_query_that_is_asked_again_does_not_run(gateway: GatewayClient, jazz: str, commands: Commands) -> None:
    first = await gateway.data(NAME, JAZZ)
    assert await keep(gateway, NAME, JAZZ) == first == {"category": {"id": jazz, "name": "Jazz"}}
    commands.clear()

    assert await gateway.data(NAME, JAZZ) == first

    assert_only_looked(commands)


async def test_an_answer_is_that_of_a_run_after_each_write_of_any_gateway(gateway: GatewayClient, jazz: str) -> None:
    async with running(replace(gateway.settings, cache_bytes=0)) as other:
        for number in range(20):
            writer = other if number % 2 else gateway
            await keep(gateway, NAME, JAZZ)
            await writer.result("renameCategory", {"id": jazz, "name": f"Jazz {number}"})
            assert (await gateway.data(NAME, JAZZ))["category"]["name"] == f"Jazz {number}"
    assert counts_of(gateway).affected >= 20


async def test_a_write_that_the_answer_does_not_show_leaves_it(gateway: GatewayClient, counts: CacheCounts) -> None:
    before = counts.hits, counts.affected
    for _ in range(5):
        await gateway.result("createCategory", category_input())
        assert (await gateway.data(NAME, JAZZ))["category"]["name"] == "Jazz"
    assert (counts.hits, counts.affected) == (before[0] + 5, before[1])


async def test_a_search_follows_the_searched_text_and_no_other_fields(gateway: GatewayClient) -> None:
    search = '{ products(first: 5, filter: {search: "trane"}) { nodes { sku title } } }'
    for sku, title in (("blue", "Blue Trane"), ("giant", "Giant Steps")):
        await create_product(gateway, sku=sku, title=title)
    found = await keep(gateway, search)
    assert [row["sku"] for row in found["products"]["nodes"]] == ["blue"]
    products, counts = gateway.db["products"], counts_of(gateway)
    before = counts.hits, counts.affected

    await products.update_one({"sku": "giant"}, {"$set": {"pricing.retail": 1}})
    assert await gateway.data(search) == found
    assert (counts.hits, counts.affected) == (before[0] + 1, before[1])

    await products.update_one({"sku": "giant"}, {"$set": {"title": "Soultrane, or Trane"}})
    rows = (await gateway.data(search))["products"]["nodes"]
    assert sorted(row["sku"] for row in rows) == ["blue", "giant"]
    assert (counts.hits, counts.affected) == (before[0] + 1, before[1] + 1)


async def test_callers_share_an_answer_if_nothing_of_them_was_read(gateway: GatewayClient, counts: CacheCounts) -> None:
    before = counts.hits
    await gateway.as_caller("somebody", Role.SERVICE).data(NAME, JAZZ)
    assert counts.hits == before + 1
    # Nobody knows whether a rule asks if there is a caller.
    await gateway.data(NAME, JAZZ, token=None)
    assert counts.hits == before + 1


async def test_callers_do_not_share_what_a_run_has_read_of_them(gateway: GatewayClient) -> None:
    viewer = "{ viewer { subject } }"
    await keep(gateway, viewer)
    for subject in ("mara", "ivan"):
        caller = gateway.as_caller(subject)
        assert (await keep(caller, viewer))["viewer"]["subject"] == subject
    assert (await gateway.data(viewer))["viewer"]["subject"] == gateway.subject


@pytest.mark.parametrize("query", ["{ category(slug: 7) { name } }", "{ products(first: 0) { nodes { sku } } }"])
async def test_errors_are_not_kept(gateway: GatewayClient, query: str) -> None:
    for _ in range(4):
        assert (await gateway.ask(query)).codes
    assert counts_of(gateway).stored == 0


@pytest.mark.usefixtures("jazz")
async def test_another_operation_of_a_text_or_other_variables_have_other_answers(gateway: GatewayClient) -> None:
    await gateway.result("createCategory", category_input(slug="blues", name="Blues"))
    await follow_changes(gateway)
    text = 'query A { category(slug: "jazz") { name } } query B { category(slug: "blues") { name } }'
    for _ in range(4):
        assert (await gateway.data(text, operation="A"))["category"]["name"] == "Jazz"
        assert (await gateway.data(text, operation="B"))["category"]["name"] == "Blues"
        assert (await gateway.data(NAME, JAZZ))["category"]["name"] == "Jazz"
        assert (await gateway.data(NAME, {"slug": "blues"}))["category"]["name"] == "Blues"
    assert counts_of(gateway).hits >= 4


async def test_an_answer_that_ends_with_the_clock_is_not_used_after_it(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    query = "query ($sku: String!) { product(sku: $sku) { title } }"
    await keep(gateway, query, {"sku": product["sku"]})
    cache = cache_of(gateway)
    (answer,) = list(cache._kept)
    answer.until = gateway.state.clock.now()
    before = cache.counts.hits
    await gateway.data(query, {"sku": product["sku"]})
    assert cache.counts.hits == before


async def test_memory_is_bounded_and_nothing_stays_after_its_answer(
    gateway: GatewayClient, counts: CacheCounts
) -> None:
    cache, size = cache_of(gateway), counts.bytes
    for number in range(2 * 1_000_000 // size):
        for _ in range(2):
            await gateway.data(NAME, {"slug": f"slug-{number}"})
        if counts.stored > counts.answers + 20:
            break
    assert counts.answers < counts.stored
    assert counts.bytes <= 1_000_000
    cache._forget_all()
    assert (counts.answers, counts.bytes, cache.index.size, list(cache.index.collections)) == (0, 0, 0, [])


async def test_a_lost_stream_empties_the_cache_and_another_one_begins(
    gateway: GatewayClient, jazz: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fences, "PAUSE_SECONDS", 0.05)
    await keep(gateway, NAME, JAZZ)
    fence = cache_of(gateway).fence
    await gateway.db.command({"killCursors": "$cmd.aggregate", "cursors": [fence._cursor]})
    await gateway.result("renameCategory", {"id": jazz, "name": "Blues"})
    assert (await gateway.data(NAME, JAZZ))["category"]["name"] == "Blues"
    await until(lambda: counts_of(gateway).losses == 1)
    assert counts_of(gateway).answers == 0
    assert (await keep(gateway, NAME, JAZZ))["category"]["name"] == "Blues"


async def test_the_first_write_after_the_stream_has_begun_shows(gateway: GatewayClient, jazz: str) -> None:
    fence = cache_of(gateway).fence
    for number in range(5 if IS_SOAK else 2):
        fence._close()
        await keep(gateway, NAME, JAZZ)
        # Nothing else was written since the stream has begun, so this is the time from which it delivers changes.
        await gateway.db["categories"].update_one(
            {"_id": key_in("Category", jazz)}, {"$set": {"name": f"Jazz {number}"}}
        )
        assert (await gateway.data(NAME, JAZZ))["category"]["name"] == f"Jazz {number}"


@pytest.mark.usefixtures("counts")
async def test_a_renamed_or_dropped_collection_drops_what_was_read_of_it(gateway: GatewayClient) -> None:
    await gateway.db["others"].insert_one({"_id": "x"})
    await gateway.db["others"].rename("categories", dropTarget=True)
    assert await gateway.data(NAME, JAZZ) == {"category": None}


@pytest.mark.usefixtures("jazz")
async def test_an_unused_stream_is_closed(gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fences, "IDLE_LOOK_SECONDS", 0.02)
    await keep(gateway, NAME, JAZZ)
    monkeypatch.setattr(fences, "IDLE_SECONDS", 0.1)
    await until(lambda: counts_of(gateway).answers == 0)
    monkeypatch.setattr(fences, "IDLE_SECONDS", 60.0)
    await keep(gateway, NAME, JAZZ)
    assert counts_of(gateway).answers == 1


async def test_a_random_choice_is_made_each_time(gateway: GatewayClient) -> None:
    query = '{ chooseAds(siteId: "a", zoneId: "b") { ads { headline } } }'
    for _ in range(6):
        await gateway.ask(query)
    assert counts_of(gateway).stored == 0


@pytest.fixture
async def without(settings: Settings, commands: Commands) -> AsyncIterator[GatewayClient]:
    async with running(replace(settings, cache_bytes=0), commands=commands) as gateway:
        yield gateway


async def test_without_a_cache_nothing_of_it_runs(without: GatewayClient, commands: Commands) -> None:
    assert without.state.cache is None
    await without.data(NAME, JAZZ)
    commands.clear()
    for _ in range(3):
        await without.data(NAME, JAZZ)
    assert commands.names() == ["find categories"] * 3


async def test_a_client_that_has_the_answer_gets_304_and_nothing_runs(gateway: GatewayClient, jazz: str) -> None:
    async def get(known: str = "", query: str = NAME) -> Any:
        headers = {"authorization": f"Bearer {gateway.token()}", "if-none-match": known}
        return await gateway.http.get(
            "/graphql", params={"query": query, "variables": '{"slug": "jazz"}'}, headers=headers
        )

    await keep(gateway, NAME, JAZZ)
    first = await get()
    tag = first.headers["etag"]
    gateway.commands.clear()
    again = await get(tag)
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    assert_only_looked(gateway.commands)

    await gateway.result("renameCategory", {"id": jazz, "name": "Blues"})
    changed = await get(tag)
    assert (changed.status_code, changed.json()["data"]["category"]["name"]) == (200, "Blues")
    # The state that the client has comes back.
    await gateway.result("renameCategory", {"id": jazz, "name": "Jazz"})
    assert (await get(tag)).status_code == 304


async def test_a_kept_answer_costs_its_caller_what_the_query_costs(settings: Settings) -> None:
    query = "{ viewer { subject } }"
    async with running(replace(settings, caller_rate=100)) as gateway:
        await follow_changes(gateway)
        codes: list[str] = []
        while not codes:
            answer = await gateway.ask(query)
            codes = answer.codes
            await asyncio.sleep(0)
        assert codes == ["RATE_LIMITED"]
        assert counts_of(gateway).hits


async def test_equal_queries_that_come_together_run_once(gateway: GatewayClient, jazz: str, commands: Commands) -> None:
    for number in range(5):
        await keep(gateway, NAME, JAZZ)
        await gateway.result("renameCategory", {"id": jazz, "name": f"Jazz {number}"})
        commands.clear()
        answers = await asyncio.gather(*(gateway.data(NAME, JAZZ) for _ in range(10)))
        assert [answer["category"]["name"] for answer in answers] == [f"Jazz {number}"] * 10
        assert commands.names().count("find categories") == 1
    await keep(gateway, NAME, JAZZ)


async def of_stream(port: int, transport: str, token: str, text: str = NAME) -> Any:
    """Asks once by WebSocket or server-sent events. Returns the answer."""
    if transport == "sse":
        return await answered_by_stream(port, text, JAZZ, token=token)
    async with opened(port) as socket:
        await socket.init(token)
        await socket.subscribe("1", text, JAZZ)
        message = await socket.receive()
        if message["type"] == "error":
            return {"errors": message["payload"]}
        assert (message["type"], await socket.receive()) == ("next", {"id": "1", "type": "complete"})
        return message["payload"]


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_queries_of_streams_share_the_answers_of_requests(
    gateway: GatewayClient, jazz: str, commands: Commands, transport: str
) -> None:
    async with listening(gateway) as port:
        first = await keep(gateway, NAME, JAZZ)
        counts = counts_of(gateway)
        hits = counts.hits
        commands.clear()
        assert await of_stream(port, transport, gateway.token()) == {"data": first}
        assert counts.hits == hits + 1
        assert_only_looked(commands)
        await gateway.result("renameCategory", {"id": jazz, "name": "Blues"})
        changed = {"data": {"category": {"id": jazz, "name": "Blues"}}}
        # The stream's run is kept as well.
        hits = counts.hits
        async with asyncio.timeout(20):
            while counts.hits == hits:
                assert await of_stream(port, transport, gateway.token()) == changed
        failed = await of_stream(port, transport, gateway.token(), "{ products(first: 0) { nodes { sku } } }")
        assert "errors" in failed


@pytest.mark.parametrize("transport", ["websocket", "sse"])
async def test_kept_answers_of_streams_cost_what_the_query_costs(settings: Settings, transport: str) -> None:
    async with running(replace(settings, caller_rate=20)) as gateway, listening(gateway) as port:
        await follow_changes(gateway)
        answer: Any = {}
        async with asyncio.timeout(20):
            while "errors" not in answer:
                answer = await of_stream(port, transport, gateway.token(), "{ viewer { subject } }")
        assert answer["errors"][0]["extensions"]["code"] == "RATE_LIMITED"
        assert counts_of(gateway).hits


async def test_a_live_query_is_none_that_is_answered_once(gateway: GatewayClient, jazz: str) -> None:
    live = NAME.replace("{ category", "@live { category", 1)
    async with listening(gateway) as port, streamed(port, live, JAZZ, token=gateway.token()) as events:
        assert await events.receive() == ("next", {"data": {"category": {"id": jazz, "name": "Jazz"}}})
        await gateway.result("renameCategory", {"id": jazz, "name": "Blues"})
        assert await events.receive() == ("next", {"data": {"category": {"id": jazz, "name": "Blues"}}})
    assert counts_of(gateway).stored == 0
