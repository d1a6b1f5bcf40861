"""Decodes one picture in a process of its own, which may take so much memory and time and no more.

A file that exhausts a decoder, or breaks it, ends this process and no other. It is run by its path, without the rest of
the gateway, takes the file from standard input, and answers on standard output:

    examine PIXELS SIDE BYTES              JSON: {type, width, height}, or {refused: why}
    thumbnail PIXELS SIDE BYTES WIDTH      the thumbnail, in WebP
"""

from __future__ import annotations

import contextlib
import io
import json
import mmap
import re
import resource
import shutil
import sys
import tempfile
import warnings
import zlib
from collections.abc import Callable
from typing import IO, Any

from PIL import AvifImagePlugin, Image, ImageCms

_TYPES = {
    "JPEG": "image/jpeg",
    # A JPEG with more pictures behind it, as cameras write them.
    "MPO": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "AVIF": "image/avif",
}
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")
_ORIENTATION = 0x0112
# What shows the picture as its camera was held. Any other orientation means nothing, as in browsers.
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_FIRST_ON_ITS_SIDE = 5
# Bytes that decoding may take for each pixel, with the copies that are made, and beside them.
_BYTES_A_PIXEL = 16
_BYTES_BESIDE = 600_000_000
_CPU_SECONDS = 40
# A thumbnail of a tall picture is at most so many times as high as it is wide.
_TALLEST = 4
_QUALITY = 82
_BROKEN = "The file is no picture that can be decoded to its end."
# Bytes of a chunk whose checksum is worked out at once.
_AT_ONCE = 1 << 20
# A marker of a JPEG that has a segment, or its end. Within a scan 0xFF stands before 0x00 and 0xD0 to 0xD7 alone.
_MARKER = re.compile(rb"\xff[\x02-\xcf\xd8-\xfe]")
_END_OF_JPEG = b"\xff\xd9"


class Refused(Exception):
    """Not a picture that is taken. The text is for the client."""


def main() -> None:
    """Reads, decodes, answers."""
    mode, (pixels, side, size, *more) = sys.argv[1], map(int, sys.argv[2:])
    _limit(pixels, size)
    warnings.simplefilter("ignore")
    # The bounds are our own, and hold before anything is decoded.
    Image.MAX_IMAGE_PIXELS = None
    # Each thread takes memory, too.
    AvifImagePlugin.DEFAULT_MAX_THREADS = 1
    with tempfile.TemporaryFile() as file:
        shutil.copyfileobj(sys.stdin.buffer, file)
        file.seek(0)
        if mode == "thumbnail":
            sys.stdout.buffer.write(_thumbnail(file, *more))
        else:
            sys.stdout.write(json.dumps(_examined(file, pixels, side)))


def _limit(pixels: int, size: int) -> None:
    memory = _BYTES_BESIDE + _BYTES_A_PIXEL * pixels + 2 * size
    for what, most in (
        (resource.RLIMIT_AS, memory),
        (resource.RLIMIT_CPU, _CPU_SECONDS),
        (resource.RLIMIT_FSIZE, size),
        (resource.RLIMIT_CORE, 0),
    ):
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(what, (most, most))


def _examined(file: IO[bytes], pixels: int, side: int) -> dict[str, Any]:
    try:
        with Image.open(file, formats=_FORMATS) as image:
            _check_size(image, pixels, side)
            _check_whole(image, file)
            _decode(image)
            width, height = image.size
            if _orientation(image) >= _FIRST_ON_ITS_SIDE:
                width, height = height, width
            return {"type": _TYPES[str(image.format)], "width": width, "height": height}
    except Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": "The picture takes too much memory to be decoded."}
    except Exception:  # noqa: BLE001 - a decoder may raise anything on what is no picture
        return {"refused": _BROKEN}


def _orientation(image: Image.Image) -> int:
    """How the camera was held, 1 to 8; 1 where that is not known."""
    with contextlib.suppress(Exception):
        # What a camera wrote beside the picture may be anything.
        found = image.getexif().get(_ORIENTATION)
        if isinstance(found, int) and found in _TURNS:
            return found
    return 1


def _check_whole(image: Image.Image, file: IO[bytes]) -> None:
    """Refuses a file that lacks its end or fails its own checksums: a decoder shows what there is of it.

    A JPEG, GIF, WebP or AVIF has no checksum, so other bytes inside its compressed data make another picture.
    """
    is_whole = _WHOLE.get(str(image.format))
    if is_whole is not None:
        position = file.tell()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if not is_whole(data):
                raise Refused(_BROKEN)
        file.seek(position)


