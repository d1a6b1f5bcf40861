"""What the domain declares about creatives, and `/ads/images`, which serves their images."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.responses import Response

from portico.gateway.http.requests import Refused
from portico.gateway.pages.files import Files
from portico.gateway.pages.ranges import precondition_status
from portico.gateway.pictures.checking import PictureProcesses
from portico.gateway.state import State
from portico.resolvers.ads import creative_checks, creatives, images
from portico.resolvers.ads.images import ImageRules
from portico.resolvers.declarations import Job, Resources, Service
from portico.resolvers.documents import Database
from portico.resolvers.pictures import SUFFIXES
from portico.resolvers.problems import Invariant
from portico.schema.ads import creatives as fields
from portico.schema.ads.creative_edits import CreativeMutation

ROUTE = f"{images.PATH}/{{checksum}}.{{suffix}}"
# The content at an address never changes. Browsers treat it only as a picture of its type, even if it contains more.
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Cache-Control": "public, max-age=31536000, immutable",
}


class Images(Files):
    """The ASGI application of `/ads/images`."""

    async def respond(self, request: Request, state: State) -> Response:
        checksum, suffix = request.path_params["checksum"], request.path_params["suffix"]
        image = await images.find_image(state.database, checksum)
        if image is None or SUFFIXES[image["content_type"]] != suffix:
            raise Refused(404, "NOT_FOUND", "There is no such image.")
        headers = {**_HEADERS, "ETag": f'"{checksum}"'}
        status = precondition_status(request.headers, request.method, tag=f'"{checksum}"', modified=None)
        if status is not None:
            return Response(status_code=status, headers=headers)
        headers |= {"Content-Type": image["content_type"], "Content-Length": str(len(image["data"]))}
        return Response(b"" if request.method == "HEAD" else image["data"], headers=headers)


@asynccontextmanager
async def _rules(_settings: Resources, _db: Database) -> AsyncIterator[ImageRules]:
    yield ImageRules(
        PictureProcesses(max_pixels=images.MAX_PIXELS, max_bytes=images.MAX_BYTES, max_side=images.MAX_SIDE)
    )


async def _forget_images(run: Job.Run) -> int:
    return await creatives.forget_images(run.db, now=run.now)


SERVICES = (Service(ImageRules, _rules),)
KINDS = (fields.AD_CREATIVE,)
MUTATIONS = (CreativeMutation,)
JOBS = (Job("forget-ad-images", _forget_images),)
INVARIANTS = (
    Invariant("Every creative has its image, and a link that can be followed.", creative_checks.find_wrong_creatives),
    Invariant("Every image of a creative has its bytes.", creative_checks.find_wrong_images),
)
