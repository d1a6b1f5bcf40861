"""Serves pages that a tool has built, and tells whether a request comes from such a page on this machine."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.staticfiles import StaticFiles
from starlette.types import Scope

NO_CACHE = {"Cache-Control": "no-cache"}
# A host name or address that always means the machine itself, with an optional port.
_LOCAL_HOST = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::([0-9]{1,5}))?", re.IGNORECASE | re.ASCII)
_HTTP_PORT = 80


def headers_with(policy: str) -> Mapping[str, str]:
    """Returns the headers of a page and its files, with this Content Security Policy."""
    return {
        "Content-Security-Policy": policy,
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


class BuiltFiles(StaticFiles):
    """Serves the files of a folder. Names in `assets/` contain a hash, so browsers may cache these files forever."""

    def __init__(self, directory: Path, headers: Mapping[str, str]) -> None:
        super().__init__(directory=directory)
        self._headers = headers

    async def get_response(self, path: str, scope: Scope) -> Response:
        response = await super().get_response(path, scope)
        response.headers.update(self._headers)
        if path.startswith("assets/"):
            response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def is_from_this_machine(request: Request) -> bool:
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
