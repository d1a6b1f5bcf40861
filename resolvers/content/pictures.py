"""What is told of a picture by its bytes. How they are decoded is the gateway's business."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

# What photos may be, with what their names end on.
SUFFIXES = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
}
UNKNOWN_TYPE = "application/octet-stream"
# The first bytes tell what a file may be.
SIGNATURE_BYTES = 16


@dataclass(frozen=True)
class Picture:
    """A picture that can be decoded. `width` and `height` are pixels as it is shown, turned where its camera was."""

    content_type: str
    width: int
    height: int


class PictureBroken(Exception):
    """The picture cannot be decoded, although it could be once."""


class Pictures(Protocol):
    """Decodes pictures, in bounded memory and time, and never in the way of other requests."""

    def recognizes(self, beginning: bytes) -> bool:
        """Whether a file with these first bytes may be a picture of a type that is taken."""

    async def examine(self, data: AsyncIterator[bytes]) -> Picture:
        """Decodes the whole picture. Raises UnacceptableFile."""

    async def thumbnail(self, data: AsyncIterator[bytes], width: int) -> bytes:
        """A smaller rendering in WebP, at most so many pixels wide, as it is shown, with nothing but the pixels.

        Raises:   PictureBroken.
        """
