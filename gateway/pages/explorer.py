"""Serves GraphiQL from the gateway's own files, under a strict Content Security Policy, with a tab for each example."""

from __future__ import annotations

import ipaddress
import re
from functools import cache
from pathlib import Path

import orjson
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

from portico.gateway.demo import demo_token
from portico.gateway.settings import Settings
from portico.resolvers.served import Domains

_HERE = Path(__file__).parent
BUILT = _HERE / "static" / "graphiql"

_POLICY = (
    "default-src 'none'; script-src 'self'{cdn}; style-src 'self' 'unsafe-inline'{cdn}; img-src 'self' data:; "
    "font-src 'self' data:; connect-src 'self'; worker-src 'self'; manifest-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
_CDN = "https://unpkg.com"
_HEADERS = {
    "Content-Security-Policy": _POLICY.format(cdn=""),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_NO_CACHE = {"Cache-Control": "no-cache"}
# A host name or address that always means the machine itself, with an optional port.
_LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_HTTP_PORT = 80
# The parameters of a URL that name an operation, by its text or in place of it.
_OPERATION_PARAMETERS = (b"query=", b"documentId=", b"extensions=")


def wants_page(scope: Scope) -> bool:
    """Returns whether a GET of `/graphql` asks for the page, and not for the answer to a query."""
    accept = next((value for name, value in scope["headers"] if name == b"accept"), b"")
    if b"text/html" not in accept:
        return False
    return not any(part.startswith(_OPERATION_PARAMETERS) for part in scope["query_string"].split(b"&"))


def routes(settings: Settings, domains: Domains) -> list[BaseRoute]:
    """Returns the routes of the page at `/`, its files below `/graphiql/`, and its configuration."""

    async def index(_request: Request) -> Response:
        return page(settings)

    async def config(request: Request) -> Response:
        body = orjson.dumps(configuration(settings, domains, with_token=_is_from_this_machine(request)))
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    found: list[BaseRoute] = [Route("/", index)]
    if settings.shows_graphiql:
        found += [Route("/graphiql/config.json", config), Route("/graphiql/", index)]
        files = BUILT if settings.graphiql == "on" and is_built() else _HERE / "static" / "cdn"
        found.append(Mount("/graphiql", _Files(directory=files)))
    return found


def _is_from_this_machine(request: Request) -> bool:
    """Returns whether the request comes from a page of this gateway in a browser on this machine.

    With DNS rebinding, a page can reach the gateway, but its requests name the page's own host. The requests of a page
    of another origin name that origin. Another machine can send any host, so the client's address must be loopback.
    """
    hosts = request.headers.getlist("host")
    host = _LOCAL_HOST.fullmatch(hosts[0]) if len(hosts) == 1 else None
    server = request.scope.get("server")
    if host is None or server is None or request.client is None or "origin" in request.headers:
        return False
    return int(host[1] or _HTTP_PORT) == (server[1] or _HTTP_PORT) and _is_loopback(request.client.host)


def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


class _Files(StaticFiles):
    """Serves files. Names in `assets/` contain a hash, so browsers may cache these files forever."""

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(_HEADERS)
        if path.startswith("assets/"):
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def is_built() -> bool:
    return (BUILT / "index.html").exists()


def page(settings: Settings) -> Response:
    """Returns GraphiQL, or a page that says how to get it."""
    if not settings.shows_graphiql:
        return HTMLResponse(
            _notice("GraphiQL is turned off on this gateway.", "Send queries to <code>/graphql</code>.")
        )
    if settings.graphiql == "cdn":
        headers = {**_HEADERS, **_NO_CACHE, "Content-Security-Policy": _POLICY.format(cdn=f" {_CDN}")}
        return FileResponse(_HERE / "static" / "cdn" / "index.html", headers=headers)
    if is_built():
        return FileResponse(BUILT / "index.html", headers={**_HEADERS, **_NO_CACHE})
    how = (
        "Install Node.js 20 or later and run <code>make graphiql</code>, or set <code>PORTICO_GRAPHIQL=cdn</code> "
        "to load it from a public CDN. You can send queries to <code>/graphql</code> without it."
    )
    return HTMLResponse(_notice("GraphiQL is not built.", how), headers={**_HEADERS, **_NO_CACHE})


def _notice(title: str, text: str) -> str:
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Portico</title>'
        f'<body style="font: 1rem/1.5 system-ui; margin: 4rem auto; max-width: 40rem">'
        f"<h1>{title}</h1><p>{text}</p>"
    )


def configuration(settings: Settings, domains: Domains, *, with_token: bool = True) -> dict[str, object]:
    """Returns what the page fetches first: the endpoint, headers, and a tab for each example of the domains."""
    token = demo_token.read(settings) if settings.demo and with_token else None
    return {
        "endpoint": "/graphql",
        "headers": {} if token is None else {"authorization": f"Bearer {token}"},
        "tabs": [{"title": title, "query": query} for title, query in _examples(domains)],
    }


@cache
def _examples(domains: Domains) -> tuple[tuple[str, str], ...]:
    found = [examples for domain in domains.all for examples in domain.examples]
    return tuple((title, path.read_text()) for title, path in found)
