"""A discussion with subscribers at a gateway that is served."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from portico.gateway.live import Counts
from tests.comments.support import discussions
from tests.gateway.support import resumed
from tests.gateway.support.resumed import Received
from tests.gateway.support.subscribers import acknowledged, assert_answers_ping, follow
from tests.support.harness import GatewayClient
from tests.support.sockets import POSTED, EventStream, Socket, listening, streamed


@dataclass
class Discussed:
    """A discussion about a product, and the gateway at this port."""

    gateway: GatewayClient
    port: int
    id: str

    @property
    def counts(self) -> Counts:
        return self.gateway.state.live.counts

    async def post(self, *texts: str, **fields: Any) -> Any:
        """Posts comments one after the other. Returns the last one."""
        posted = None
        for text in texts:
            posted = await discussions.post(self.gateway, self.id, text, **fields)
        return posted

    async def cut_after(self, *said: str, token: str | None = None) -> str:
        """Subscribes, posts these comments, and cuts the connection. Returns the id of the last event."""
        return await resumed.cut_after(self.gateway, self.port, self.id, *said, token=token)

    def resumed(
        self, last_id: str = "", *, token: str | None = None
    ) -> contextlib.AbstractAsyncContextManager[Received]:
        """Opens a stream that continues after an event."""
        return resumed.stream_of(self.port, self.id, last_id, token=token)

    def streamed(self, query: str = POSTED, **more: Any) -> contextlib.AbstractAsyncContextManager[EventStream]:
        """Opens a stream of the events."""
        return streamed(self.port, query, {"id": self.id}, **more)

    async def follow(self, socket: Socket, count: int = 1) -> None:
        """Subscribes on a socket. Returns when this many subscriptions are live, so that they miss no comment."""
        await follow(self.gateway, socket, self.id, count)

    @contextlib.asynccontextmanager
    async def subscribed(self, tokens: Sequence[str | None], query: str = POSTED) -> AsyncIterator[list[Socket]]:
        """Opens a socket for each token, each with a subscription that is live."""
        async with contextlib.AsyncExitStack() as stack:
            sockets = [await stack.enter_async_context(acknowledged(self.port, token)) for token in tokens]
            for socket in sockets:
                await socket.subscribe("1", query, {"id": self.id})
                await assert_answers_ping(socket)
            yield sockets


@contextlib.asynccontextmanager
async def discussed(gateway: GatewayClient) -> AsyncIterator[Discussed]:
    """Serves the gateway, and opens a discussion."""
    async with listening(gateway) as port:
        yield Discussed(gateway, port, await discussions.open_on_product(gateway, "DOCUMENTS"))


@pytest.fixture
async def served_talk(gateway: GatewayClient, port: int) -> Discussed:
    """A discussion at the gateway of the test."""
    return Discussed(gateway, port, await discussions.open_on_product(gateway, "DOCUMENTS"))
