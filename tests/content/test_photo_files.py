"""The files that are accepted as pictures: the bytes alone decide, and the picture must decode to its end."""

from __future__ import annotations

import io
import struct
import zlib
from collections.abc import AsyncIterator, Callable
from dataclasses import replace

import pytest
from PIL import Image, ImageCms

from portico.gateway.settings import Settings
from portico.resolvers.content.settings import ContentSettings
from tests.content.support.photos import (
    bytes_of,
    create_gallery,
    create_photo,
    noise,
    noise_of,
    photo_input,
    picture,
    result,
    send,
    stored,
    upload_body,
)
from tests.content.support.site import at, own
from tests.support.harness import GatewayClient, SettableClock, assert_invariants, running, with_settings


@pytest.mark.parametrize(
    ("form", "content_type", "suffix"),
    [
        ("JPEG", "image/jpeg", "jpg"),
        ("PNG", "image/png", "png"),
        ("GIF", "image/gif", "gif"),
        ("WEBP", "image/webp", "webp"),
        ("AVIF", "image/avif", "avif"),
    ],
)
async def test_the_content_type_depends_only_on_the_bytes(
    gateway: GatewayClient, form: str, content_type: str, suffix: str
) -> None:
    data = picture(33, 22, form)
    given = photo_input(await create_gallery(gateway))
    body = upload_body("uploadPhoto", given, data).replace(b"image/png", b"image/svg+xml")

    response = await send(gateway, "uploadPhoto", given, data, content=_once(body.replace(b'="file', b'="a.svg')))

    photo = response.json()["data"]["uploadPhoto"]["photo"]
    assert (photo["contentType"], photo["width"], photo["height"]) == (content_type, 33, 22)
    assert photo["url"].endswith(f".{suffix}")
    assert await bytes_of(gateway, photo) == data


async def _once(body: bytes) -> AsyncIterator[bytes]:
    yield body


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, rows: bytes) -> bytes:
    """Return a PNG with one bit per pixel that declares this size."""
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def frames(count: int, size: int) -> bytes:
    """Return an animated GIF with this many frames."""
    out = io.BytesIO()
    images = [Image.new("L", (size, size), number % 256) for number in range(count)]
    images[0].save(out, "GIF", save_all=True, append_images=images[1:])
    return out.getvalue()


def noisy(form: str) -> bytes:
    """Return a picture that compresses badly. Formats with animation get two frames."""
    out = io.BytesIO()
    images = [Image.open(io.BytesIO(noise_of(200, 200, seed))) for seed in (1, 2)]
    images[0].save(out, form, save_all=form != "JPEG", append_images=images[1:])
    return out.getvalue()


def zeroed(data: bytes) -> bytes:
    """Return the first tenth of the file, followed by zeros up to its length."""
    return data[: len(data) // 10] + bytes(len(data) - len(data) // 10)


def flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]


def turned(kind: int, count: int, value: bytes, beside: bytes = b"") -> bytes:
    """Return EXIF data as a camera writes it, with only an orientation of this TIFF type."""
    entry = struct.pack(">HHI", 0x0112, kind, count) + value
    return b"Exif\0\0MM\0*" + struct.pack(">IH", 8, 1) + entry + bytes(4) + beside


