"""Connections to a service, each with one request at a time. Requests wait first come, first served.

A pool of httpx with many requests gives each idle connection to several of them. All but one queue again, and each
examines all connections (https://github.com/encode/httpcore/pull/1035). With 1,000 requests, that takes longer than
their timeout, and nothing else runs in the event loop meanwhile. It also closes connections that it should keep. So
each connection has a pool of its own here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from typing import Self

import httpx

# As many as a pool of httpx opens by default.
MOST = 100
_LIMITS = httpx.Limits(max_connections=1, max_keepalive_connections=1)

# Creates the client of one connection, from its limits and the TLS context of all of them.
Create = Callable[[httpx.Limits, ssl.SSLContext], httpx.AsyncClient]


class Connections:
    """At most `MOST` connections, opened when they are needed."""

    def __init__(self, create: Create) -> None:
        self._create = create
        self._tls = httpx.create_ssl_context()
        self._free = asyncio.Semaphore(MOST)
        self._idle: list[httpx.AsyncClient] = []
        self._stack = contextlib.AsyncExitStack()

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """Waits for a connection, and yields its client."""
        async with self._free:
            client = self._idle.pop() if self._idle else await self._opened()
            try:
                yield client
            finally:
                # The one that was used last is the least likely to be closed by the service.
                self._idle.append(client)

    async def _opened(self) -> httpx.AsyncClient:
        return await self._stack.enter_async_context(self._create(_LIMITS, self._tls))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self._stack.aclose()
