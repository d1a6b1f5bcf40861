"""A way to MongoDB that can be cut."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from dataclasses import replace

from gateway.settings import Secret, Settings


class Wire:
    """A port on this machine behind which MongoDB answers, until the wire is cut."""

    def __init__(self, target_port: int) -> None:
        self._target_port = target_port
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_cut = False
        self._is_open = asyncio.Event()
        self._is_open.set()
        self.port = 0

    def cut(self) -> None:
        self._is_cut = True
        for writer in list(self._writers):
            writer.close()

    def mend(self) -> None:
        self._is_cut = False

    def block(self) -> None:
        """From here on connections stay, and nothing comes through."""
        self._is_open.clear()

    @contextlib.asynccontextmanager
    async def laid(self) -> AsyncIterator[Wire]:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            self.cut()
            server.close()
            for task in list(self._tasks):
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._is_cut:
            writer.close()
            return
        upstream_reader, upstream = await asyncio.open_connection("127.0.0.1", self._target_port)
        for source, target in ((reader, upstream), (upstream_reader, writer)):
            self._writers.add(target)
            task = asyncio.create_task(self._carry(source, target))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _carry(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await self._is_open.wait()
                target.write(data)
                await target.drain()
        except OSError:
            pass
        finally:
            target.close()
            self._writers.discard(target)


@contextlib.asynccontextmanager
async def by_wire(settings: Settings, options: str = "") -> AsyncIterator[tuple[Wire, Settings]]:
    """A wire to the MongoDB of the settings, and settings that lead over it."""
    found = re.search(r":(\d+)/", settings.mongodb_uri or "")
    assert found is not None
    async with Wire(int(found[1])).laid() as wire:
        uri = f"mongodb://127.0.0.1:{wire.port}/?directConnection=true{options}"
        yield wire, replace(settings, mongodb_uri=Secret(uri))
