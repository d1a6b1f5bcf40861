"""Automatic persisted queries: hashes that stand for texts, which workers share by the database."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pymongo.errors import OperationFailure
from structlog.testing import capture_logs

from portico.gateway.operations import references
from portico.gateway.settings import Settings
from portico.resolvers import persisted_queries
from portico.resolvers.persisted_queries import PERSISTED_QUERIES, persist_query, persisted_query
from tests.gateway.support.subscribers import acknowledged
from tests.support.harness import GatewayClient, running
from tests.support.pausing import failing
from tests.support.processes import environment, node_modules, run_node, served
from tests.support.sockets import listening

TEXT = "query Viewer { viewer { subject } }"
ANSWER = {"data": {"viewer": None}}
JSON = {"accept": "application/json"}


def sha256(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def extensions(text: str = TEXT, **more: Any) -> dict[str, Any]:
    return {"persistedQuery": {"version": 1, "sha256Hash": sha256(text), **more}, "clientLibrary": {"name": "apollo"}}


async def sent(gateway: GatewayClient, **body: Any) -> Any:
    return (await gateway.http.post("/graphql", json=body, headers=JSON)).json()


async def stored(gateway: GatewayClient) -> int:
    return await gateway.db[PERSISTED_QUERIES.name].count_documents({})


def error_of(answer: Any) -> tuple[str, str]:
    (error,) = answer["errors"]
    return error["message"], error["extensions"]["code"]


NOT_FOUND = ("PersistedQueryNotFound", "PERSISTED_QUERY_NOT_FOUND")
NOT_SUPPORTED = ("PersistedQueryNotSupported", "PERSISTED_QUERY_NOT_SUPPORTED")


async def test_a_text_is_persisted_once_and_known_to_other_gateways(gateway: GatewayClient, settings: Settings) -> None:
    assert error_of(await sent(gateway, extensions=extensions())) == NOT_FOUND
    assert await sent(gateway, query=TEXT, extensions=extensions()) == ANSWER
    assert await sent(gateway, extensions=extensions()) == ANSWER

    async with running(settings) as other:
        assert await sent(other, extensions=extensions()) == ANSWER
        other.commands.clear()
        assert await sent(other, extensions=extensions()) == ANSWER
        assert other.commands.names() == []


async def test_a_get_with_a_hash_runs(gateway: GatewayClient) -> None:
    parameters = {"extensions": json.dumps(extensions()), "variables": "{}", "operationName": "Viewer"}
    missing = await gateway.http.get("/graphql", params=parameters, headers=JSON)
    stored = await gateway.http.get("/graphql", params={**parameters, "query": TEXT}, headers=JSON)
    found = await gateway.http.get("/graphql", params=parameters, headers=JSON)

    assert (missing.status_code, error_of(missing.json())) == (200, NOT_FOUND)
    # A cache must not keep that a text is missing.
    assert missing.headers["cache-control"] == "no-store"
    assert stored.json() == found.json() == ANSWER


async def test_a_client_of_the_newer_media_type_gets_status_400(gateway: GatewayClient) -> None:
    headers = {"accept": "application/graphql-response+json"}
    answer = await gateway.http.post("/graphql", json={"extensions": extensions()}, headers=headers)

    assert (answer.status_code, error_of(answer.json())) == (400, NOT_FOUND)


async def test_a_websocket_runs_texts_with_hashes_and_hashes_alone(gateway: GatewayClient) -> None:
    async with listening(gateway) as port, acknowledged(port) as socket:
        for payload in ({"query": TEXT}, {}):
            given = {"extensions": extensions(), **payload}
            await socket.send({"id": "1", "type": "subscribe", "payload": given})
            assert (await socket.receive())["payload"] == ANSWER
            assert (await socket.receive())["type"] == "complete"
        await socket.send({"id": "2", "type": "subscribe", "payload": {"extensions": extensions("{ other }")}})
        assert error_of({"errors": (await socket.receive())["payload"]}) == NOT_FOUND


async def test_a_hash_of_another_text_is_refused_and_stores_nothing(gateway: GatewayClient) -> None:
    for key in (sha256("other"), sha256(TEXT).upper(), "1"):
        answer = await sent(gateway, query=TEXT, extensions={"persistedQuery": {"version": 1, "sha256Hash": key}})
        assert error_of(answer)[1] == "PERSISTED_QUERY_HASH_MISMATCH"

    assert await stored(gateway) == 0


@pytest.mark.parametrize("text", ["{", "{ nothing }", "{ viewer { subject } }" + " " * 20_000])
async def test_a_text_that_is_invalid_or_too_long_is_not_stored(gateway: GatewayClient, text: str) -> None:
    answer = await sent(gateway, query=text, extensions=extensions(text))

    assert ("errors" in answer) == (text[:10] in {"{", "{ nothing "[:10]})
    assert error_of(await sent(gateway, extensions=extensions(text))) == NOT_FOUND
    assert await stored(gateway) == 0


async def test_where_they_are_off_a_link_falls_back_to_texts(settings: Settings) -> None:
    async with running(replace(settings, persisted_queries=False)) as gateway:
        assert error_of(await sent(gateway, extensions=extensions())) == NOT_SUPPORTED
        assert await sent(gateway, query=TEXT, extensions=extensions()) == ANSWER
        assert error_of(await sent(gateway, extensions=extensions())) == NOT_SUPPORTED
        assert await stored(gateway) == 0


async def test_a_read_only_gateway_stores_nothing_in_the_database(settings: Settings) -> None:
    async with running(replace(settings, read_only=True, jwt_secret=settings.jwt_secret)) as gateway:
        assert await sent(gateway, query=TEXT, extensions=extensions()) == ANSWER
        assert await sent(gateway, extensions=extensions()) == ANSWER
        assert await stored(gateway) == 0


async def test_a_mutation_can_be_persisted(gateway: GatewayClient) -> None:
    text = "mutation ($input: CreateCategoryInput!) { createCategory(input: $input) { __typename } }"
    headers = {**JSON, "authorization": f"Bearer {gateway.token()}"}
    for body in ({"query": text}, {}):
        given = {**body, "extensions": extensions(text), "variables": {"input": {"name": "A", "slug": ""}}}
        answer = await gateway.http.post("/graphql", json=given, headers=headers)
        assert answer.json() == {"data": {"createCategory": {"__typename": "InvalidInput"}}}


# Apollo's link

ASKED, SENT = ["POST", False, True, 400], ["POST", True, True, 200]
BY_HASH, BY_GET, PLAIN = ["POST", False, True, 200], ["GET", False, True, 200], ["POST", True, False, 200]


async def seen_by_apollo(*given: str) -> Any:
    done = await asyncio.to_thread(run_node, node_modules("interop"), "apollo.mjs", *given)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("is_on", [True, False])
async def test_the_link_of_apollo_client_works(settings: Settings, tmp_path: Path, is_on: bool) -> None:
    env = environment(settings, PORTICO_PERSISTED_QUERIES=str(is_on).lower())
    with served(tmp_path / "serves", env, "--workers", "2") as server:
        seen = await seen_by_apollo(server.graphql)

    assert [seen["post"]["results"], seen["get"]["results"]] == [[None] * 3] * 2
    if is_on:
        assert seen["post"]["requests"] == [ASKED, SENT, BY_HASH, ASKED, SENT]
        assert seen["get"]["requests"] == [BY_GET] * 3
    else:
        assert seen["post"]["requests"][1:] == [PLAIN] * 3
        assert seen["get"]["requests"][1:] == [PLAIN] * 3


async def test_the_link_of_apollo_client_sends_trusted_documents(settings: Settings, tmp_path: Path) -> None:
    text = "query Viewer {\n  viewer {\n    subject\n  }\n}"
    manifest = tmp_path / "manifest.json"
    operation = {"id": "viewer-1", "name": "Viewer", "type": "query", "body": text}
    given = {"format": "apollo-persisted-query-manifest", "version": 1, "operations": [operation]}
    manifest.write_text(json.dumps(given))
    env = environment(settings, PORTICO_DOCUMENTS="only")
    with served(tmp_path / "serves", env, "--documents", str(manifest)) as server:
        seen = await seen_by_apollo(server.graphql, str(manifest))

    assert seen["post"]["results"] == seen["get"]["results"] == [None, None, ["DOCUMENT_NOT_FOUND"]]
    assert seen["post"]["requests"] == [BY_HASH, BY_HASH, ASKED]
    assert seen["get"]["requests"] == [BY_GET, BY_GET, ["GET", False, True, 400]]


# The bound


async def test_the_oldest_texts_make_room_for_new_ones(gateway: GatewayClient, monkeypatch: Any) -> None:
    monkeypatch.setattr(persisted_queries, "_REMOVED", 2)
    now = gateway.state.clock.now()
    for number in range(6):
        when = now + timedelta(seconds=number)
        await persist_query(gateway.db, f"{number}", "{ a }", now=when, most=5)

    found = await gateway.db[PERSISTED_QUERIES.name].find().sort("used_at").to_list()
    assert [one["_id"] for one in found] == ["2", "3", "4", "5"]


async def test_concurrent_workers_stay_within_the_bound(gateway: GatewayClient, monkeypatch: Any) -> None:
    monkeypatch.setattr(persisted_queries, "_REMOVED", 1)
    now = gateway.state.clock.now()

    async def store(worker: int) -> None:
        for number in range(20):
            await persist_query(gateway.db, f"{number}", "{ a }", now=now, most=5)
            await persist_query(gateway.db, f"{worker}-{number}", "{ a }", now=now, most=5)

    await asyncio.gather(*(store(worker) for worker in range(4)))
    await persist_query(gateway.db, "last", "{ a }", now=now + timedelta(seconds=1), most=5)

    assert await stored(gateway) <= 5 + 4
    assert await persisted_query(gateway.db, "last", now=now, may_write=True) == "{ a }"


async def test_a_text_in_use_is_not_the_oldest(gateway: GatewayClient) -> None:
    now = gateway.state.clock.now()
    await persist_query(gateway.db, "a", "{ a }", now=now - timedelta(days=3), most=5)

    for may_write, moved in ((False, False), (True, True), (True, False)):
        before = await gateway.db[PERSISTED_QUERIES.name].find_one({"_id": "a"})
        assert await persisted_query(gateway.db, "a", now=now, may_write=may_write) == "{ a }"
        after = await gateway.db[PERSISTED_QUERIES.name].find_one({"_id": "a"})
        assert before is not None
        assert after is not None
        assert (before["used_at"] != after["used_at"]) is moved


async def test_a_text_that_vanishes_is_asked_for_again(gateway: GatewayClient, settings: Settings) -> None:
    await sent(gateway, query=TEXT, extensions=extensions())
    await gateway.db[PERSISTED_QUERIES.name].delete_many({})

    # This worker still remembers it.
    assert await sent(gateway, extensions=extensions()) == ANSWER
    async with running(settings) as other:
        assert error_of(await sent(other, extensions=extensions())) == NOT_FOUND
        assert await sent(other, query=TEXT, extensions=extensions()) == ANSWER


async def test_a_text_that_cannot_be_stored_runs(gateway: GatewayClient, monkeypatch: Any) -> None:
    monkeypatch.setattr(references, "persist_query", failing(OperationFailure("not now")))
    with capture_logs() as logs:
        assert await sent(gateway, query=TEXT, extensions=extensions()) == ANSWER

    assert [line["event"] for line in logs] == ["cannot persist a query"]


async def test_a_hash_that_cannot_be_looked_up_is_an_error(gateway: GatewayClient, monkeypatch: Any) -> None:
    monkeypatch.setattr(references, "persisted_query", failing(OperationFailure("not now")))
    with capture_logs() as logs:
        assert error_of(await sent(gateway, extensions=extensions()))[1] == "INTERNAL"

    assert [line["event"] for line in logs] == ["fault"]


async def test_unknown_hashes_use_up_the_allowance_of_the_caller(settings: Settings) -> None:
    async with running(replace(settings, address_rate=3)) as gateway:
        for number in range(3):
            assert error_of(await sent(gateway, extensions=extensions(f"{number}"))) == NOT_FOUND
        answer = await gateway.http.post("/graphql", json={"extensions": extensions("more")}, headers=JSON)

    assert (answer.status_code, error_of(answer.json())[1]) == (429, "RATE_LIMITED")
