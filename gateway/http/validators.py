"""Validators of answers to GET requests: a client that has the same answer already gets it without its body.

Source: RFC 9110, "Conditional Requests"; RFC 9111, "HTTP Caching".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from starlette.datastructures import Headers

_DIGEST = 18
# The answer is that of its caller. A store may keep it, and must ask each time whether it is still the answer.
_CACHE_CONTROL = "private, no-cache"
_VARY = "Accept, Authorization"


def validators_of(body: bytes, media_type: str, headers: Headers) -> dict[str, str]:
    """Returns the headers with which a client can ask again: a strong `ETag`, and how the answer may be kept.

    The tag is that of the bytes which are sent, so it depends on what the client accepts.
    """
    about = f"{media_type}\n{headers.get('accept-encoding', '')}\n".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(about + body, digest_size=_DIGEST).hexdigest()
    return {"ETag": f'"{digest}"', "Cache-Control": _CACHE_CONTROL, "Vary": _VARY}


def has_it(headers: Headers, validators: Mapping[str, str]) -> bool:
    """Returns whether the client has this answer, by its `If-None-Match`."""
    known = headers.get("if-none-match")
    if known is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or validators["ETag"] in tags
