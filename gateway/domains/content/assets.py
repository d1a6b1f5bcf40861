"""`/assets`: serves the bytes of photos, whole or in ranges, and their thumbnails.

A URL contains the photo and the checksum of its bytes. Therefore, its content never changes, and caches can keep it
permanently. The headers make browsers treat the content only as a picture of its type, even if it contains more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import format_datetime
from uuid import uuid4

from bson import ObjectId
from starlette.datastructures import Headers, QueryParams
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from portico.gateway.http.requests import Refused
from portico.gateway.pages.files import Files
from portico.gateway.pages.ranges import NotSatisfiable, Span, precondition_status, requested_spans
from portico.gateway.state import State
from portico.resolvers.content import assets, photos, thumbnails
from portico.resolvers.content import nodes as content
from portico.resolvers.content.assets import FileDocument
from portico.resolvers.content.nodes import NodeDocument
from portico.resolvers.content.photo_uploads import UploadRules
from portico.resolvers.documents import Database
from portico.resolvers.pictures import THUMBNAIL_SUFFIX, THUMBNAIL_TYPE, WIDTHS, PictureBroken, width_for

ROUTE = f"{photos.ASSETS}/{{photo}}/{{checksum}}/{{name}}"
_ID = re.compile(r"[0-9a-f]{24}")
_MIN_WIDTH, _MAX_WIDTH = WIDTHS[0], 100_000
_SAFE = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=31536000, immutable",
    "Accept-Ranges": "bytes",
}


@dataclass(frozen=True)
class _Asset:
    """A response's content. `read` yields the bytes from a start up to an end."""

    content_type: str
    filename: str
    length: int
    tag: str
    modified: datetime
    read: Callable[[int, int], AsyncIterator[bytes]]


class Assets(Files):
    """The ASGI application of `/assets`."""

    async def respond(self, request: Request, state: State) -> Response:
        width = _width(request.query_params)
        named = request.path_params
        db, photo, file = await _find(state, named["photo"], named["checksum"])
        tag = f'"{named["checksum"]}"'
        if width is not None:
            width = width_for(width, photo["detail"]["width"])
            tag = f'"{named["checksum"]}-{width}"'
        shown = _headers(tag, file["uploadDate"])
        status = precondition_status(request.headers, request.method, tag=tag, modified=file["uploadDate"])
        if status is not None:
            return Response(status_code=status, headers=shown)
        if width is None:
            asset = _whole(db, photo, file, tag)
        else:
            asset = await _thumbnail(state, photo, file["uploadDate"], width, tag)
        if request.method == "HEAD":
            return Response(headers={**shown, **_described(asset), "Content-Length": str(asset.length)})
        return _answer(asset, request.headers, shown)


def _width(query: QueryParams) -> int | None:
    """Returns the requested width of a thumbnail, or None if the request is for the original."""
    text = query.get("width")
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not _MIN_WIDTH <= int(text) <= _MAX_WIDTH:  # noqa: PLR2004
        raise Refused(400, "BAD_REQUEST", f"`width` must be a number of pixels, {_MIN_WIDTH} to {_MAX_WIDTH:,}.")
    return int(text)


async def _find(state: State, key: str, checksum: str) -> tuple[Database, NodeDocument, FileDocument]:
    """Finds the photo and its file. Also returns the database in which it found them."""
    if _ID.fullmatch(key):
        # A new upload may not have reached the secondaries yet.
        is_primary = state.settings.read_preference == "primary"
        for db in (state.database,) if is_primary else (state.reading, state.database):
            photo = await photos.find_photo(db, ObjectId(key))
            if photo is None or photo["detail"]["checksum"] != checksum:
                continue
            if not content.is_visible(photo, state.clock.now()):
                continue
            key_of_file = photo["detail"]["file"]
            file = None if key_of_file is None else await assets.find_file(db, key_of_file)
            if file is not None:
                return db, photo, file
    raise Refused(404, "NOT_FOUND", "There is no such photo, or its bytes have changed.")


def _headers(tag: str, modified: datetime) -> dict[str, str]:
    return {**_SAFE, "ETag": tag, "Last-Modified": format_datetime(modified.replace(tzinfo=UTC), usegmt=True)}


def _described(asset: _Asset) -> dict[str, str]:
    return {"Content-Type": asset.content_type, "Content-Disposition": f'inline; filename="{asset.filename}"'}


def _whole(db: Database, photo: NodeDocument, file: FileDocument, tag: str) -> _Asset:
    detail = photo["detail"]

    def read(start: int, end: int) -> AsyncIterator[bytes]:
        return assets.read_bytes(db, file, start, end)

    return _Asset(detail["content_type"], photos.filename(photo), detail["length"], tag, file["uploadDate"], read)


async def _thumbnail(state: State, photo: NodeDocument, modified: datetime, width: int, tag: str) -> _Asset:
    try:
        async with asyncio.timeout(state.settings.operation_seconds):
            data = await thumbnails.get_thumbnail(
                state.database, photo, width, state.resources.of(UploadRules).pictures, now=state.clock.now()
            )
    except TimeoutError:
        raise Refused(
            503, "OVERLOADED", "The server is making too many thumbnails. Retry later.", {"Retry-After": "10"}
        ) from None
    except PictureBroken:
        raise Refused(
            500, "INTERNAL", "The server cannot make the thumbnail, because it cannot decode the photo."
        ) from None
    except assets.BytesMissing:
        raise Refused(404, "NOT_FOUND", "There is no such photo, or its bytes have changed.") from None

    async def read(start: int, end: int) -> AsyncIterator[bytes]:
        yield data[start:end]

    name = f"{photo['slug']}-{width}.{THUMBNAIL_SUFFIX}"
    return _Asset(THUMBNAIL_TYPE, name, len(data), tag, modified, read)


def _answer(asset: _Asset, headers: Headers, shown: Mapping[str, str]) -> Response:
    try:
        spans = requested_spans(headers, asset.length, tag=asset.tag, modified=asset.modified)
    except NotSatisfiable:
        raise Refused(
            416,
            "RANGE_NOT_SATISFIABLE",
            "None of the ranges contains a byte.",
            {"Content-Range": f"bytes */{asset.length}"},
        ) from None
    described = {**shown, **_described(asset)}
    if spans is None:
        described["Content-Length"] = str(asset.length)
        return StreamingResponse(asset.read(0, asset.length), headers=described)
    if len(spans) == 1:
        described["Content-Range"] = _content_range(spans[0], asset)
        described["Content-Length"] = str(spans[0].length)
        return StreamingResponse(asset.read(*spans[0]), 206, headers=described)
    boundary = uuid4().hex
    heads = [
        f"--{boundary}\r\nContent-Type: {asset.content_type}\r\nContent-Range: {_content_range(span, asset)}\r\n\r\n"
        for span in spans
    ]
    tail = f"--{boundary}--\r\n".encode()
    described["Content-Type"] = f"multipart/byteranges; boundary={boundary}"
    length = sum(len(head) + span.length + 2 for head, span in zip(heads, spans, strict=True)) + len(tail)
    described["Content-Length"] = str(length)
    return StreamingResponse(_parts(asset, spans, heads, tail), 206, headers=described)


def _content_range(span: Span, asset: _Asset) -> str:
    return f"bytes {span.start}-{span.end - 1}/{asset.length}"


async def _parts(asset: _Asset, spans: Sequence[Span], heads: Sequence[str], tail: bytes) -> AsyncIterator[bytes]:
    for head, span in zip(heads, spans, strict=True):
        yield head.encode()
        async for piece in asset.read(*span):
            yield piece
        yield b"\r\n"
    yield tail