SCRIPT = b"<script>alert(1)</script>"
SVG = b'<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg">' + SCRIPT + b"</svg>"
NONE_OF_THESE = "The file must have one of these types: image/jpeg, image/png, image/gif, image/webp, image/avif."
BROKEN = "The picture cannot be decoded: it is damaged or incomplete."
# Large files are made when the test asks for them.
REFUSED: dict[str, tuple[bytes | Callable[[], bytes], str]] = {
    "nothing": (b"", NONE_OF_THESE),
    "a byte": (b"\x89", NONE_OF_THESE),
    "a text": (b"Not a picture.", NONE_OF_THESE),
    "an SVG with a script": (SVG, NONE_OF_THESE),
    "an SVG behind blanks": (b" \n" * 20 + SVG, NONE_OF_THESE),
    "a page": (b"<!doctype html>" + SCRIPT, NONE_OF_THESE),
    "a page behind the signature of a GIF": (b"GIF89a/*" + SCRIPT, BROKEN),
    "a page behind the signature of a PNG": (b"\x89PNG\r\n\x1a\n" + SCRIPT, BROKEN),
    "a bitmap": (picture(form="BMP"), NONE_OF_THESE),
    "a TIFF": (picture(form="TIFF"), NONE_OF_THESE),
    "an icon": (picture(form="ICO"), NONE_OF_THESE),
    "a PDF": (picture(form="PDF"), NONE_OF_THESE),
    "a PostScript": (picture(form="EPS"), NONE_OF_THESE),
    "a PNG without its end": (noise(1)[:-90_000], BROKEN),
    "a JPEG without its end": (picture(400, 400, "JPEG")[:-400], BROKEN),
    "a PNG whose tail is zero": (zeroed(picture(300, 300)), BROKEN),
    "a PNG with a wrong checksum": (flipped(picture(300, 300), -13), BROKEN),
    "a PNG without its last chunk": (picture(300, 300)[:-12], BROKEN),
    "a JPEG whose tail is zero": (zeroed(noisy("JPEG")), BROKEN),
    "a GIF whose tail is zero": (zeroed(picture(300, 300, "GIF")), BROKEN),
    "a GIF without its last byte": (picture(300, 300, "GIF")[:-1], BROKEN),
    "a WebP that moves and whose tail is zero": (zeroed(noisy("WEBP")), BROKEN),
    "a WebP without its end": (noisy("WEBP")[:-2], BROKEN),
    "an AVIF without its end": (picture(300, 300, "AVIF")[:-20], BROKEN),
    "a PNG with wrong bits": (picture(90, 90)[:60] + b"wrong" + picture(90, 90)[65:], BROKEN),
    "a picture too long": (
        png(1, 100_000, b"\0\0" * 100_000),
        "The picture is 1 by 100,000 pixels; a side may have 30,000.",
    ),
    "a picture too large": (png(9_000, 9_000, b""), "The picture has 9,000 by 9,000 pixels; 50,000,000 are allowed."),
    "a bomb": (
        lambda: png(29_999, 29_999, b"\0" * 10**8),
        "The picture has 29,999 by 29,999 pixels; 50,000,000 are allowed.",
    ),
    "a film": (
        lambda: frames(60, 1_000),
        "The picture has 60 frames of 1,000 by 1,000 pixels; 50,000,000 are allowed.",
    ),
}  # fmt: skip


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", REFUSED)
async def test_a_file_that_is_not_a_picture_is_refused_and_leaves_nothing(gateway: GatewayClient, name: str) -> None:
    made, message = REFUSED[name]
    data = made if isinstance(made, bytes) else made()
    gallery = await create_gallery(gateway, slug="gallery")

    refused = await result(gateway, "uploadPhoto", photo_input(gallery), data)

    assert refused == {"__typename": "UnacceptableFile", "message": message}
    assert await at(gateway, "/gallery/a-photo") is None
    assert await stored(gateway.db) == (0, 0)
    # The path is free.
    assert await create_photo(gateway, gallery)
    await gateway.run_jobs(days=2)
    assert await gateway.db["cms.assets.files"].count_documents({}) == 1
    await assert_invariants(gateway)


@pytest.mark.parametrize(
    ("trailer", "form"), [(SCRIPT, "PNG"), (SCRIPT, "JPEG"), (b"PK\x03\x04" + SCRIPT, "GIF"), (SVG, "PNG")]
)
async def test_bytes_after_a_picture_are_served_only_as_part_of_it(
    gateway: GatewayClient, trailer: bytes, form: str
) -> None:
    data = picture(form=form) + trailer
    photo = await create_photo(gateway, await create_gallery(gateway), data)

    response = await gateway.http.get(photo["url"])
    small = await gateway.http.get(photo["thumbnailUrl"])

    assert response.content == data
    assert response.headers["content-type"] == photo["contentType"]
    assert response.headers["x-content-type-options"] == "nosniff"
    assert response.headers["content-security-policy"] == "default-src 'none'; style-src 'unsafe-inline'; sandbox"
    assert response.headers["content-disposition"] == f'inline; filename="a-photo.{photo["url"].rpartition(".")[2]}"'
    assert SCRIPT not in small.content


async def test_the_size_of_a_photo_follows_its_orientation(gateway: GatewayClient) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    data = picture(80, 20, "JPEG", exif=exif)

    photo = await create_photo(gateway, await create_gallery(gateway), data)

    assert (photo["width"], photo["height"]) == (20, 80)


