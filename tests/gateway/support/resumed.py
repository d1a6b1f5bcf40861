"""Clients of server-sent events that remember the id of the last event."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx

from tests.comments.support.discussions import post
from tests.support.harness import GatewayClient
from tests.support.sockets import EVENTS, POSTED, until

SECONDS = 20.0


class Received:
    """A stream of server-sent events, with the id of the last event, as browsers remember it."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.last_id = ""
        self._lines = response.aiter_lines()

    async def receive(self) -> Any:
        """Returns the payload of the next event; None at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(SECONDS):
            async for line in self._lines:
                name, _, value = line.partition(":")
                if line and name:
                    fields[name] = value.removeprefix(" ")
                elif not line:
                    self.last_id = fields.get("id", self.last_id)
                    if fields.get("data"):
                        return json.loads(fields["data"])
                    if "event" in fields:
                        return None
                    fields = {}
        return None

    async def start(self) -> None:
        """Reads the first event, which has an id alone."""
        async with asyncio.timeout(SECONDS):
            async for line in self._lines:
                if line.startswith("id: "):
                    self.last_id = line.removeprefix("id: ")
                if not line:
                    return

    async def texts(self, count: int) -> list[str]:
        return [(await self.receive())["data"]["commentPosted"]["text"] for _ in range(count)]


@contextlib.asynccontextmanager
async def stream_of(
    port: int,
    discussion: str,
    last_id: str = "",
    *,
    token: str | None = None,
    query: str = POSTED,
    variables: Mapping[str, Any] | None = None,
) -> AsyncIterator[Received]:
    headers = dict(EVENTS)
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    if last_id:
        headers["last-event-id"] = last_id
    body = {"query": query, "variables": variables or {"id": discussion}}
    async with (
        httpx.AsyncClient(timeout=SECONDS) as client,
        client.stream("POST", f"http://127.0.0.1:{port}/graphql", json=body, headers=headers) as response,
    ):
        yield Received(response)


async def cut_after(gateway: GatewayClient, port: int, discussion: str, *said: str, token: str | None = None) -> str:
    """Subscribes, posts these comments, and cuts the connection. Returns the id of the last event."""
    async with stream_of(port, discussion, token=token) as stream:
        await stream.start()
        for text in said:
            await post(gateway, discussion, text)
        assert await stream.texts(len(said)) == list(said)
        last_id = stream.last_id
    await until(lambda: gateway.state.live.counts.listeners == 0)
    return last_id
