"""A connection to a gateway that sends requests as bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass


@dataclass
class Client:
    """One connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def answer(self) -> tuple[bytes, bytes]:
        """Reads a response. Returns its head and its body."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        return head, await self.reader.readexactly(int(length[1]) if length else 0)

    async def ask(self, request: bytes) -> tuple[bytes, bytes]:
        self.writer.write(request)
        async with asyncio.timeout(20):
            return await self.answer()

    async def name(self, request: bytes) -> str:
        return str(json.loads((await self.ask(request))[1])["data"]["category"]["name"])

    async def repeat(self, request: bytes, parsed: list[bytes]) -> tuple[bytes, bytes]:
        """Asks until the request is not parsed. Returns the response."""
        for _ in range(50):
            parsed.clear()
            response = await self.ask(request)
            if not parsed:
                return response
        raise AssertionError("always parsed")


@contextlib.asynccontextmanager
async def connected(port: int) -> AsyncIterator[Client]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        yield Client(reader, writer)
