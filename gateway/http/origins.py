"""Whose web pages may call the gateway."""

from __future__ import annotations

from urllib.parse import urlsplit

from starlette.datastructures import Headers

from portico.gateway.settings import Settings

_DEFAULT_PORTS = {"http": 80, "https": 443}


def origins_of(settings: Settings) -> list[str]:
    """Returns the origins, beside the gateway's own, whose web pages may call the gateway."""
    return [origin.strip() for origin in (settings.cors_origins or "").split(",") if origin.strip()]


def may_connect(headers: Headers, settings: Settings) -> bool:
    """Returns whether the origin of a page lets it open a socket. Browsers send the page's origin, and allow any.

    A page of the gateway itself has the gateway's host and port. The schemes are not compared, because a gateway behind
    a TLS proxy does not know its own.
    """
    origin = headers.get("origin")
    origins = origins_of(settings)
    if origin is None or origin in origins or "*" in origins:
        return True
    try:
        page, own = urlsplit(origin), urlsplit(f"//{headers.get('host', '')}")
        ports = page.port, own.port
    except ValueError:
        return False
    default = _DEFAULT_PORTS.get(page.scheme)
    return default is not None and (page.hostname, ports[0] or default) == (own.hostname, ports[1] or default)
