"""Decodes one picture in a separate process, with limits on memory and CPU time.

A file that exhausts or crashes a decoder ends only this process. The gateway runs this file by its path, without the
rest of the gateway. The process reads the picture from standard input, and answers on standard output:

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

# Pillow imports every plugin if one of these formats is missing, which takes 20 ms.
from PIL import AvifImagePlugin, Image, ImageCms, WebPImagePlugin  # noqa: F401

_TYPES = {
    "JPEG": "image/jpeg",
    # A JPEG with more pictures after it, as cameras write them.
    "MPO": "image/jpeg",
    "PNG": "image/png",
    "GIF": "image/gif",
    "WEBP": "image/webp",
    "AVIF": "image/avif",
}
_FORMATS = ("JPEG", "PNG", "GIF", "WEBP", "AVIF")
_ORIENTATION = 0x0112
# How to rotate or flip a picture, by its EXIF orientation. Other values have no effect, as in browsers.
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# From this orientation on, width and height are exchanged.
_FIRST_ON_ITS_SIDE = 5
# The memory that decoding may use: bytes for each pixel, with copies, and bytes for everything else.
_BYTES_A_PIXEL = 16
_BYTES_BESIDE = 600_000_000
_CPU_SECONDS = 40
# The maximum ratio of a thumbnail's height to its width.
_TALLEST = 4
_QUALITY = 82
_BROKEN = "The picture cannot be decoded: it is damaged or incomplete."
# The number of bytes that are read at a time to compute a checksum.
_AT_ONCE = 1 << 20
# A JPEG marker that starts a segment or ends the file. Within a scan, only 0x00 and 0xD0 to 0xD7 follow 0xFF.
_MARKER = re.compile(rb"\xff[\x02-\xcf\xd8-\xfe]")
_END_OF_JPEG = b"\xff\xd9"


class Refused(Exception):
    """The picture is not accepted. The text is for the client."""


def main() -> None:
    """Reads the picture, decodes it, and writes the answer."""
    mode, (pixels, side, size, *more) = sys.argv[1], map(int, sys.argv[2:])
    _limit(pixels, size)
    warnings.simplefilter("ignore")
    # `_check_size` enforces the project's own limits before anything is decoded.
    Image.MAX_IMAGE_PIXELS = None
    # Each thread uses more memory.
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
        return {"refused": "Decoding the picture takes too much memory."}
    except Exception:  # noqa: BLE001 - a decoder may raise anything if the file is not a picture
        return {"refused": _BROKEN}


def _orientation(image: Image.Image) -> int:
    """Returns the EXIF orientation, 1 to 8; 1 if it is unknown."""
    with contextlib.suppress(Exception):
        # EXIF data may be damaged in any way.
        found = image.getexif().get(_ORIENTATION)
        if isinstance(found, int) and found in _UPRIGHT:
            return found
    return 1


def _check_whole(image: Image.Image, file: IO[bytes]) -> None:
    """Refuses a file that is truncated or fails its own checksums, because a decoder would show the rest of it.

    JPEG, GIF, WebP and AVIF have no checksums, so changed bytes in their compressed data go unnoticed.
    """
    is_whole = _WHOLE.get(str(image.format))
    if is_whole is not None:
        position = file.tell()
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            if not is_whole(data):
                raise Refused(_BROKEN)
        file.seek(position)


def _is_whole_png(data: mmap.mmap) -> bool:
    """Returns whether every chunk matches its checksum, up to the last chunk."""
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
    """Returns whether the segments lead to the end marker."""
    position = 2
    while (marker := _MARKER.search(data, position)) is not None:
        position = marker.end()
        if marker[0] == _END_OF_JPEG:
            return True
        position += max(int.from_bytes(data[position : position + 2]), 2)
    return False


def _is_whole_gif(data: mmap.mmap) -> bool:
    """Returns whether the blocks lead to the trailer."""
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
    """Returns the size of the color table in bytes, from the flags."""
    return 3 << ((flags & 7) + 1) if flags & 0x80 else 0


def _is_whole_webp(data: mmap.mmap) -> bool:
    """Returns whether the chunks fill the file to the length in its header."""
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
    """Returns the number of frames of an animation. The other pictures in a camera's JPEG do not count."""
    return 1 if image.format in {"JPEG", "MPO"} else getattr(image, "n_frames", 1)


def _decode(image: Image.Image) -> None:
    for number in range(_frames(image)):
        image.seek(number)
        image.load()


def _thumbnail(file: IO[bytes], width: int) -> bytes:
    with Image.open(file, formats=_FORMATS) as image:
        box = (width, _TALLEST * width)
        # Decodes a JPEG at a fraction of its size. Both sides are the longer one, because it may be rotated afterwards.
        image.draft(None, (max(box), max(box)))
        transpose = _UPRIGHT.get(_orientation(image))
        shown = _in_srgb(image if transpose is None else image.transpose(transpose))
    shown.thumbnail(box, Image.Resampling.LANCZOS, reducing_gap=2.0)
    # The copy has only the pixels, without metadata.
    plain = Image.new(shown.mode, shown.size)
    plain.paste(shown)
    out = io.BytesIO()
    plain.save(out, "WEBP", quality=_QUALITY, method=4)
    return out.getvalue()


def _in_srgb(image: Image.Image) -> Image.Image:
    """Converts the picture to sRGB, and keeps its transparency."""
    mode = "RGBA" if image.has_transparency_data else "RGB"
    if image.mode.startswith("I"):
        # 16-bit grayscale.
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
