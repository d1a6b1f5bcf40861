"""Validators of answers to GET requests: a client that has the same answer already gets it without its body.

Source: RFC 9110, "Conditional Requests"; RFC 9111, "HTTP Caching".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from starlette.datastructures import Headers

from portico.gateway.cache.kept_answers import KeptAnswer

from .freshness import ACCEPT_AND_CALLER

_DIGEST = 18
# The most tags of a kept answer: clients differ in what they accept.
_TAGS = 16
# The answer is that of its caller. A store may keep it, and must ask each time whether it is still the answer.
_CACHE_CONTROL = "private, no-cache"


def validators_of(body: bytes, media_type: str, headers: Headers, answer: KeptAnswer | None = None) -> dict[str, str]:
    """Returns the headers with which a client can ask again: a strong `ETag`, and that it must ask each time.

    The tag is that of the bytes which are sent, so it depends on what the client accepts. If this is the body of a kept
    `answer`, its tags are kept, too.
    """
    encodings = headers.get("accept-encoding", "")
    key = (media_type, encodings)
    tag = None if answer is None else answer.tags.get(key)
    if tag is None:
        about = f"{media_type}\n{encodings}\n".encode("utf-8", "surrogatepass")
        tag = f'"{hashlib.blake2b(about + body, digest_size=_DIGEST).hexdigest()}"'
        if answer is not None and len(answer.tags) < _TAGS:
            answer.tags[key] = tag
    return {"ETag": tag, "Cache-Control": _CACHE_CONTROL, "Vary": ACCEPT_AND_CALLER}


def has_it(headers: Headers, validators: Mapping[str, str]) -> bool:
    """Returns whether the client has this answer, by its `If-None-Match`."""
    known = headers.get("if-none-match")
    if known is None:
        return False
    tags = {tag.strip().removeprefix("W/") for tag in known.split(",")}
    return "*" in tags or validators["ETag"] in tags
