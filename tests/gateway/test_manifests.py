"""Manifests that the build tools of clients have written are served as they are, by each protocol."""

from __future__ import annotations

import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from portico.gateway.operations.manifests import hash_of
from portico.gateway.settings import Settings
from tests.comments.support.discussions import open_on_product, post
from tests.gateway.support.subscribers import acknowledged, data_of
from tests.support.harness import GatewayClient, running
from tests.support.processes import node_modules, run_node
from tests.support.rooms import ROOT
from tests.support.sockets import EVENTS, EventStream, texts, wait_until_live

TOOLS = ("apollo", "relay", "preset")
# The kinds of the operations in `tests/interop/manifests/app`.
KINDS = ("Viewer", "Products", "Create", "Posted")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a folder with the files that the tools have written."""
    made = tmp_path_factory.mktemp("manifests")
    done = run_node(node_modules("interop/manifests"), "make.mjs", str(ROOT / "schema.graphql"), str(made))
    assert done.returncode == 0, done.stderr
    return made


@pytest.fixture
async def gateway(settings: Settings, folder: Path) -> AsyncIterator[GatewayClient]:
    files = ",".join(str(folder / f"{tool}.json") for tool in TOOLS)
    async with running(replace(settings, document_files=files, documents="only")) as client:
        yield client


def documents(folder: Path, tool: str) -> Mapping[str, tuple[str, str]]:
    """Returns the id and the text of each document of the tool, by the kind of the operation."""
    given = json.loads((folder / f"{tool}.json").read_text())
    if tool == "apollo":
        given = {operation["id"]: operation["body"] for operation in given["operations"]}
    found = {kind: (key, text) for key, text in given.items() for kind in KINDS if kind in text.partition("{")[0]}
    assert len(found) == len(given) == len(KINDS)
    return found


def references(key: str, text: str) -> list[dict[str, Any]]:
    """Returns the ways in which a client can refer to a document."""
    hashes = {key, hash_of(text)}
    persisted = [{"extensions": {"persistedQuery": {"version": 1, "sha256Hash": one}}} for one in hashes]
    return [{"documentId": key}, {"documentId": f"sha256:{hash_of(text)}"}, *persisted]


async def by_http(gateway: GatewayClient, _port: int, body: Mapping[str, Any], token: str) -> Any:
    headers = {"accept": "application/graphql-response+json", "authorization": f"Bearer {token}"}
    return (await gateway.http.post("/graphql", json=body, headers=headers)).json()


async def by_events(gateway: GatewayClient, _port: int, body: Mapping[str, Any], token: str) -> Any:
    headers = {**EVENTS, "authorization": f"Bearer {token}"}
    async with gateway.http.stream("POST", "/graphql", json=body, headers=headers) as response:
        return await data_of(EventStream(response))


async def by_socket(_gateway: GatewayClient, port: int, body: Mapping[str, Any], token: str) -> Any:
    async with acknowledged(port, token) as socket:
        await socket.send({"id": "1", "type": "subscribe", "payload": body})
        return (await socket.receive())["payload"]


@pytest.mark.sample(3)
@pytest.mark.parametrize("sent", [by_http, by_events, by_socket])
@pytest.mark.parametrize("tool", TOOLS)
async def test_documents_of_a_build_tool_run(
    gateway: GatewayClient, port: int, folder: Path, tool: str, sent: Callable[..., Any]
) -> None:
    found, slugs = documents(folder, tool), itertools.count()

    async def answered(reference: Mapping[str, Any], **variables: Any) -> Any:
        return (await sent(gateway, port, {**reference, "variables": variables}, gateway.token()))["data"]

    for reference in references(*found["Viewer"]):
        assert (await answered(reference))["viewer"]["subject"] == "tester"
    for reference in references(*found["Products"]):
        assert (await answered(reference, first=1, full=True))["products"]["nodes"] == []
    for reference in references(*found["Create"]):
        made = await answered(reference, input={"name": "Jazz", "slug": f"jazz-{next(slugs)}"})
        assert made["createCategory"]["category"]["name"] == "Jazz"


@pytest.mark.parametrize("tool", TOOLS)
async def test_subscriptions_of_a_build_tool_deliver_events(
    gateway: GatewayClient, port: int, settings: Settings, folder: Path, tool: str
) -> None:
    posted = references(*documents(folder, tool)["Posted"])
    async with contextlib.AsyncExitStack() as stack:
        # It runs the texts of the test.
        other = await stack.enter_async_context(running(settings))
        discussion = await open_on_product(other, "DOCUMENTS")
        socket = await stack.enter_async_context(acknowledged(port))
        client = await stack.enter_async_context(httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}"))
        streams = []
        for number, reference in enumerate(posted):
            body = {**reference, "variables": {"discussionId": discussion}}
            await socket.send({"id": str(number), "type": "subscribe", "payload": body})
            stream = client.stream("POST", "/graphql", json=body, headers=EVENTS)
            streams.append(EventStream(await stack.enter_async_context(stream)))
        await wait_until_live(gateway, 2 * len(posted))
        await post(other, discussion, "Hello")

        assert await texts(socket, len(posted)) == ["Hello"] * len(posted)
        for events in streams:
            assert await texts(events, 1) == ["Hello"]
