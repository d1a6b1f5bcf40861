"""A gateway with more operations than it may run: what it answers, and to whom."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import replace

import httpx
import pytest

from portico.gateway.operations import admission
from portico.gateway.operations.admission import Admission
from portico.gateway.settings import Settings
from portico.resolvers.comments.discussions import DOCUMENTS
from tests.comments.support.discussions import open_on_product, post
from tests.content.support.photos import create_gallery, noise, photo_input, upload_body
from tests.gateway.support.subscribers import acknowledged
from tests.support.fixtures import gateway_with
from tests.support.harness import MUTATIONS, GatewayClient, category_input, create_category, running
from tests.support.interruptions import database_of, interrupted
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT
from tests.support.pausing import Pause
from tests.support.sockets import POSTED, Socket, listening, streamed, texts, until, wait_until_live

VIEWER = "{ viewer { subject } }"
CREATE = MUTATIONS["createCategory"]
UNKNOWN = "subscription { commentPosted(discussionId: 1) { text } }"


@pytest.fixture(autouse=True)
def _slots_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Operations keep their slots while the tests prepare others, however long that takes on a busy machine."""
    monkeypatch.setattr(admission, "SLOW_SECONDS", 3_600)


# It runs one query, one mutation and one upload at a time, and lets two of each kind wait.
gateway = gateway_with(max_running_queries=1, max_running_mutations=1, max_queued=2, max_uploads=1)


def queries(gateway: GatewayClient) -> Admission:
    return gateway.state.executor.queries


@contextlib.asynccontextmanager
async def full(admission: Admission) -> AsyncIterator[None]:
    """Use the slot and the queue, as long operations of another client do."""

    async def wait() -> None:
        async with admission.slot("another"):
            await asyncio.Event().wait()

    tasks = [asyncio.create_task(wait()) for _ in range(3)]
    await until(lambda: admission.is_full)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@pytest.mark.parametrize("accept", ["application/json", "application/graphql-response+json", "text/event-stream"])
@pytest.mark.parametrize("query", [VIEWER, UNKNOWN, "{ wrong"], ids=["query", "subscription", "invalid"])
async def test_an_operation_beyond_the_queue_is_refused_at_once_with_503(
    gateway: GatewayClient, query: str, accept: str
) -> None:
    async with full(queries(gateway)):
        response = await gateway.http.post("/graphql", json={"query": query}, headers={"accept": accept})

    assert response.status_code == 503
    assert response.headers["retry-after"] == "1"
    assert response.headers["cache-control"] == "no-store"
    (error,) = response.json()["errors"]
    assert error["extensions"] == {"code": "OVERLOADED"}
    assert error["message"] == "The gateway has too many operations in flight. Nothing was executed. Retry soon."
    assert (await gateway.ask(VIEWER)).data == {"viewer": {"subject": "tester"}}


async def test_a_query_by_get_is_refused_too(gateway: GatewayClient) -> None:
    async with full(queries(gateway)):
        response = await gateway.http.get("/graphql", params={"query": VIEWER})

    assert (response.status_code, response.headers["retry-after"]) == (503, "1")


async def test_a_mutation_that_is_refused_has_no_effect(gateway: GatewayClient) -> None:
    async with full(gateway.state.executor.mutations):
        answer = await gateway.ask(CREATE, {"input": category_input(slug="refused")})

    assert (answer.status, answer.codes) == (503, ["OVERLOADED"])
    assert await gateway.db["categories"].count_documents({}) == 0


async def test_queries_run_beside_mutations_that_use_all_their_slots(gateway: GatewayClient) -> None:
    async with full(gateway.state.executor.mutations):
        assert (await gateway.ask(VIEWER)).data == {"viewer": {"subject": "tester"}}


