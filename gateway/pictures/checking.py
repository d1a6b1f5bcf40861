"""Decodes pictures, each in a process of its own (`picture_process`), a few at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import orjson
from PIL import Image

from portico.gateway.logs import logger
from portico.gateway.settings import Settings
from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.content.pictures import Picture, PictureBroken
from portico.resolvers.content.settings import ContentSettings
from portico.resolvers.errors import UnacceptableFile

_PROGRAM = Path(__file__).with_name("process.py")
# The longest side of a picture, in pixels. Longer ones are refused by browsers.
MAX_SIDE = 30_000
# So many are decoded at once; each may take much memory.
_AT_ONCE = 2
# Processor time is bounded by the process itself; a machine may be busy.
_SECONDS = 120.0
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")


def upload_rules(settings: Settings) -> UploadRules:
    """What uploads may be, with what decodes them."""
    # A lock is put off while bytes come and are decoded; it need not last as long as an upload may pause.
    lasts = timedelta(seconds=settings.upload_stall_seconds)
    return UploadRules(settings.max_upload_bytes, lasts, PictureProcesses(settings))


class PictureProcesses:
    """One a gateway."""

    def __init__(self, settings: Settings) -> None:
        Image.init()
        self._limits = (settings.of(ContentSettings).max_photo_pixels, MAX_SIDE, settings.max_upload_bytes)
        self._slots = asyncio.Semaphore(_AT_ONCE)

    def recognizes(self, beginning: bytes) -> bool:
        return any(self._accepts(name, beginning) for name in _FORMATS)

    def _accepts(self, name: str, beginning: bytes) -> bool:
        accept = Image.OPEN[name][1]
        # A text is a reason why not.
        return accept is not None and accept(beginning) is True

    async def examine(self, data: AsyncIterator[bytes]) -> Picture:
        status, out = await self._run(data, "examine", *self._limits)
        if status != 0:
            raise UnacceptableFile("The picture takes too much memory or time to be decoded.")
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
        async with self._slots:
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
    """Hands the process its file, and takes its answer, which comes when it has all of it."""
    assert process.stdin is not None
    assert process.stdout is not None
    # It may have ended before it has read everything.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        async for piece in data:
            process.stdin.write(piece)
            await process.stdin.drain()
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        process.stdin.close()
        await process.stdin.wait_closed()
    out = await process.stdout.read()
    return await process.wait(), out
