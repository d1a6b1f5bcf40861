"""Serves `/metrics` and the health checks on the address for operators.

Each process has its own numbers, so each has its own port: the first free one from the port of the address on, of as
many ports as there are workers. A worker that replaces another takes the port that the other has left.
"""

from __future__ import annotations

import asyncio
import contextlib

import uvicorn
from starlette.applications import Starlette

from portico.gateway.settings import Settings, split_address

from .listening import PortTaken, bind_free, protocols

_RETRY_SECONDS = 1.0


class Admin:
    """The server for operators of one process. It answers until it is closed, also while the gateway stops."""

    def __init__(self, app: Starlette, settings: Settings, workers: int) -> None:
        config = uvicorn.Config(
            app,
            lifespan="off",
            access_log=False,
            log_level="warning",
            server_header=False,
            timeout_graceful_shutdown=1,
            **protocols(settings),
        )
        self._server = uvicorn.Server(config)
        self._address = settings.admin_address
        self._workers = workers
        self._opening = asyncio.create_task(self._open())

    async def _open(self) -> None:
        assert self._address is not None
        host, port = split_address(self._address)
        config = self._server.config
        config.load()
        self._server.lifespan = config.lifespan_class(config)
        while True:
            try:
                listening = bind_free(host, port, self._workers)
            except PortTaken:
                # The worker that this one replaces has not ended yet.
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                await self._server.startup([listening])
                return

    async def close(self) -> None:
        self._opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._opening
        if self._server.started:
            await self._server.shutdown()