async def test_a_websocket_gets_an_error_for_the_operation_and_stays_open(gateway: GatewayClient) -> None:
    async with listening(gateway) as port, acknowledged(port) as socket:
        async with full(queries(gateway)):
            await socket.subscribe("1", VIEWER)
            refused = await socket.receive()

        assert (refused["id"], refused["type"]) == ("1", "error")
        assert [error["extensions"] for error in refused["payload"]] == [{"code": "OVERLOADED", "retryAfter": 1}]
        await socket.subscribe("1", VIEWER)
        assert await socket.receive() == {"id": "1", "type": "next", "payload": {"data": {"viewer": None}}}


async def test_health_checks_and_metrics_answer_while_the_queue_is_full(gateway: GatewayClient) -> None:
    async with full(queries(gateway)):
        await gateway.ask(VIEWER)
        answers = {path: await gateway.http.get(path) for path in ("/livez", "/readyz", "/metrics")}

    assert {path: answer.status_code for path, answer in answers.items()} == dict.fromkeys(answers, 200)
    shown = answers["/metrics"].text.splitlines()
    assert 'portico_operations_running{kind="query"} 1.0' in shown
    assert 'portico_operations_queued{kind="query"} 2.0' in shown
    assert 'portico_operations_waiting{kind="query"} 0.0' in shown
    assert 'portico_operations_refused_total{kind="query"} 1.0' in shown
    assert 'portico_operations_running{kind="mutation"} 0.0' in shown


async def test_an_operation_waits_for_its_slot_and_is_answered(gateway: GatewayClient) -> None:
    async with queries(gateway).slot("another"):
        waiting = asyncio.create_task(gateway.ask(VIEWER))
        await until(lambda: queries(gateway).queued == 1)
        assert not waiting.done()

    assert (await waiting).data == {"viewer": {"subject": "tester"}}


async def test_each_of_many_clients_is_answered(settings: Settings) -> None:
    async with running(replace(settings, max_running_queries=2)) as gateway, listening(gateway) as port:
        await create_category(gateway, slug="a")
        query = {"query": '{ category(slug: "a") { slug } }'}
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(timeout=60, limits=limits) as client:
            url = f"http://127.0.0.1:{port}/graphql"
            answers = await asyncio.gather(*(client.post(url, json=query) for _ in range(200)))

    assert [answer.json() for answer in answers] == [{"data": {"category": {"slug": "a"}}}] * 200


async def test_writers_are_answered_in_the_order_in_which_they_came(gateway: GatewayClient) -> None:
    mutations = gateway.state.executor.mutations
    mutations._max_queued = 100
    slugs = [f"writer-{number}" for number in range(20)]
    answered: list[str] = []

    async def write(slug: str) -> None:
        await create_category(gateway, slug=slug)
        answered.append(slug)

    writers = []
    async with mutations.slot("another"):
        for slug in slugs:
            writers.append(asyncio.create_task(write(slug)))
            await until(lambda: mutations.queued == len(writers))
    await asyncio.gather(*writers)

    assert answered == slugs


async def test_connections_take_turns(gateway: GatewayClient) -> None:
    answered: list[str] = []
    # No more of one socket run or wait.
    busy_operations = 4

    async def receive(name: str, socket: Socket, count: int) -> None:
        while count:
            if (await socket.receive())["type"] == "next":
                answered.append(name)
                count -= 1

    queries(gateway)._max_queued = 100
    async with listening(gateway) as port, acknowledged(port) as busy, acknowledged(port) as quiet:
        async with queries(gateway).slot("another"):
            for number in range(busy_operations):
                await busy.subscribe(f"{number}", VIEWER)
            await until(lambda: queries(gateway).queued == busy_operations)
            await quiet.subscribe("1", VIEWER)
            await until(lambda: queries(gateway).queued == busy_operations + 1)
        await asyncio.gather(receive("busy", busy, busy_operations), receive("quiet", quiet, 1))

    assert answered.index("quiet") <= 2


async def test_a_client_that_disconnects_leaves_the_queue(gateway: GatewayClient) -> None:
    body = json.dumps({"query": CREATE, "variables": {"input": category_input(slug="gone")}}).encode()
    head = f"POST /graphql HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    head += f"Authorization: Bearer {gateway.token()}\r\n\r\n"
    async with listening(gateway) as port, gateway.state.executor.mutations.slot("another"):
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(head.encode() + body)
        await until(lambda: gateway.state.executor.mutations.queued == 1)
        writer.close()
        await until(lambda: gateway.state.executor.mutations.queued == 0)

    assert await gateway.db["categories"].count_documents({}) == 0


