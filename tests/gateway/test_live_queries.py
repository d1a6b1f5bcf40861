"""Live queries: the answer, and each newer one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from portico.gateway import live_queries
from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.reads import counting
from portico.gateway.settings import Settings
from portico.schema.analytics.analysts import ANALYST
from portico.schema.kinds import Kind
from tests.catalog.support.cases import id_and_nonce
from tests.comments.support.discussions import post
from tests.content.support.site import create_section
from tests.support.harness import GatewayClient, category_input, create_product, new_key, rename_product, running
from tests.support.sockets import Socket, listening, opened, streamed, until

PRODUCT = """query ($sku: String!) @live { product(sku: $sku) {
  title stock { available } discussion { commentCount } } }"""
LIST = "query ($first: Int!) @live { products(first: $first, sort: TITLE_ASC) { totalCount nodes { title } } }"
CATEGORY = "query ($slug: String!) @live { category(slug: $slug) { name } }"
TITLE = "query ($sku: String!) @live { product(sku: $sku) { title } }"
ME = "query ($slug: String!) @live { viewer { subject } category(slug: $slug) { name } }"
QUIET_SECONDS = 0.3


async def restock(gateway: GatewayClient, product: dict[str, Any]) -> None:
    await gateway.result("restock", {"sku": product["sku"], "quantity": 5, "idempotencyKey": new_key()})


async def expect_nothing(answers: AsyncGenerator[Any, None]) -> None:
    """Asserts that no answer comes for a while. The generator can be read no more."""
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(answers), QUIET_SECONDS)


def runs(gateway: GatewayClient) -> int:
    return gateway.state.live_queries.counts.runs


STATS = """query @live {
  sessionStats(userId: "ada", granularity: DAY, from: "2025-01-01T00:00:00Z", to: "2025-02-01T00:00:00Z") {
    asOf stats { sessions } } }"""


async def test_statistics_are_not_read_again_because_time_passes(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_queries, "CLOCK_SECONDS", 0.02)
    analyst = replace(gateway, roles=(ANALYST,), subject="ann")
    async with analyst.subscription(STATS, {}) as answers:
        assert (await anext(answers))["sessionStats"]["stats"] == []
        before = runs(gateway)
        await asyncio.sleep(QUIET_SECONDS)
        assert runs(gateway) == before


async def test_a_live_query_shows_what_several_domains_write(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    variables = {"sku": product["sku"]}
    async with gateway.subscription(PRODUCT, variables) as answers:
        expected = {"title": product["title"], "stock": {"available": 0}, "discussion": None}
        assert (await anext(answers))["product"] == expected

        await restock(gateway, product)
        assert (await anext(answers))["product"] == (expected := {**expected, "stock": {"available": 5}})

        subject = Kind.encode_id("Product", product["sku"])
        made = await gateway.result("openDiscussion", {"subjectId": subject, "storage": "DOCUMENTS"})
        assert (await anext(answers))["product"] == (expected := {**expected, "discussion": {"commentCount": 0}})

        await post(gateway, made["discussion"]["id"])
        assert (await anext(answers))["product"] == (expected := {**expected, "discussion": {"commentCount": 1}})

        await rename_product(gateway, product, "Another")
        assert (await anext(answers))["product"] == {**expected, "title": "Another"}
        await expect_nothing(answers)


async def test_a_change_of_what_is_not_shown_runs_nothing(gateway: GatewayClient) -> None:
    product, other = await create_product(gateway), await create_product(gateway)
    async with gateway.subscription(TITLE, {"sku": product["sku"]}) as answers:
        await anext(answers)
        before = runs(gateway)
        await restock(gateway, product)
        await rename_product(gateway, other, "Another")
        await gateway.result("createCategory", category_input())
        await expect_nothing(answers)
        assert runs(gateway) == before


async def test_a_page_follows_what_comes_into_it_and_nothing_behind_it(gateway: GatewayClient) -> None:
    for title in ("b", "d"):
        await create_product(gateway, title=title)
    query = LIST.replace("totalCount", "")
    async with gateway.subscription(query, {"first": 1}) as answers:
        assert (await anext(answers))["products"]["nodes"] == [{"title": "b"}]
        before = runs(gateway)
        last = await create_product(gateway, title="e")
        await asyncio.sleep(QUIET_SECONDS)
        assert runs(gateway) == before
        await rename_product(gateway, last, "a")
        assert (await anext(answers))["products"]["nodes"] == [{"title": "a"}]


async def test_a_count_follows_what_is_added_and_deleted(gateway: GatewayClient) -> None:
    product = await create_product(gateway, title="a")
    async with gateway.subscription(LIST, {"first": 5}) as answers:
        assert (await anext(answers))["products"]["totalCount"] == 1
        await create_product(gateway, title="b")
        assert (await anext(answers))["products"]["totalCount"] == 2
        await gateway.result("deleteProduct", id_and_nonce(product))
        assert (await anext(answers))["products"] == {"totalCount": 1, "nodes": [{"title": "b"}]}


async def test_a_count_does_not_run_after_the_deletion_of_what_it_has_not_counted(gateway: GatewayClient) -> None:
    album, other = (
        await create_product(gateway, title="a"),
        await create_product(gateway, title="b", type="Film", details={}),
    )
    query = """query @live { products(first: 1, filter: {typeNames: ["Audio Album"]}) { totalCount } }"""
    async with gateway.subscription(query) as answers:
        assert (await anext(answers))["products"]["totalCount"] == 1
        before = runs(gateway)
        await gateway.result("deleteProduct", id_and_nonce(other))
        await asyncio.sleep(QUIET_SECONDS)
        assert runs(gateway) == before
        await gateway.result("deleteProduct", id_and_nonce(album))
        assert (await anext(answers))["products"]["totalCount"] == 0


async def test_a_count_of_many_follows_what_is_added_and_deleted(
    gateway: GatewayClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(counting, "MOST_KEYS", 2)
    products = [await create_product(gateway, title=str(number)) for number in range(4)]
    async with gateway.subscription(LIST, {"first": 1}) as answers:
        for number, product in zip((4, 3, 2, 1), products, strict=True):
            assert (await anext(answers))["products"]["totalCount"] == number
            await gateway.result("deleteProduct", id_and_nonce(product))
        assert (await anext(answers))["products"]["totalCount"] == 0
        await create_product(gateway)
        assert (await anext(answers))["products"]["totalCount"] == 1


async def test_what_is_missing_appears(gateway: GatewayClient) -> None:
    async with gateway.subscription(CATEGORY, {"slug": "later"}) as answers:
        assert (await anext(answers))["category"] is None
        await gateway.result("createCategory", category_input(slug="later", name="Here"))
        assert (await anext(answers))["category"] == {"name": "Here"}


async def test_equal_callers_share_runs_and_others_do_not(gateway: GatewayClient) -> None:
    made = await gateway.result("createCategory", category_input(slug="shared"))
    anna, berta = gateway.as_caller("anna", *gateway.roles), gateway.as_caller("berta", *gateway.roles)
    variables = {"slug": "shared"}
    async with (
        anna.subscription(CATEGORY, variables) as first,
        berta.subscription(CATEGORY, variables) as second,
        anna.subscription(ME, variables) as third,
        berta.subscription(ME, variables) as fourth,
    ):
        assert await anext(first) == await anext(second)
        assert [(await anext(one))["viewer"]["subject"] for one in (third, fourth)] == ["anna", "berta"]
        assert gateway.state.live_queries.counts.queries == 3
        before = runs(gateway)
        await gateway.result("renameCategory", {"id": made["category"]["id"], "name": "New"})
        for one in (first, second, third, fourth):
            while (await anext(one))["category"]["name"] != "New":
                pass
        # A category is renamed by more than one write.
        assert runs(gateway) - before < 8
    assert gateway.state.live_queries.counts.queries == gateway.state.live_queries.counts.listeners == 0
    assert gateway.state.live_queries.feed.index.size == 0


async def test_a_new_listener_sees_what_was_written_before_it_came(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    async with gateway.subscription(TITLE, {"sku": product["sku"]}) as answers:
        await anext(answers)
        for number in range(20):
            product = await rename_product(gateway, product, f"Title {number}")
            async with gateway.subscription(TITLE, {"sku": product["sku"]}) as others:
                assert (await anext(others))["product"]["title"] == f"Title {number}"


async def test_a_slow_client_skips_states_and_ends_at_the_newest(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    async with gateway.subscription(TITLE, {"sku": product["sku"]}) as answers:
        await anext(answers)
        for number in range(30):
            product = await rename_product(gateway, product, f"Title {number:02}")
        titles: list[str] = []
        while "Title 29" not in titles:
            titles.append((await anext(answers))["product"]["title"])
        assert titles == sorted(titles)
        assert len(titles) < 5


async def test_live_queries_over_websocket_and_server_sent_events(gateway: GatewayClient, port: int) -> None:
    product = await create_product(gateway)
    variables = {"sku": product["sku"]}
    token = gateway.token()
    async with opened(port) as socket, streamed(port, TITLE, variables, token=token) as events:
        await socket.init(token)
        await socket.subscribe("1", TITLE, variables)
        expected = {"data": {"product": {"title": product["title"]}}}
        assert await socket.receive() == {"id": "1", "type": "next", "payload": expected}
        assert await events.receive() == ("next", expected)
        await rename_product(gateway, product, "New")
        expected = {"data": {"product": {"title": "New"}}}
        assert await socket.receive() == {"id": "1", "type": "next", "payload": expected}
        assert await events.receive() == ("next", expected)
        # Any number of live queries leaves room for other queries.
        for number in range(8):
            await socket.subscribe(f"live {number}", TITLE, variables)
            assert (await socket.receive())["type"] == "next"
        await socket.subscribe("2", "{ viewer { subject } }")
        assert (await socket.receive())["payload"]["data"] == {"viewer": {"subject": "tester"}}
        assert await socket.receive() == {"id": "2", "type": "complete"}
        await socket.send({"id": "1", "type": "complete"})
    await until(lambda: gateway.state.live_queries.counts.listeners == 0)


async def test_elsewhere_a_live_query_is_answered_once(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    answer = await gateway.data(TITLE, {"sku": product["sku"]})
    assert answer == {"product": {"title": product["title"]}}
    assert gateway.state.live_queries.counts.runs == 0


async def test_the_number_of_different_live_queries_is_bounded(settings: Settings) -> None:
    async with (
        running(replace(settings, max_live_queries=2)) as gateway,
        listening(gateway) as port,
        opened(port) as socket,
    ):
        await socket.init()
        for number in range(2):
            await socket.subscribe(str(number), CATEGORY, {"slug": f"slug-{number}"})
            assert (await socket.receive())["type"] == "next"
        await socket.subscribe("2", CATEGORY, {"slug": "slug-2"})
        refused = await socket.receive()
        assert (refused["id"], refused["type"]) == ("2", "error")
        assert refused["payload"][0]["extensions"]["code"] == "TOO_MANY_LIVE_QUERIES"
        await socket.subscribe("3", CATEGORY, {"slug": "slug-1"})
        assert (await socket.receive())["id"] == "3"


async def test_lost_changes_run_every_live_query_again(gateway: GatewayClient) -> None:
    product = await create_product(gateway)
    async with gateway.subscription(TITLE, {"sku": product["sku"]}) as answers:
        await anext(answers)
        before = runs(gateway)
        gateway.state.live_queries.feed.index.dispatch_all()
        await until(lambda: runs(gateway) > before)
        # The answer is the same.
        await expect_nothing(answers)


async def test_an_invalid_live_query_ends_at_once(socket: Socket) -> None:
    await socket.init()
    await socket.subscribe("1", "query @live { nothing }")
    assert (await socket.receive())["type"] == "error"
    await socket.subscribe("2", "query @live { products(first: 101) { nodes { title } } }")
    answer = await socket.receive()
    assert answer["payload"]["errors"][0]["extensions"]["code"] == "BAD_USER_INPUT", answer


async def test_a_live_query_ends_with_its_token(gateway: GatewayClient, port: int) -> None:
    product = await create_product(gateway)
    # A token is accepted for ten more seconds. At least four of them are left, because machines can be busy.
    almost = SystemClock().now() - timedelta(seconds=9)
    token = Authenticator(gateway.settings).issue("ann", [], now=almost, lasts=timedelta(seconds=4))
    async with opened(port) as socket, streamed(port, TITLE, {"sku": product["sku"]}, token=token) as events:
        await socket.init(token)
        await socket.subscribe("1", TITLE, {"sku": product["sku"]})
        assert await socket.closed() == (4403, "The token has expired.")
        received = [await events.receive() for _ in range(3)]
    last = received[1]
    assert last is not None
    assert (last[0], last[1]["errors"][0]["extensions"]["code"]) == ("next", "TOKEN_EXPIRED")
    assert received[2] == ("complete", None)
    await until(lambda: gateway.state.live_queries.counts.listeners == 0)


async def test_live_queries_leave_turns_to_others(settings: Settings) -> None:
    async with running(replace(settings, max_running_queries=1)) as gateway, contextlib.AsyncExitStack() as stack:
        for number in range(60):
            answers = gateway.subscription(CATEGORY, {"slug": f"slug-{number}"})
            await anext(await stack.enter_async_context(answers))
        counts, queries = gateway.state.live_queries.counts, gateway.state.executor.queries
        ended = counts.vain
        gateway.state.live_queries.feed.index.dispatch_all()
        await until(lambda: counts.runs >= 120)
        query = asyncio.create_task(gateway.data('{ viewer { subject } category(slug: "x") { name } }'))
        async with asyncio.timeout(10):
            while not queries.queued:  # noqa: ASYNC110 - only its place in the queue tells that it waits
                await asyncio.sleep(0)
        before = counts.vain
        await query
        # One of them ran, and then it was the turn of the query.
        assert counts.vain - before < 10
        await until(lambda: counts.vain - ended == 60)


CONTENT = "query ($path: String!) @live { content(path: $path) { title } }"
BLOG = """query ($path: String!) @live { content(path: $path) { ... on Section {
  %s(first: 5) { nodes { title } } } } }"""


@pytest.fixture
async def blog(gateway: GatewayClient) -> str:
    return str((await create_section(gateway, "BLOG", slug="blog"))["id"])


async def schedule(gateway: GatewayClient, blog: str, title: str, at: datetime) -> dict[str, Any]:
    entry = {"blogId": blog, "title": title, "slug": title.lower(), "text": "Text"}
    publish = f"{at.isoformat(timespec='milliseconds')}Z"
    found: dict[str, Any] = (await gateway.result("createBlogEntry", {**entry, "publishOn": publish}))["content"]
    return found


async def test_content_appears_when_its_time_comes(gateway: GatewayClient, blog: str) -> None:
    soon = SystemClock().now() + timedelta(seconds=2.5)
    await schedule(gateway, blog, "Soon", soon)
    reader = gateway.as_caller("reader")
    async with reader.subscription(CONTENT, {"path": "/blog/soon"}) as answers:
        assert (await anext(answers))["content"] is None
        before = runs(gateway)
        assert (await anext(answers))["content"] == {"title": "Soon"}
        assert SystemClock().now() > soon
        assert runs(gateway) - before <= 2


@pytest.mark.parametrize("field", ["children", "entries"])
async def test_a_list_of_content_runs_when_the_time_of_an_entry_comes_and_not_before(
    gateway: GatewayClient, blog: str, field: str
) -> None:
    now = SystemClock().now()
    await schedule(gateway, blog, "Old", now - timedelta(minutes=1))
    late = await schedule(gateway, blog, "Late", now + timedelta(hours=1))
    reader = gateway.as_caller("reader")
    async with reader.subscription(BLOG % field, {"path": "/blog"}) as answers:
        assert shown(field, await anext(answers)) == ["Old"]
        before = runs(gateway)
        await asyncio.sleep(1.5)
        assert runs(gateway) == before
        # A new one, whose time comes before the others'.
        await schedule(gateway, blog, "Soon", SystemClock().now() + timedelta(seconds=2))
        assert shown(field, await anext(answers)) == ["Old", "Soon"]
        # The next one is published earlier than planned.
        await gateway.result("editMetadata", id_and_nonce(late) | {"publishOn": "2012-03-09T20:55:36.000Z"})
        assert shown(field, await anext(answers)) == ["Late", "Old", "Soon"]


def shown(field: str, answer: Any) -> list[str]:
    return sorted(node["title"] for node in answer["content"][field]["nodes"])
