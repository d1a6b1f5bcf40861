"""An HTTP client for many concurrent callers, which uses little CPU.

A load generator shares the machine with what it measures. The pool of httpx examines all connections for each request,
and gives one idle connection to several requests, which then queue again (encode/httpcore#1035). With 64 concurrent
requests it uses 2 to 8 ms of CPU for each, more than the gateway, and a few requests wait for seconds before they are
sent. This client takes the connection that was used last, or opens one, and uses less than 0.5 ms.
"""

import asyncio
import http.client
import time
from collections.abc import Mapping
from typing import Any, cast

import httptools
import orjson

from bench.page import HEADERS
from bench.processes import HOST

# The gateway closes a connection that has been idle for 65 seconds.
_IDLE_SECONDS = 30


class Connections:
    """Keep-alive connections to one port of this machine, each with at most one request in flight."""

    def __init__(self, port: int, seconds: float) -> None:
        """A request fails with TimeoutError after `seconds`."""
        self._port = port
        self._seconds = seconds
        self._idle: list[_Connection] = []

    async def post(self, path: str, content: Any, headers: Mapping[str, str]) -> Any:
        """Send JSON, and return the JSON of the answer. Raise RuntimeError for a status other than 200."""
        connection = self._last_used() or await self._opened()
        try:
            async with asyncio.timeout(self._seconds):
                status, body = await connection.post(path, orjson.dumps(content), headers)
        except BaseException:
            connection.transport.abort()
            raise
        connection.used_at = time.monotonic()
        self._idle.append(connection)
        if status != http.client.OK:
            raise RuntimeError(f"status {status}: {body[:200].decode(errors='replace')}")
        return orjson.loads(body)

    def _last_used(self) -> "_Connection | None":
        while self._idle:
            connection = self._idle.pop()
            if time.monotonic() < connection.used_at + _IDLE_SECONDS and not connection.transport.is_closing():
                return connection
            connection.transport.abort()
        return None

    async def _opened(self) -> "_Connection":
        return (await asyncio.get_running_loop().create_connection(_Connection, HOST, self._port))[1]

    def close(self) -> None:
        for connection in self._idle:
            connection.transport.abort()


class _Connection(asyncio.Protocol):
    """One keep-alive connection."""

    transport: asyncio.Transport
    used_at = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._answered: asyncio.Future[tuple[int, bytes]] | None = None

    def post(self, path: str, content: bytes, headers: Mapping[str, str]) -> asyncio.Future[tuple[int, bytes]]:
        """Send a request. The result is the status and the body of its answer."""
        self._parser = httptools.HttpResponseParser(self)
        self._body = bytearray()
        self._answered = asyncio.get_running_loop().create_future()
        everything = {"Host": HOST, **HEADERS, **headers, "Content-Length": str(len(content))}
        head = "".join(f"{name}: {value}\r\n" for name, value in everything.items())
        self.transport.write(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + content)
        return self._answered

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_body(self, body: bytes) -> None:
        self._body += body

    def on_message_complete(self) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_result((self._parser.get_status_code(), bytes(self._body)))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(RuntimeError(f"the server closed the connection: {exc}"))
