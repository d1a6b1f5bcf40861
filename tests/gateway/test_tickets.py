"""Tickets, with which `EventSource` opens streams: what they allow, and for how long."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from portico.gateway.settings import Settings
from tests.comments.support.discussions import open_on_product, post
from tests.gateway.support.resumed import SECONDS, Received
from tests.gateway.support.subscribers import expiring_token
from tests.support.harness import GatewayClient, SettableClock, running
from tests.support.sockets import EVENTS, POSTED, listening

WHO = "{ viewer { subject } }"


async def ticket_of(gateway: GatewayClient, token: str) -> str:
    answer = await gateway.http.post("/graphql/ticket", headers={"authorization": f"Bearer {token}"})
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json()["seconds"] == 60
    return str(answer.json()["ticket"])


@contextlib.asynccontextmanager
async def got(
    port: int, ticket: str, query: str = WHO, last_id: str = "", *, extensions: str = "{}", **given: Any
) -> AsyncIterator[Received]:
    """Opens a stream as `EventSource` does: by GET, with a ticket in the URL."""
    headers = {**EVENTS, "last-event-id": last_id} if last_id else EVENTS
    parameters = {"query": query, "ticket": ticket, "variables": json.dumps(given), "extensions": extensions}
    async with (
        httpx.AsyncClient(timeout=SECONDS) as client,
        client.stream("GET", f"http://127.0.0.1:{port}/graphql", params=parameters, headers=headers) as response,
    ):
        yield Received(response)


async def test_a_ticket_opens_a_stream_as_its_caller(gateway: GatewayClient, port: int) -> None:
    ticket = await ticket_of(gateway, gateway.token("ann", []))

    async with got(port, ticket) as stream:
        assert await stream.receive() == {"data": {"viewer": {"subject": "ann"}}}


async def test_a_ticket_is_for_streams_that_read(gateway: GatewayClient) -> None:
    ticket = await ticket_of(gateway, gateway.token("ann"))
    create = 'mutation { createCategory(input: { slug: "a", name: "A" }) { __typename } }'

    answer = await gateway.http.get("/graphql", params={"query": WHO, "ticket": ticket})
    write = await gateway.http.get("/graphql", params={"query": create, "ticket": ticket}, headers=EVENTS)

    assert (answer.status_code, answer.json()["errors"][0]["extensions"]["code"]) == (400, "BAD_REQUEST")
    assert write.status_code in {400, 405}
    assert (await gateway.data("{ categories(first: 1) { nodes { id } } }"))["categories"]["nodes"] == []


async def test_an_old_ticket_only_continues_a_stream(settings: Settings, clock: SettableClock) -> None:
    async with running(settings, clock=clock) as gateway, listening(gateway) as port:
        discussion = await open_on_product(gateway, "DOCUMENTS")
        ticket = await ticket_of(gateway, gateway.token("ann", []))
        async with got(port, ticket, POSTED, id=discussion) as stream:
            await stream.start()
            last_id = stream.last_id
        await post(gateway, discussion, "missed")
        clock.advance(seconds=61)

        async with got(port, ticket, POSTED, last_id, id=discussion) as stream:
            assert await stream.texts(1) == ["missed"]
        headers = {"authorization": f"Bearer {gateway.token('ann', [])}"}
        # URLs contain this id.
        known = (await gateway.http.post("/graphql/ticket", headers=headers)).json()["eventId"]
        for other in ("", "x", last_id[:-1] + ("0" if last_id[-1] != "0" else "1"), known):
            async with got(port, ticket, POSTED, other, id=discussion) as stream:
                assert stream.response.status_code == 401
                body = json.loads(await stream.response.aread())
            assert body["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
            assert "has expired" in body["errors"][0]["message"]


async def test_the_id_of_a_ticket_is_where_its_stream_begins(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    headers = {"authorization": f"Bearer {gateway.token('ann', [])}"}
    given = (await gateway.http.post("/graphql/ticket", headers=headers)).json()
    await post(gateway, discussion, "first")

    extensions = json.dumps({"lastEventId": given["eventId"]})
    async with got(port, given["ticket"], POSTED, extensions=extensions, id=discussion) as stream:
        assert await stream.texts(1) == ["first"]


async def test_a_ticket_ends_with_its_token(gateway: GatewayClient, port: int) -> None:
    discussion = await open_on_product(gateway, "DOCUMENTS")
    ticket = await ticket_of(gateway, expiring_token(gateway))

    async with got(port, ticket, POSTED, id=discussion) as stream:
        await stream.start()
        ended = await stream.receive()

    assert [error["extensions"]["code"] for error in ended["errors"]] == ["TOKEN_EXPIRED"]


async def test_a_ticket_needs_a_token_and_cannot_be_forged(gateway: GatewayClient, port: int) -> None:
    for headers in ({}, {"authorization": "Bearer x"}, {"authorization": "Basic x"}):
        answer = await gateway.http.post("/graphql/ticket", headers=headers)
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith("Bearer")
        assert answer.json()["errors"][0]["extensions"]["code"] == "UNAUTHENTICATED"
    ticket = await ticket_of(gateway, gateway.token("ann", []))
    for forged in ("x", ticket[:-2], ticket[::-1]):
        async with got(port, forged) as stream:
            assert stream.response.status_code == 401