@pytest.mark.sample(3)
@pytest.mark.parametrize("orientation", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 65_535])
async def test_an_invalid_orientation_is_ignored(gateway: GatewayClient, orientation: int) -> None:
    exif = Image.Exif()
    exif[0x0112] = orientation

    await assert_shown_as_told(gateway, picture(80, 20, "JPEG", exif=exif), is_turned=5 <= orientation <= 8)


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "exif",
    [
        turned(2, 2, b"6\0\0\0"),
        turned(5, 1, struct.pack(">I", 26), struct.pack(">II", 6, 1)),
        turned(5, 1, struct.pack(">I", 26), struct.pack(">II", 6, 0)),
        turned(8, 1, struct.pack(">hh", -6, 0)),
        turned(11, 1, struct.pack(">f", 6)),
        turned(7, 1, b"\6\0\0\0"),
        turned(5, 1, b"\xff\xff\xff\xff"),
        b"Exif\0\0" + SCRIPT,
    ],
    ids=["a text", "a fraction", "a fraction of zero", "below zero", "a float", "bytes", "elsewhere", "no EXIF"],
)
async def test_an_orientation_of_another_type_is_ignored(gateway: GatewayClient, exif: bytes) -> None:
    await assert_shown_as_told(gateway, picture(80, 20, "JPEG", exif=exif), is_turned=False)


async def assert_shown_as_told(gateway: GatewayClient, data: bytes, *, is_turned: bool) -> None:
    photo = await create_photo(gateway, await create_gallery(gateway), data)
    small = (await gateway.http.get(photo["thumbnailUrl"])).content

    assert (photo["width"], photo["height"]) == ((20, 80) if is_turned else (80, 20))
    assert Image.open(io.BytesIO(small)).size == (photo["width"], photo["height"])


async def test_pictures_from_cameras_are_accepted(gateway: GatewayClient) -> None:
    gallery = await create_gallery(gateway)
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    several = io.BytesIO()
    image = Image.new("RGB", (60, 40), "navy")
    image.save(several, "MPO", save_all=True, append_images=[image])
    pictures = {
        "several-in-one": several.getvalue(),
        "of-ink": picture(30, 20, "JPEG", mode="CMYK", color="#336699"),
        "grey": picture(30, 20, "JPEG", mode="L", color="#999"),
        "with-a-profile": picture(30, 20, "JPEG", icc_profile=profile),
        "step-by-step": picture(300, 200, "JPEG", progressive=True),
        "moving": frames(4, 50),
        "that-can-be-mended": picture(300, 200, "JPEG", restart_marker_rows=1),
    }
    for slug, data in pictures.items():
        photo = await create_photo(gateway, gallery, data, slug=slug)

        assert photo["contentType"] == ("image/gif" if slug == "moving" else "image/jpeg")
        assert (await gateway.http.get(photo["thumbnailUrl"])).status_code == 200
        assert await bytes_of(gateway, photo) == data


async def test_a_file_may_be_as_large_as_the_setting_allows(settings: Settings, clock: SettableClock) -> None:
    data = noise(2)
    async with running(replace(settings, max_upload_bytes=len(data)), clock=clock) as gateway:
        gallery = await create_gallery(gateway)
        exact = await create_photo(gateway, gallery, data)
        refused = await result(gateway, "uploadPhoto", photo_input(gallery, slug="more"), data + b"\0")
        wrong = own(exact)
        replaced = await result(gateway, "replacePhoto", wrong, data + b"\0")

        message = f"The file has more than {len(data):,} bytes."
        assert refused == replaced == {"__typename": "UnacceptableFile", "message": message}
        assert await bytes_of(gateway, exact) == data
        assert await stored(gateway.db) == (1, 2)
        await assert_invariants(gateway)


async def test_a_photo_may_have_as_many_pixels_as_the_setting_allows(settings: Settings) -> None:
    async with running(with_settings(settings, ContentSettings, max_photo_pixels=1_200)) as gateway:
        gallery = await create_gallery(gateway)
        await create_photo(gateway, gallery, picture(40, 30))
        refused = await result(gateway, "uploadPhoto", photo_input(gallery, slug="more"), picture(40, 31))

    assert refused["message"] == "The picture has 40 by 31 pixels; 1,200 are allowed."
