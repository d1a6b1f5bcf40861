"""The types of pictures, and the protocol to decode them. The gateway implements the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

# The media types of pictures, with their file name suffixes.
SUFFIXES = {
    "image/jpeg": "jpg",
    "image/png": "png",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/avif": "avif",
}
UNKNOWN_TYPE = "application/octet-stream"
# The number of first bytes that identify the type of a file.
SIGNATURE_BYTES = 16


@dataclass(frozen=True)
class Picture:
    """A picture that can be decoded. `width` and `height` are in pixels, after rotation by the camera's orientation."""

    content_type: str
    width: int
    height: int


class PictureBroken(Exception):
    """The picture cannot be decoded, although it could be decoded at its upload."""


class Pictures(Protocol):
    """Decodes pictures, in bounded memory and time, without blocking other requests."""

    def recognizes(self, beginning: bytes) -> bool:
        """Returns whether a file with these first bytes may be a picture of an accepted type."""

    async def examine(self, data: AsyncIterator[bytes]) -> Picture:
        """Decodes the whole picture. Raises UnacceptableFile."""

    async def thumbnail(self, data: AsyncIterator[bytes], width: int) -> bytes:
        """Renders a thumbnail in WebP, up to `width` pixels wide, rotated as it is displayed, and without metadata.

        Raises:   PictureBroken.
        """
