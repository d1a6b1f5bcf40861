"""`/images`: serves the images of products and categories, and their thumbnails.

A URL names an image by its bytes. Therefore, its content never changes, and caches can keep it permanently.
"""

from __future__ import annotations

import asyncio
import re
from datetime import UTC

from starlette.requests import Request
from starlette.responses import Response

from portico.gateway.http.requests import Refused
from portico.gateway.pages.files import Files
from portico.gateway.pages.ranges import precondition_status
from portico.gateway.state import State
from portico.resolvers.catalog.image_edits import ImageRules
from portico.resolvers.catalog.images import PATH, ImageDocument, find_image, get_thumbnail
from portico.resolvers.pictures import SUFFIXES, THUMBNAIL_TYPE, WIDTHS, PictureBroken, width_for
from portico.schema.kinds import Kind

ROUTE = f"{PATH}/{{name}}"
_NAME = re.compile(rf"(?P<id>[0-9a-f]{{24}})\.(?P<suffix>{'|'.join(SUFFIXES.values())})")
_MAX_WIDTH = 100_000
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=31536000, immutable",
}


class Images(Files):
    """The ASGI application of `/images`."""

    async def respond(self, request: Request, state: State) -> Response:
        width = _width(request.query_params.get("width"))
        image = await _find(state, request.path_params["name"])
        if width is not None:
            width = width_for(width, image["width"])
        tag = f'"{image["checksum"]}{"" if width is None else f"-{width}"}"'
        shown = {**_HEADERS, "ETag": tag}
        made = image["_id"].generation_time.astimezone(UTC).replace(tzinfo=None)
        status = precondition_status(request.headers, request.method, tag=tag, modified=made)
        if status is not None:
            return Response(status_code=status, headers=shown)
        if width is None:
            return Response(bytes(image["data"]), headers=shown, media_type=image["content_type"])
        return Response(await _thumbnail(state, image, width), headers=shown, media_type=THUMBNAIL_TYPE)


def _width(text: str | None) -> int | None:
    """Returns the requested width of a thumbnail, or None if the request is for the original."""
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_MAX_WIDTH))) or int(text) < WIDTHS[0]:
        raise Refused(400, "BAD_REQUEST", f"`width` must be a number of pixels, {WIDTHS[0]} to {_MAX_WIDTH:,}.")
    return int(text)


async def _find(state: State, name: str) -> ImageDocument:
    named = _NAME.fullmatch(name)
    if named:
        is_primary = state.settings.read_preference == "primary"
        # A new image may not have reached the secondaries yet.
        for db in (state.database,) if is_primary else (state.reading, state.database):
            image = await find_image(db, Kind.document_id(named["id"]))
            if image is not None and SUFFIXES[image["content_type"]] == named["suffix"]:
                return image
    raise Refused(404, "NOT_FOUND", "There is no such image.")


async def _thumbnail(state: State, image: ImageDocument, width: int) -> bytes:
    pictures = state.resources.of(ImageRules).pictures
    try:
        async with asyncio.timeout(state.settings.operation_seconds):
            return await get_thumbnail(state.database, image, width, pictures)
    except TimeoutError:
        raise Refused(
            503, "OVERLOADED", "The server is making too many thumbnails. Retry later.", {"Retry-After": "10"}
        ) from None
    except PictureBroken:
        raise Refused(
            500, "INTERNAL", "The server cannot make the thumbnail, because it cannot decode the image."
        ) from None
