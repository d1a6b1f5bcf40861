"""The address and the scheme of a client behind a proxy."""

from __future__ import annotations

import os
from collections.abc import Awaitable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_HEADERS = {b"x-forwarded-for", b"x-forwarded-proto"}


class Forwarded:
    """Takes the address and the scheme from the headers of a trusted proxy. Other requests pass untouched."""

    def __init__(self, app: ASGIApp) -> None:
        """The variable FORWARDED_ALLOW_IPS names the trusted proxies, as uvicorn documents it."""
        self._app = app
        # uvicorn has types of its own for the same protocol.
        middleware: Any = ProxyHeadersMiddleware
        trusted = os.environ.get("FORWARDED_ALLOW_IPS", "127.0.0.1,::1")
        self._behind_proxy: ASGIApp = middleware(app, trusted_hosts=trusted)

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        # Without `async`, the server awaits the application itself.
        if scope["type"] == "lifespan" or _HEADERS.isdisjoint(dict(scope["headers"])):
            return self._app(scope, receive, send)
        return self._behind_proxy(scope, receive, send)
