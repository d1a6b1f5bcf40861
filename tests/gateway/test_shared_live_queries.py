"""Live queries that callers share until they differ, and that continue after a break."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from portico.gateway.live_queries import LiveListener, LiveQueries
from portico.gateway.operations.responses import Response
from portico.gateway.reads.deriving import of_collection
from portico.gateway.reads.read_sets import ReadSet
from portico.schema.context import Caller
from tests.gateway.support.resumed import stream_of
from tests.support.harness import GatewayClient, create_product
from tests.support.sockets import SECONDS, Socket, opened, subscribe, until

# Shared

ANNA, BERTA = Caller("anna", frozenset()), Caller("berta", frozenset())


class Query:
    """A query whose runs wait until they may end."""

    def __init__(self, gateway: GatewayClient) -> None:
        self.queries: LiveQueries = gateway.state.live_queries
        self.may_end = asyncio.Event()
        self.says_who = True
        self.text = ""

    async def compute(self, caller: Caller | None, reads: ReadSet) -> Response:
        reads.begin(of_collection("categories"))
        await self.may_end.wait()
        who = caller.subject if self.says_who and caller is not None else ""
        return Response({"data": {"who": who, "text": self.text}})

    async def listen(self, caller: Caller) -> LiveListener:
        return await self.queries.listen("query", caller, self.compute)


async def test_a_live_query_ends_if_all_others_need_their_own(gateway: GatewayClient) -> None:
    query = Query(gateway)
    counts = query.queries.counts
    anna, berta = await query.listen(ANNA), await query.listen(BERTA)
    await until(lambda: counts.runs == 1)
    # They share a run. The one on whose behalf it began goes.
    await anna.aclose()
    query.may_end.set()

    assert b'"who":"berta"' in (await anext(berta)).json
    assert (counts.listeners, counts.queries) == (1, 1)
    await berta.aclose()
    assert (counts.listeners, counts.queries) == (0, 0)
    assert query.queries.feed.index.size == 0


async def test_an_answer_that_is_still_to_be_handed_out_keeps_no_newer_one_back(gateway: GatewayClient) -> None:
    query = Query(gateway)
    queries, counts, is_busy = query.queries, query.queries.counts, True
    queries.pause = 0
    query.may_end.set()
    query.says_who = False

    def busy() -> Iterator[None]:
        while is_busy:
            yield

    async def run(text: str) -> None:
        before, query.text = counts.runs, text
        queries.feed.index.dispatch_all()
        await until(lambda: counts.runs > before)

    anna, berta = await query.listen(ANNA), await query.listen(BERTA)
    for text in "abc":
        await run(text)
        for one in (anna, berta):
            while f'"text":"{text}"'.encode() not in (await anext(one)).json:
                pass
    assert counts.queries == 1
    # Others get their answers first, for some iterations of the event loop.
    queries.steps.each(lambda _: None, busy())
    await run("former")
    query.says_who = True
    await run("newer")
    await until(lambda: counts.queries == 2)
    is_busy = False

    async with asyncio.timeout(SECONDS):
        while b'"who":"berta"' not in (await anext(berta)).json:
            pass
    for one in (anna, berta):
        await one.aclose()


# Resumed

CATEGORY = "query ($slug: String!) @live { category(slug: $slug) { name } }"
TITLE = "query ($sku: String!) @live { product(sku: $sku) { title } }"


async def rename(gateway: GatewayClient, product: dict[str, Any], title: str) -> dict[str, Any]:
    edit = {"id": product["id"], "nonce": product["nonce"], "title": title}
    found: dict[str, Any] = (await gateway.result("updateProduct", edit))["product"]
    return found


def runs(gateway: GatewayClient) -> int:
    return gateway.state.live_queries.counts.runs


async def test_a_stream_that_was_cut_gets_its_answer_again_only_if_it_has_changed(
    gateway: GatewayClient, port: int
) -> None:
    product = await create_product(gateway, title="a")
    variables = {"sku": product["sku"]}
    async with stream_of(port, product["sku"], query=TITLE, variables=variables) as stream:
        assert (await stream.receive())["data"] == {"product": {"title": "a"}}
        last_id = stream.last_id
    assert last_id
    async with stream_of(port, product["sku"], last_id, query=TITLE, variables=variables) as stream:
        await until(lambda: gateway.state.live_queries.counts.listeners == 1 and runs(gateway) >= 2)
        product = await rename(gateway, product, "b")
        # The unchanged one has not come.
        assert (await stream.receive())["data"] == {"product": {"title": "b"}}
    async with stream_of(port, product["sku"], last_id, query=TITLE, variables=variables) as stream:
        assert (await stream.receive())["data"] == {"product": {"title": "b"}}


async def test_a_socket_gets_its_answer_again_only_if_it_has_changed(gateway: GatewayClient, port: int) -> None:
    product = await create_product(gateway, title="a")
    last_id = None
    for title in ("a", "b"):
        async with opened(port) as socket:
            await socket.send({"type": "connection_init", "payload": {"eventIds": True}})
            await socket.receive()
            extensions: dict[str, Any] = {"lastEventId": last_id} if last_id else {}
            before = runs(gateway)
            await socket.send(subscribe("1", TITLE, variables={"sku": product["sku"]}, extensions=extensions))
            if last_id:
                await until(lambda: runs(gateway) > before)  # noqa: B023 - awaited in the same iteration
                product = await rename(gateway, product, title)
            answer = (await socket.receive())["payload"]
            assert answer["data"] == {"product": {"title": title}}
            last_id = answer["extensions"]["eventId"]


async def test_a_client_that_asks_for_no_ids_gets_none(socket: Socket) -> None:
    await socket.init()
    await socket.subscribe("1", CATEGORY, {"slug": "x"})
    assert (await socket.receive())["payload"] == {"data": {"category": None}}
