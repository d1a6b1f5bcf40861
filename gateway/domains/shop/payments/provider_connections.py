"""Connections to a service, each with one request at a time. Requests wait first come, first served.

A pool of httpx with many requests gives each idle connection to several of them. All but one queue again, and each
examines all connections (https://github.com/encode/httpcore/pull/1035). With 1,000 requests, that takes longer than
their timeout, and nothing else runs in the event loop meanwhile. It also closes connections that it should keep. So
each connection has a pool of its own here.

A pool whose request is cancelled before it has connected can keep the place of that connection for ever
(https://github.com/encode/httpcore/issues/1093). All later requests of that pool would time out. So a connection whose
request did not end with an answer is closed, with its pool.
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
        self._open: set[httpx.AsyncClient] = set()

    @contextlib.asynccontextmanager
    async def one(self) -> AsyncIterator[httpx.AsyncClient]:
        """Waits for a connection, and yields its client. Closes it if the context raises an error."""
        async with self._free:
            # The one that was used last is the least likely to be closed by the service.
            client = self._idle.pop() if self._idle else self._opened()
            try:
                yield client
            except BaseException:
                await self._close(client)
                raise
            self._idle.append(client)

    def _opened(self) -> httpx.AsyncClient:
        client = self._create(_LIMITS, self._tls)
        self._open.add(client)
        return client

    async def _close(self, client: httpx.AsyncClient) -> None:
        await client.aclose()
        self._open.discard(client)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        for client in list(self._open):
            await self._close(client)
