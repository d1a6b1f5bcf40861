"""Photos for tests: generated pictures, and their uploads."""

from __future__ import annotations

import asyncio
import hashlib
import io
import random
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any

import httpx
from PIL import Image

from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.documents import Database
from portico.resolvers.pictures import Picture, Pictures
from tests.content.support.site import create_section
from tests.support.harness import Answer, GatewayClient
from tests.support.multipart import CONTENT_TYPE, PREFLIGHT, body_of, pieces_of, streamed, upload_parts

Given = dict[str, Any]
PHOTO = """
__typename
... on PhotoPayload { photo {
  id slug path title nonce tags url thumbnailUrl(width: 100) contentType length width height checksum locked updated
} taggedEdge(tag: "news") { cursor node { id } } }
... on UserError { message }
... on NotFound { missingId }
"""
_FAILURES = {
    "uploadPhoto": "... on SlugTaken { slug } ... on InvalidInput { path }",
    "replacePhoto": (
        "... on PhotoLocked { since } ... on EditConflict { current { nonce title } baseText diff mergedText }"
    ),
}
UPLOADS = {
    name: f"mutation ($input: {name[0].upper()}{name[1:]}Input!) {{ {name}(input: $input) {{ {PHOTO} {failures} }} }}"
    for name, failures in _FAILURES.items()
}
CHUNK = 255 * 1024


def picture(
    width: int = 40, height: int = 30, form: str = "PNG", *, color: str = "teal", mode: str = "RGB", **options: Any
) -> bytes:
    """Returns a picture in one color."""
    out = io.BytesIO()
    Image.new(mode, (width, height), color).save(out, form, **options)
    return out.getvalue()


def noise(chunks: int, seed: int = 1) -> bytes:
    """Returns a PNG that cannot be compressed, with this many chunks."""
    data = noise_of(300, (chunks * CHUNK - 20_000) // 900, seed)
    assert -(-len(data) // CHUNK) == chunks
    return data


def noise_of(width: int, height: int, seed: int = 1) -> bytes:
    """Returns a PNG that cannot be compressed: three bytes per pixel."""
    out = io.BytesIO()
    pixels = random.Random(seed).randbytes(3 * width * height)
    Image.frombytes("RGB", (width, height), pixels).save(out, "PNG", compress_level=0)
    return out.getvalue()


class PicturesHere:
    """Decodes pictures in this process, for tests that decode hundreds of harmless pictures."""

    def recognizes(self, beginning: bytes) -> bool:
        return beginning.startswith((b"\x89PNG", b"\xff\xd8"))

    async def examine(self, data: AsyncIterator[bytes]) -> Picture:
        with Image.open(io.BytesIO(b"".join([piece async for piece in data]))) as image:
            image.load()
            return Picture("image/png" if image.format == "PNG" else "image/jpeg", *image.size)

    async def thumbnail(self, data: AsyncIterator[bytes], width: int) -> bytes:
        out = io.BytesIO()
        with Image.open(io.BytesIO(b"".join([piece async for piece in data]))) as image:
            image.thumbnail((width, width))
            image.save(out, "WEBP")
        return out.getvalue()


def upload_body(mutation: str, given: Given, data: bytes) -> bytes:
    """Returns the whole body of an upload."""
    files = {"0": (["variables.input.file"], data)}
    return body_of(upload_parts(UPLOADS[mutation], {"input": {**given, "file": None}}, files))


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def send(
    gateway: GatewayClient,
    mutation: str,
    given: Given,
    data: bytes,
    *,
    token: str | None = "",
    piece: int = 65_536,
    content: AsyncIterator[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Sends a file. If `content` is given, it is the body instead."""
    chosen = gateway.token() if token == "" else token
    sent = {"content-type": CONTENT_TYPE, **PREFLIGHT, **(headers or {})}
    if chosen is not None:
        sent["authorization"] = f"Bearer {chosen}"
    body = content or streamed(upload_body(mutation, given, data), piece)
    return await gateway.http.post("/graphql", content=body, headers=sent)


async def answer(gateway: GatewayClient, mutation: str, given: Given, data: bytes, **options: Any) -> Answer:
    response = await send(gateway, mutation, given, data, **options)
    return Answer(response.status_code, response.json(), response.headers)


async def result(gateway: GatewayClient, mutation: str, given: Given, data: bytes, **options: Any) -> Any:
    """Sends a file. Returns the union member of the mutation."""
    return (await answer(gateway, mutation, given, data, **options)).data[mutation]


async def create_gallery(gateway: GatewayClient, **fields: Any) -> Given:
    return await create_section(gateway, "GALLERY", **fields)


def photo_input(gallery: Given, **fields: Any) -> Given:
    """A valid `UploadPhotoInput`, without its file."""
    return {"galleryId": gallery["id"], "slug": "a-photo", "title": "A photo", **fields}


async def create_photo(gateway: GatewayClient, gallery: Given, data: bytes | None = None, **fields: Any) -> Given:
    uploaded = await result(gateway, "uploadPhoto", photo_input(gallery, **fields), data or picture())
    assert uploaded["__typename"] == "PhotoPayload", uploaded
    found: Given = uploaded["photo"]
    return found


async def bytes_of(gateway: GatewayClient, photo: Given) -> bytes:
    """Returns the bytes that a browser gets for the photo."""
    response = await gateway.http.get(photo["url"])
    assert response.status_code == 200, response.text
    return response.content


async def stored(db: Database) -> tuple[int, int]:
    """Returns the number of files that are not removed, and the number of chunks."""
    files = await db["cms.assets.files"].count_documents({"metadata.removed": None})
    return files, await db["cms.assets.chunks"].count_documents({})


def use_pictures(gateway: GatewayClient, pictures: Pictures) -> None:
    """Sets the gateway's decoder of pictures."""
    rules = gateway.state.resources.of(UploadRules)
    gateway.state.resources[UploadRules] = replace(rules, pictures=pictures)


class Slow:
    """The body of an upload whose second half waits for the test."""

    def __init__(self, mutation: str, given: dict[str, Any], data: bytes) -> None:
        self.may_go_on = asyncio.Event()
        self.is_waiting = asyncio.Event()
        self._body = upload_body(mutation, given, data)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = pieces_of(self._body, 50_000)
        half = len(pieces) // 2
        for piece in pieces[:half]:
            yield piece
        self.is_waiting.set()
        await self.may_go_on.wait()
        for piece in pieces[half:]:
            yield piece
