"""Serves the storefront of `examples/storefront` in the demo: its page, its files, and tokens to sign in with."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import BaseRoute, Route

from portico.gateway.auth import Authenticator
from portico.gateway.clock import SystemClock
from portico.gateway.demo import demo_token
from portico.gateway.pages.built import NO_CACHE, BuiltFiles, headers_with, is_from_this_machine
from portico.gateway.settings import Settings
from portico.schema.kinds import Kind

BUILT = Path(__file__).parent / "static" / "storefront"
PATH = "/shop"

# Photos and thumbnails come from the gateway, too.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = headers_with(_POLICY)
_NO_STORE = {"Cache-Control": "no-store"}
_TOKEN_LASTS = timedelta(minutes=15)


def manifest() -> Path:
    """Returns the file of the trusted documents that the built storefront sends."""
    return BUILT / "persisted-documents.json"


def is_built() -> bool:
    return (BUILT / "index.html").exists() and manifest().exists()


def is_served(settings: Settings) -> bool:
    """Returns whether this is the demo, and the gateway trusts the documents of the storefront."""
    return settings.demo and is_built() and manifest() in settings.document_paths


def routes(settings: Settings, authenticator: Authenticator) -> list[BaseRoute]:
    """Returns the routes of the storefront below `/shop`. There are none outside of the demo."""
    if not is_served(settings):
        return []

    async def session(request: Request) -> Response:
        return _session(request, authenticator)

    built = BuiltFiles(BUILT, _HEADERS)

    async def files(request: Request) -> Response:
        return await built.get_response(f"assets/{request.path_params['name']}", request.scope)

    async def page(_request: Request) -> Response:
        return FileResponse(BUILT / "index.html", headers={**_HEADERS, **NO_CACHE})

    return [
        Route(f"{PATH}/session.json", session),
        Route(f"{PATH}/assets/{{name}}", files),
        # The page itself decides what is at the other addresses.
        Route(PATH, page),
        Route(f"{PATH}/{{path:path}}", page),
    ]


def _session(request: Request, authenticator: Authenticator) -> Response:
    """Returns the members of the demo, or a token of the one in `subject`.

    The token has no role. Like GraphiQL's token, only pages on this machine get it.
    """
    subject = request.query_params.get("subject")
    if not is_from_this_machine(request):
        raise HTTPException(404)
    if subject is None:
        members = [{"subject": member, "userId": Kind.encode_id("User", member)} for member in demo_token.MEMBERS]
        return _json({"members": members})
    if subject not in demo_token.MEMBERS:
        raise HTTPException(404)
    token = authenticator.issue(subject, [], now=SystemClock().now(), lasts=_TOKEN_LASTS)
    return _json({"token": token})


def _json(value: object) -> Response:
    return Response(orjson.dumps(value), media_type="application/json", headers=_NO_STORE)
