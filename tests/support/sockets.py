"""Gateways that listen on a port in the test's process, and low-level clients for the streaming protocols."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import uvicorn
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed
from websockets.typing import Origin, Subprotocol

from portico.gateway.cli.listening import bind, protocols
from portico.gateway.http.requests import Request
from portico.gateway.http.streaming import Session, responses
from portico.gateway.operations.execution import Progress
from tests.support.harness import GatewayClient

PROTOCOL = "graphql-transport-ws"
EVENTS = {"accept": "text/event-stream"}
SECONDS = 20.0
POSTED = "subscription ($id: ID!) { commentPosted(discussionId: $id) { text } }"


async def until(is_so: Callable[[], bool], seconds: float = SECONDS) -> None:
    """Waits until the condition holds. Fails if that takes too long."""
    async with asyncio.timeout(seconds):
        while not is_so():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.005)


@contextlib.asynccontextmanager
async def listening(gateway: GatewayClient) -> AsyncIterator[int]:
    """Serves the gateway as `portico serve` does. Yields its port."""
    config = uvicorn.Config(
        gateway.app,
        lifespan="off",
        log_level="critical",
        access_log=False,
        timeout_graceful_shutdown=1,
        **protocols(gateway.settings),
    )
    server = uvicorn.Server(config)
    with bind("127.0.0.1", 0) as listening_socket:
        serving = asyncio.create_task(server._serve([listening_socket]))
        await until(lambda: server.started)
        server.lifespan.state["gateway"] = gateway.app.state.gateway
        try:
            yield listening_socket.getsockname()[1]
        finally:
            gateway.app.state.gateway.stop_streams()
            server.should_exit = True
            await serving


def subscribe(key: Any = "1", query: Any = "{ viewer { subject } }", **more: Any) -> dict[str, Any]:
    """Returns the message that starts an operation."""
    return {"id": key, "type": "subscribe", "payload": {"query": query, **more}}


class Socket:
    """A client of `graphql-transport-ws` that sends and receives single messages."""

    def __init__(self, connection: ClientConnection) -> None:
        self.connection = connection

    async def send(self, message: Mapping[str, Any] | str | bytes) -> None:
        await self.connection.send(message if isinstance(message, str | bytes) else json.dumps(message))

    async def receive(self) -> Any:
        async with asyncio.timeout(SECONDS):
            return json.loads(await self.connection.recv())

    async def received(self) -> list[Any]:
        """Returns the messages that have arrived, and the reason if the socket is closed."""
        found: list[Any] = []
        try:
            async with asyncio.timeout(0.5):
                while True:
                    found.append(json.loads(await self.connection.recv()))
        except TimeoutError:
            return found
        except ConnectionClosed as closed:
            return [*found, str(closed)]

    async def init(self, token: str | None = None) -> None:
        payload = {} if token is None else {"payload": {"Authorization": f"Bearer {token}"}}
        await self.send({"type": "connection_init", **payload})
        assert await self.receive() == {"type": "connection_ack"}

    async def subscribe(self, key: str, query: str, variables: Mapping[str, Any] | None = None) -> None:
        await self.send(subscribe(key, query, variables=variables))

    async def closed(self) -> tuple[int, str]:
        """Waits until the gateway closes the socket, and ignores its messages. Returns the code and the reason."""
        with contextlib.suppress(ConnectionClosed):
            async with asyncio.timeout(SECONDS):
                while True:
                    await self.connection.recv()
        assert self.connection.close_code is not None
        return self.connection.close_code, self.connection.close_reason or ""


@contextlib.asynccontextmanager
async def opened(
    port: int,
    *,
    subprotocol: str | None = PROTOCOL,
    origin: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> AsyncIterator[Socket]:
    """Opens a socket. Sends no message."""
    async with connect(
        f"ws://127.0.0.1:{port}/graphql",
        subprotocols=None if subprotocol is None else [Subprotocol(subprotocol)],
        origin=None if origin is None else Origin(origin),
        additional_headers=headers,
        proxy=None,
        max_size=None,
    ) as connection:
        yield Socket(connection)


class EventStream:
    """A client of server-sent events."""

    def __init__(self, response: httpx.Response) -> None:
        self.response = response
        self.comments = 0
        # As browsers remember it.
        self.last_id = ""
        self.retry_ms: int | None = None
        self._lines = response.aiter_lines()

    async def receive(self) -> tuple[str, Any] | None:
        """Returns the next event with its data; None at the end of the stream."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(SECONDS):
            async for line in self._lines:
                name, _, value = line.partition(":")
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    fields[name] = value.removeprefix(" ")
                elif "event" not in fields:
                    # The beginning has no event.
                    self.retry_ms = int(fields["retry"]) if "retry" in fields else self.retry_ms
                    self.last_id, fields = fields.get("id", self.last_id), {}
                else:
                    self.last_id = fields.get("id", self.last_id)
                    return fields["event"], json.loads(fields["data"]) if fields["data"] else None
        return None


