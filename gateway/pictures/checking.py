"""Decodes each picture in a separate process (`process.py`), a few at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import orjson

from portico.gateway.logs import logger
from portico.resolvers.errors import UnacceptableFile
from portico.resolvers.pictures import Picture, PictureBroken
from portico.resolvers.waiting import waiting

_PROGRAM = Path(__file__).with_name("process.py")
# The maximum length of a side, in pixels. Browsers do not show longer ones.
MAX_SIDE = 30_000
# The number of pictures that are decoded at the same time. Each one may use much memory.
_AT_ONCE = 2
# The time limit in wall-clock seconds. The process limits its own CPU time, but a busy machine may delay it.
_SECONDS = 120.0
# How files of the formats begin that the processes decode: JPEG, PNG, GIF, WebP and AVIF. It takes no decoder.
_BEGINNING = re.compile(
    rb"\xff\xd8\xff|\x89PNG\r\n\x1a\n|GIF8[79]a|RIFF....WEBPVP8[ LX]|....ftyp(?:avif|avis|mif1|msf1)", re.DOTALL
)


class PictureProcesses:
    """Runs the decoder processes of a gateway.

    Args:     max_pixels: of a picture; of an animation in all frames together.  max_bytes: of a file.
    """

    def __init__(self, *, max_pixels: int, max_bytes: int, max_side: int = MAX_SIDE) -> None:
        self._limits = (max_pixels, max_side, max_bytes)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def recognizes(self, beginning: bytes) -> bool:
        return _BEGINNING.match(beginning) is not None

    async def examine(self, data: AsyncIterator[bytes]) -> Picture:
        status, out = await self._run(data, "examine", *self._limits)
        if status != 0:
            raise UnacceptableFile("Decoding the picture takes too much memory or time.")
        found = orjson.loads(out)
        if "refused" in found:
            raise UnacceptableFile(found["refused"])
        return Picture(found["type"], found["width"], found["height"])

    async def thumbnail(self, data: AsyncIterator[bytes], width: int) -> bytes:
        status, out = await self._run(data, "thumbnail", *self._limits, width)
        if status != 0:
            logger().error("thumbnail process failed", status=status)
            raise PictureBroken
        return out

    async def _run(self, data: AsyncIterator[bytes], mode: str, *arguments: int) -> tuple[int, bytes]:
        async with waiting(), self._slots:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                str(_PROGRAM),
                mode,
                *map(str, arguments),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env={name: value for name, value in os.environ.items() if name in {"PATH", "TMPDIR", "LANG"}},
                start_new_session=True,
            )
            try:
                async with asyncio.timeout(_SECONDS):
                    return await _exchange(process, data)
            except TimeoutError:
                return -signal.SIGXCPU, b""
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


async def _exchange(process: asyncio.subprocess.Process, data: AsyncIterator[bytes]) -> tuple[int, bytes]:
    """Writes the file to the process. Returns its exit status and its output."""
    assert process.stdin is not None
    assert process.stdout is not None
    # The process may exit before it has read everything.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        async for piece in data:
            process.stdin.write(piece)
            await process.stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
        await process.stdin.wait_closed()
    out = await process.stdout.read()
    return await process.wait(), out
