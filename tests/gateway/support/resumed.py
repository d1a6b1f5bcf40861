"""Clients of server-sent events that remember the id of the last event."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from tests.comments.support.discussions import post
from tests.support.harness import GatewayClient
from tests.support.sockets import POSTED, EventStream, streamed, until

SECONDS = 20.0


class Received(EventStream):
    """A client of server-sent events that looks only at the payloads."""

    async def receive(self) -> Any:
        """Returns the payload of the next event; None at the end."""
        event = await super().receive()
        return None if event is None else event[1]

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
    given = variables or {"id": discussion}
    async with streamed(port, query, given, token=token, last_id=last_id) as stream:
        yield Received(stream.response)


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