@contextlib.asynccontextmanager
async def streamed(
    port: int,
    query: str,
    variables: Mapping[str, Any] | None = None,
    *,
    token: str | None = None,
    last_id: str = "",
    extensions: Mapping[str, Any] | None = None,
) -> AsyncIterator[EventStream]:
    """Sends an operation. Yields the stream of events that answers it.

    Args:     last_id: of the last event that the client has got before.
    """
    headers = EVENTS if token is None else {**EVENTS, "authorization": f"Bearer {token}"}
    if last_id:
        headers = {**headers, "last-event-id": last_id}
    body = {"query": query, "variables": variables or {}, "extensions": extensions or {}}
    async with (
        httpx.AsyncClient(timeout=SECONDS) as client,
        client.stream("POST", f"http://127.0.0.1:{port}/graphql", json=body, headers=headers) as response,
    ):
        yield EventStream(response)


async def answered_by_stream(
    port: int, query: str, variables: Mapping[str, Any] | None = None, *, token: str | None = None
) -> Any:
    """Returns the answer to a query that is sent as a stream of events: its only event."""
    async with streamed(port, query, variables, token=token) as stream:
        received: Any = [await stream.receive() for _ in range(2)]
    (event, answer), end = received
    assert (event, end) == ("next", ("complete", None))
    return answer


async def wait_until_live(gateway: GatewayClient, count: int = 1, *sockets: Socket) -> None:
    """Waits until this many subscriptions are live, so that they miss no event.

    If that takes too long, it fails with what the sockets have received: the reason why a subscription has ended.
    """
    counts = gateway.state.live.counts
    try:
        await until(lambda: counts.listeners >= count and counts.streams > 0)
    except TimeoutError:
        received = [await socket.received() for socket in sockets]
        raise AssertionError(f"{counts} instead of {count} live subscriptions. Received: {received}") from None


async def texts(source: Socket | EventStream, count: int) -> list[str]:
    """Receives the next events of `POSTED`. Returns the texts of their comments."""
    found = []
    for _ in range(count):
        received: Any = await source.receive()
        payload = received["payload"] if isinstance(received, dict) else received[1]
        assert "errors" not in payload, payload
        found.append(payload["data"]["commentPosted"]["text"])
    return found


async def assert_listens(
    gateway: GatewayClient, query: str, name: str | None, variables: Mapping[str, Any], *, token: str | None = None
) -> None:
    """Asserts that the subscription starts, and has no event yet."""
    session = Session(gateway.state, f"Bearer {token or gateway.token()}", {})
    progress = Progress()
    request = Request(query, variables, name)
    answers = responses(gateway.state.executor, request, session, await session.context(), progress)
    async with contextlib.aclosing(answers):
        first = asyncio.create_task(answers.__anext__())
        await until(lambda: progress.live.is_set() or first.done())
        assert not first.done(), first.result()
        first.cancel()
        await asyncio.wait({first})
