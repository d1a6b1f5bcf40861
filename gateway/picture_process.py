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
import resource
import shutil
import sys
import tempfile
import warnings
from typing import IO, Any

from PIL import AvifImagePlugin, Image, ImageCms, ImageOps

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
_FIRST_TURNED = 5
# Bytes that decoding may take for each pixel, with the copies that are made, and beside them.
_BYTES_A_PIXEL = 16
_BYTES_BESIDE = 600_000_000
_CPU_SECONDS = 40
# A thumbnail of a tall picture is at most so many times as high as it is wide.
_TALLEST = 4
_QUALITY = 82


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
            _decode(image)
            width, height = image.size
            with contextlib.suppress(Exception):
                # What a camera wrote beside the picture may be anything.
                if image.getexif().get(_ORIENTATION, 1) >= _FIRST_TURNED:
                    width, height = height, width
            return {"type": _TYPES[str(image.format)], "width": width, "height": height}
    except Refused as refused:
        return {"refused": str(refused)}
    except MemoryError:
        return {"refused": "The picture takes too much memory to be decoded."}
    except Exception:  # noqa: BLE001 - a decoder may raise anything on what is no picture
        return {"refused": "The file is no picture that can be decoded to its end."}


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
        shown = _in_srgb(ImageOps.exif_transpose(image))
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
