"""Compresses responses for clients that accept it: with zstd, Brotli or gzip, in this order.

Streams of events are not compressed: each event must reach its client at once.
"""

from __future__ import annotations

from typing import Any

from starlette.middleware import Middleware
from starlette.types import Scope
from starlette_compress import CompressMiddleware, add_compress_type, remove_compress_type

from portico.gateway.settings import Settings

from .requests import EVENT_TYPE, RESPONSE_TYPE

# Higher levels take more time than they save on most networks. An answer is compressed in the event loop.
_LEVELS = {"zstd_level": 3, "brotli_quality": 3, "gzip_level": 3}

# The middleware has one list of media types for the whole process.
add_compress_type(RESPONSE_TYPE)
remove_compress_type(EVENT_TYPE)


def compression_of(settings: Settings) -> list[Middleware]:
    """Returns the middleware that compresses; none if the settings turn it off."""
    if not settings.compression:
        return []
    options: dict[str, Any] = {"minimum_size": settings.compress_bytes, **_LEVELS}
    return [Middleware(CompressMiddleware, **options)]


def accepts_compression(scope: Scope) -> bool:
    """Returns whether a request says which encodings it accepts."""
    return b"accept-encoding" in dict(scope["headers"])