def _is_whole_png(data: mmap.mmap) -> bool:
    """Each chunk has its checksum, up to the last one."""
    position = 8
    while position + 12 <= len(data):
        end = position + 8 + int.from_bytes(data[position : position + 4])
        kind = data[position + 4 : position + 8]
        if end + 4 > len(data) or int.from_bytes(data[end : end + 4]) != _crc_of(data, position + 4, end):
            return False
        if kind == b"IEND":
            return True
        position = end + 4
    return False


def _crc_of(data: mmap.mmap, start: int, end: int) -> int:
    crc = 0
    for position in range(start, end, _AT_ONCE):
        crc = zlib.crc32(data[position : min(position + _AT_ONCE, end)], crc)
    return crc


def _is_whole_jpeg(data: mmap.mmap) -> bool:
    """The segments lead to the marker of its end."""
    position = 2
    while (marker := _MARKER.search(data, position)) is not None:
        position = marker.end()
        if marker[0] == _END_OF_JPEG:
            return True
        position += max(int.from_bytes(data[position : position + 2]), 2)
    return False


def _is_whole_gif(data: mmap.mmap) -> bool:
    """The blocks lead to the trailer."""
    position = 13 + _colors(data[10])
    while position < len(data):
        kind = data[position : position + 1]
        if kind == b";":
            return True
        if kind == b"!":
            position += 2
        elif kind == b"," and position + 10 < len(data):
            position += 11 + _colors(data[position + 9])
        else:
            return False
        while position < len(data) and data[position]:
            position += 1 + data[position]
        position += 1
    return False


def _colors(flags: int) -> int:
    """The bytes of the table of colours that the flags tell of."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _is_whole_webp(data: mmap.mmap) -> bool:
    """The chunks fill the file as far as its head says."""
    position, end = 12, 8 + int.from_bytes(data[4:8], "little")
    while position + 8 <= min(end, len(data)):
        if not data[position : position + 4].strip(b"\0"):
            return False
        size = int.from_bytes(data[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return end <= position <= end + 1 and position <= len(data) + 1


_WHOLE: dict[str, Callable[[mmap.mmap], bool]] = {
    "PNG": _is_whole_png,
    "JPEG": _is_whole_jpeg,
    "MPO": _is_whole_jpeg,
    "GIF": _is_whole_gif,
    "WEBP": _is_whole_webp,
}


def _check_size(image: Image.Image, pixels: int, side: int) -> None:
    width, height = image.size
    if max(width, height) > side:
        raise Refused(f"The picture is {width:,} by {height:,} pixels; a side may have {side:,}.")
    frames = _frames(image)
    if width * height * frames > pixels:
        of = f"{frames:,} frames of {width:,} by {height:,}" if frames > 1 else f"{width:,} by {height:,}"
        raise Refused(f"The picture has {of} pixels; {pixels:,} are allowed.")


def _frames(image: Image.Image) -> int:
    """How many pictures are shown one after the other. Those behind a camera's JPEG are not."""
    return 1 if image.format in {"JPEG", "MPO"} else getattr(image, "n_frames", 1)


def _decode(image: Image.Image) -> None:
    for number in range(_frames(image)):
        image.seek(number)
        image.load()


def _thumbnail(file: IO[bytes], width: int) -> bytes:
    with Image.open(file, formats=_FORMATS) as image:
        box = (width, _TALLEST * width)
        # A JPEG can be decoded at a fraction of its size; it may be turned afterwards.
        image.draft(None, (max(box), max(box)))
        turn = _TURNS.get(_orientation(image))
        shown = _in_srgb(image if turn is None else image.transpose(turn))
    shown.thumbnail(box, Image.Resampling.LANCZOS, reducing_gap=2.0)
    # A new picture has the pixels and nothing else.
    plain = Image.new(shown.mode, shown.size)
    plain.paste(shown)
    out = io.BytesIO()
    plain.save(out, "WEBP", quality=_QUALITY, method=4)
    return out.getvalue()


def _in_srgb(image: Image.Image) -> Image.Image:
    """The picture in the colours of the web, with its transparency."""
    mode = "RGBA" if image.has_transparency_data else "RGB"
    if image.mode.startswith("I"):
        # Grey in 16 bits.
        return image.point(lambda value: value * (1 / 256)).convert("L").convert(mode)
    if image.mode in {"P", "PA", "LA", "1"}:
        image = image.convert(mode)
    profile = image.info.get("icc_profile")
    if profile:
        with contextlib.suppress(ImageCms.PyCMSError, OSError, ValueError):
            own = ImageCms.ImageCmsProfile(io.BytesIO(profile))
            changed = ImageCms.profileToProfile(image, own, ImageCms.createProfile("sRGB"), outputMode=mode)
            return image if changed is None else changed
    return image.convert(mode)


if __name__ == "__main__":
    main()