async def test_a_mutation_that_has_begun_finishes_although_its_client_disconnects(gateway: GatewayClient) -> None:
    pause = Pause()
    async with listening(gateway) as port:
        paused = interrupted(gateway.db, "categories", "insert_one", pause)
        with database_of(gateway, paused):
            headers = {"authorization": f"Bearer {gateway.token()}"}
            body = {"query": CREATE, "variables": {"input": category_input(slug="kept")}}
            async with httpx.AsyncClient() as client:
                calling = asyncio.create_task(
                    client.post(f"http://127.0.0.1:{port}/graphql", json=body, headers=headers)
                )
                await pause.reached.wait()
                calling.cancel()
                await asyncio.wait({calling})
            async with full(gateway.state.executor.queries):
                pause.go_on.set()
                await until(lambda: gateway.state.executor.mutations.running == 0)

    assert await gateway.db["categories"].count_documents({"slug": "kept"}) == 1


async def test_a_call_that_waits_for_its_twin_in_another_process_stops_no_others(
    gateway: GatewayClient, settings: Settings
) -> None:
    pause, given = Pause(), category_input(slug="twin", idempotencyKey="key")
    async with running(settings) as other:
        with database_of(other, interrupted(other.db, "categories", "insert_one", pause)):
            first = asyncio.create_task(other.result("createCategory", given))
            await pause.reached.wait()
            second = asyncio.create_task(gateway.result("createCategory", given))
            await until(lambda: gateway.state.executor.mutations.running == 1)

            assert (await create_category(gateway, slug="meanwhile"))["slug"] == "meanwhile"
            assert not second.done()
            pause.go_on.set()

            assert (await first)["category"] == (await second)["category"]


async def test_an_upload_that_waits_for_its_client_stops_no_mutation_but_other_uploads(gateway: GatewayClient) -> None:
    pause, gallery = Pause(), await create_gallery(gateway)
    body = upload_body("uploadPhoto", photo_input(gallery), noise(2))
    headers = {"content-type": CONTENT_TYPE, "authorization": f"Bearer {gateway.token()}", **PREFLIGHT}

    async def halves() -> AsyncIterator[bytes]:
        yield body[: len(body) // 2]
        await pause()
        yield body[len(body) // 2 :]

    async with listening(gateway) as port, httpx.AsyncClient(timeout=60) as client:
        url = f"http://127.0.0.1:{port}/graphql"
        uploading = asyncio.create_task(client.post(url, content=halves(), headers=headers))
        await pause.reached.wait()
        await until(lambda: gateway.state.executor.uploads.running == 1)

        assert (await create_category(gateway, slug="meanwhile"))["slug"] == "meanwhile"
        refused = await client.post(url, content=body, headers=headers)
        pause.go_on.set()
        uploaded = await uploading

    assert (refused.status_code, refused.headers["retry-after"], refused.headers["connection"]) == (503, "1", "close")
    assert refused.json()["errors"][0]["extensions"]["code"] == "OVERLOADED"
    assert uploaded.json()["data"]["uploadPhoto"]["__typename"] == "PhotoPayload", uploaded.json()
    assert gateway.state.executor.uploads.running == 0


async def test_an_event_of_a_subscription_is_not_refused(gateway: GatewayClient, settings: Settings) -> None:
    counts = gateway.state.live.counts
    async with running(settings) as other, listening(gateway) as port:
        discussion = await open_on_product(other, DOCUMENTS)
        async with streamed(port, POSTED, {"id": discussion}) as stream:
            await wait_until_live(gateway)
            async with full(queries(gateway)):
                await post(other, discussion, text="heard")
                await until(lambda: counts.deliveries == 1)

            assert await texts(stream, 1) == ["heard"]
