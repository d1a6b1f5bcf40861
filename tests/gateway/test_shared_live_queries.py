"""Live queries that callers share, until a run reads something in which they differ."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from portico.gateway.live_queries import LiveListener, LiveQueries
from portico.gateway.operations.responses import Response
from portico.gateway.reads.deriving import of_collection
from portico.gateway.reads.read_sets import ReadSet
from portico.schema.context import Caller
from tests.support.harness import GatewayClient
from tests.support.sockets import SECONDS, until

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
