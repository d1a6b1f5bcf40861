"""What pages of other origins may send (CORS). What is refused is logged, because browsers show little of it."""

from __future__ import annotations

import re
from typing import Any

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp

from portico.gateway.bounded_log import BoundedLog
from portico.gateway.settings import PREFIX, Settings, SettingsError
from portico.gateway.telemetry.recording import CLIENT_NAME_HEADERS

from .origins import origins_of
from .request_ids import TRACE_HEADERS
from .uploads import PREFLIGHT_HEADERS

# What well-known clients and the libraries beside them send.
_CLIENTS = (
    "authorization",
    "content-type",
    "if-none-match",
    "if-range",
    "range",
    "x-portico-plan",
    "x-requested-with",
    "idempotency-key",
    "last-event-id",
    "apollographql-client-version",
    "graphql-client-version",
)
_TRACING = (
    "baggage",
    "sentry-trace",
    "b3",
    "x-b3-traceid",
    "x-b3-spanid",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-datadog-origin",
    "x-datadog-parent-id",
    "x-datadog-sampling-priority",
    "x-datadog-tags",
    "x-datadog-trace-id",
    "elastic-apm-traceparent",
    "newrelic",
)
_ALLOWED = (*_CLIENTS, *_TRACING, *TRACE_HEADERS, *CLIENT_NAME_HEADERS, *PREFLIGHT_HEADERS)
_EXPOSED = (
    "x-request-id",
    "etag",
    "content-range",
    "retry-after",
    "ratelimit",
    "ratelimit-policy",
    "www-authenticate",
)
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
# A browser sends `null` for a page without an origin, and no path.
_ORIGIN = re.compile(r"\*|null|[A-Za-z][A-Za-z0-9+.-]*://[^\s/?#@]*")
_SHOWN = 500


def cors_of(settings: Settings) -> list[Middleware]:
    """Returns the middleware for pages of other origins; none if there are no such origins. Raises SettingsError."""
    more = [name.strip().lower() for name in (settings.cors_headers or "").split(",") if name.strip()]
    wrong = next((name for name in more if not _NAME.fullmatch(name)), None)
    if wrong is not None:
        raise SettingsError(f"{PREFIX}CORS_HEADERS must be names of headers, separated by commas; got {wrong!r}.")
    origins = origins_of(settings)
    if not origins:
        return []
    wrong = next((origin for origin in origins if not _ORIGIN.fullmatch(origin)), None)
    if wrong is not None:
        raise SettingsError(
            f"{PREFIX}CORS_ORIGINS must be origins, for example https://shop.example, or `*`; got {wrong!r}."
        )
    allowed = ["*"] if "*" in more else [*_ALLOWED, *more]
    cors = Middleware(
        Cors,
        allow_origins=origins,
        allow_methods=["GET", "POST"],
        allow_headers=allowed,
        expose_headers=_EXPOSED,
        max_age=3600,
    )
    return [cors]


class Cors(CORSMiddleware):
    """Starlette's middleware, with a log of what it refuses."""

    def __init__(self, app: ASGIApp, /, **options: Any) -> None:
        super().__init__(app, **options)
        self._log = BoundedLog()

    def preflight_response(self, request_headers: Headers) -> Response:
        response = super().preflight_response(request_headers)
        if response.status_code != 200:  # noqa: PLR2004
            log_refused_page(self._log, request_headers, bytes(response.body).decode())
        return response


def log_refused_page(log: BoundedLog, headers: Headers, why: str) -> None:
    """Logs that a page of another origin may not do what it asks for."""
    asked = {
        "origin": headers.get("origin"),
        "method": headers.get("access-control-request-method"),
        "headers": headers.get("access-control-request-headers"),
    }
    shown = {name: value[:_SHOWN] for name, value in asked.items() if value is not None}
    log.add("page refused", repr(shown), why=why, **shown)
