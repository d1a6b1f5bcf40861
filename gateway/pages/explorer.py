"""Serves GraphiQL from the gateway's own files, under a strict Content Security Policy, with a tab for each example."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import orjson
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, Response
from starlette.routing import BaseRoute, Mount, Route
from starlette.types import Scope

from portico.gateway.demo import demo_token
from portico.gateway.pages.built import NO_CACHE, BuiltFiles, headers_with, is_from_this_machine
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
_HEADERS = headers_with(_POLICY.format(cdn=""))
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
        body = orjson.dumps(configuration(settings, domains, with_token=is_from_this_machine(request)))
        return Response(body, media_type="application/json", headers={"Cache-Control": "no-store"})

    found: list[BaseRoute] = [Route("/", index)]
    if settings.shows_graphiql:
        found += [Route("/graphiql/config.json", config), Route("/graphiql/", index)]
        files = BUILT if settings.graphiql == "on" and is_built() else _HERE / "static" / "cdn"
        found.append(Mount("/graphiql", BuiltFiles(files, _HEADERS)))
    return found


def is_built() -> bool:
    return (BUILT / "index.html").exists()


def page(settings: Settings) -> Response:
    """Returns GraphiQL, or a page that says how to get it."""
    if not settings.shows_graphiql:
        return HTMLResponse(
            _notice("GraphiQL is turned off on this gateway.", "Send queries to <code>/graphql</code>.")
        )
    if settings.graphiql == "cdn":
        headers = {**headers_with(_POLICY.format(cdn=f" {_CDN}")), **NO_CACHE}
        return FileResponse(_HERE / "static" / "cdn" / "index.html", headers=headers)
    if is_built():
        return FileResponse(BUILT / "index.html", headers={**_HEADERS, **NO_CACHE})
    how = (
        "Install Node.js 20 or later and run <code>make graphiql</code>, or set <code>PORTICO_GRAPHIQL=cdn</code> "
        "to load it from a public CDN. You can send queries to <code>/graphql</code> without it."
    )
    return HTMLResponse(_notice("GraphiQL is not built.", how), headers={**_HEADERS, **NO_CACHE})


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
